"""The methods straight from their formulas, one descriptor and one anchor at a time: slow, and plainly right."""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from faemb import TLCC, VLAD, VLAT, BoW, FAemb, FastFAemb, Fisher, Triangulation
from faemb.arrays import to_numpy
from faemb.embedding import Embedding


def embed_by_the_book(method: Embedding, x: np.ndarray) -> np.ndarray:
    """phi(x) for each row of x, in float64."""
    anchors = to_numpy(method.anchors_).astype(np.float64)
    return np.array([_one(method, p, anchors) for p in x.astype(np.float64)])


def _one(method: Embedding, p: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    coefficients = code_by_the_book(method, p, anchors)
    return np.concatenate(
        [_block(method, j, p - v, a) for j, (v, a) in enumerate(zip(anchors, coefficients, strict=True))]
    )


def _block(method: Embedding, j: int, r: np.ndarray, a: float) -> np.ndarray:
    if method.has_unit_residuals:
        r = r / np.linalg.norm(r) if np.linalg.norm(r) > 0 else 0 * r
    match method:
        case BoW():
            entries = [1.0]
        case VLAD(local_axes=True):
            entries = list(to_numpy(method.rotations_)[j].astype(np.float64) @ r)
        case VLAD() | Triangulation():
            entries = list(r)
        case VLAT():
            entries = upper(r)
        case Fisher():
            z = r / to_numpy(method.deviations_)[j]
            entries = [*z, *((z**2 - 1) / math.sqrt(2))]
        case TLCC():
            entries = ([method.constant_scale] if method.constant_scale else []) + list(r)
        case FAemb(order=1) | FastFAemb(order=1):
            entries = ([method.constant_scale] if method.constant_scale else []) + list(r)
        case FAemb() | FastFAemb():
            entries = [method.constant_scale] if method.constant_scale else []
            entries += list(method.linear_scale * r) if method.linear_scale else []
            entries += upper(r)
    return a * np.array(entries)


def upper(r: np.ndarray) -> list[float]:
    return [r[i] * r[j] for i in range(len(r)) for j in range(i, len(r))]


def code_by_the_book(method: Embedding, p: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """a_j(x) for all anchors."""
    match method:
        case BoW() | VLAD() | VLAT():
            return np.eye(len(anchors))[np.argmin(np.linalg.norm(p - anchors, axis=1))]
        case Triangulation():
            distance = np.linalg.norm(p - anchors, axis=1)
            return np.array([1 / d if d > 0 else 0.0 for d in distance])
        case Fisher():
            return _posterior(method, p, anchors)
        case FastFAemb():
            return _ridge(method, p, anchors)
        case FAemb():
            costs = method.mu / 2 * np.abs(p - anchors).sum(1) ** (method.order + 1)
            return weighted_l1_by_enumeration(p, anchors, costs, sum_to_one=True)
        case TLCC():
            costs = method.mu / 2 * np.linalg.norm(p - anchors, axis=1) ** 3
            return weighted_l1_by_enumeration(p, anchors, costs, sum_to_one=False)
    raise AssertionError(method)


def _posterior(method: Fisher, p: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    priors, sigma = to_numpy(method.priors_).astype(float), to_numpy(method.deviations_).astype(float)
    density = np.prod(np.exp(-0.5 * ((p - anchors) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi)), axis=1)
    return priors * density / (priors * density).sum() / np.sqrt(priors)


def _ridge(method: FastFAemb, p: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """[DC17, Eq. 28 and 29] as printed, with a matrix inverse; C of the paper is `anchors.T`."""
    a = np.sum(np.abs(p - anchors).sum(1) ** (method.order + 1))
    inverse = np.linalg.inv(anchors @ anchors.T + a * method.mu * np.eye(len(anchors)))
    ones = np.ones(len(anchors))
    multiplier = (ones @ inverse @ anchors @ p - 1) / (ones @ inverse @ ones)
    return inverse @ (anchors @ p - multiplier * ones)


def weighted_l1_by_enumeration(
    p: np.ndarray, anchors: np.ndarray, costs: np.ndarray, *, sum_to_one: bool
) -> np.ndarray:
    """The optimum found by trying every pattern of signs: given the signs, the problem is a linear system."""
    best, solution = np.inf, np.zeros(len(anchors))
    for signs in itertools.product((-1, 0, 1), repeat=len(anchors)):
        s = np.array(signs)
        on = np.flatnonzero(s)
        if sum_to_one and not len(on):
            continue
        g = np.zeros(len(anchors))
        g[on] = _stationary(p, anchors[on], (costs * s)[on], sum_to_one)
        if (g * s < 0).any():
            continue
        value = 0.5 * np.sum((p - g @ anchors) ** 2) + costs @ np.abs(g)
        if value < best:
            best, solution = value, g
    return solution


def _stationary(p: np.ndarray, anchors: np.ndarray, slopes: np.ndarray, sum_to_one: bool) -> np.ndarray:
    gram, right = anchors @ anchors.T, anchors @ p - slopes
    if sum_to_one:
        ones = np.ones((len(anchors), 1))
        gram = np.block([[gram, ones], [ones.T, np.zeros((1, 1))]])
        right = np.append(right, 1.0)
    return np.linalg.lstsq(gram, right, rcond=None)[0][: len(anchors)]


def matches_by_the_book(a: np.ndarray, b: np.ndarray, ratio: float) -> list[tuple[int, int]]:
    """Pairs of unit vectors that are each other's nearest, and nearer than `ratio` times the second nearest."""
    distance = np.linalg.norm(a[:, None].astype(np.float64) - b[None], axis=2)
    found = []
    for i, j in enumerate(distance.argmin(1)):
        second = min((distance[i, k] for k in range(len(b)) if k != j), default=math.inf)
        if distance[:, j].argmin() == i and distance[i, j] < ratio * second:
            found.append((distance[i, j], i, int(j)))
    return [(i, j) for _, i, j in sorted(found)]


def improbability_by_the_book(agreeing: int, of: int, chance: float) -> float:
    """Minus the logarithm of the probability that at least so many of independent matches agree by chance."""
    terms = (math.comb(of, k) * chance**k * (1 - chance) ** (of - k) for k in range(agreeing, of + 1))
    return -math.log(math.fsum(terms))


def reciprocal_by_the_book(
    similar: Sequence[Sequence[float]], k1: int = 4, k2: int = 2, own: float = 0.3
) -> list[float]:
    """Zhong et al. 2017: similarities of the first image to each of the others, re-ranked with sets of neighbours."""
    images = range(len(similar))

    def nearest(p: int, k: int) -> list[int]:
        """The image itself and its k nearest [Eq. 2], as the authors count."""
        return [p, *sorted((g for g in images if g != p), key=lambda g: -similar[p][g])[:k]]

    def mutual(p: int, k: int) -> set[int]:  # [Eq. 3]
        return {g for g in nearest(p, k) if p in nearest(g, k)}

    def expanded(p: int) -> set[int]:  # [Eq. 4]
        known = mutual(p, k1)
        closest = [mutual(g, k1 // 2) for g in known]
        return known.union(*(each for each in closest if len(known & each) >= 2 / 3 * len(each) - 1e-9))

    def neighbourhood(p: int) -> list[float]:
        weights = [math.exp(similar[p][g] - 1) if g in expanded(p) else 0.0 for g in images]  # [Eq. 7]
        return [weight / sum(weights) for weight in weights]

    sharp = [neighbourhood(p) for p in images]
    smooth = [[float(np.mean([sharp[n][g] for n in nearest(p, k2 - 1)])) for g in images] for p in images]  # [Eq. 11]
    overlaps = [
        sum(map(min, smooth[0], other)) / sum(map(max, smooth[0], other))  # [Eq. 10]
        for other in smooth[1:]
    ]
    return [own * s + (1 - own) * overlap for s, overlap in zip(similar[0][1:], overlaps, strict=True)]  # [Eq. 12]
