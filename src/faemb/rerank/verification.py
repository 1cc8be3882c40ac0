"""Geometric verification: whether the matches of two images agree with one transform, and how surprising that is.

Every match of two affine regions gives a transform of its own, so nothing is drawn at random. Those with the most
votes are refined by least squares on the matches that agree with them, then to a perspective transform where that
explains more. The best is the one whose agreement is least probable by chance, at the tolerance that makes it so.

    matches -> one affine map each -> votes -> distinct seeds -> refined -> least probable -> perspective

Coordinates are centred, in units of the image's diagonal.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from faemb.rerank.chance import Places, improbability
from faemb.rerank.matching import Matchable, matches
from faemb.rerank.transforms import (
    Transforms,
    affine_fits,
    apply,
    apply_affine,
    determinants,
    homography_fit,
    local_affine,
    turn_of,
)

TOLERANCES = np.array([0.04, 0.02, 0.01, 0.005])
"""Distances, in diagonals, within which a match agrees with a transform."""
UPRIGHT = np.pi / 4
"""Largest turn between two images whose features are described upright; others would not have matched."""
_VOTING = 0.03
"""Tolerance for the transform of a single match, which is less exact."""
_SCALE = 0.7
"""Largest difference of the logarithms of the scale of a match and of a transform that agree."""
_SCALES_AGREE = 0.45
"""Share of wrong matches whose scale agrees by chance."""
_SEEDS = 6
_OVERLAP = 0.7
"""Seeds that share more than this of their votes are the same."""
_REFINING = (0.04, 0.02, 0.01)
"""Tolerance of each step of refinement."""
_LEAST = 3
"""An affine transform agrees with any three matches."""
_LEAST_HOMOGRAPHY = 8
_FREE, _FREE_HOMOGRAPHY = 1, 2


@dataclass(frozen=True, eq=False)
class Verification:
    """What the matches of two images say about them."""

    evidence: float
    """Minus the natural logarithm of the probability that as many matches agree by chance, at least 0."""
    matches: Int[np.ndarray, "M 2"]
    """Numbers of matched features of the first and the second image."""
    agreeing: Bool[np.ndarray, " M"]
    """The matches that agree with `transform`."""
    transform: Float[np.ndarray, "3 3"] | None
    """From pixels of the first image to pixels of the second; None if no three matches agree."""
    places: int = 0
    """Number of distinct places of the agreeing matches: a burst in one place counts once."""
    points: Float32[np.ndarray, "M 4"] = field(default_factory=lambda: np.zeros((0, 4), np.float32))
    """Centres of the matched regions, in pixels: x and y in the first image, x and y in the second."""

    def __repr__(self) -> str:
        return f"Verification({self.agreeing.sum()} of {len(self.matches)} matches agree, evidence {self.evidence:.1f})"


def verify(first: Matchable, second: Matchable, *, turn: float = UPRIGHT) -> Verification:
    """Match two images and find the transform that their matches agree with, turning by at most `turn`."""
    pairs = matches(first, second)
    numbers = np.stack([first.rows[pairs[:, 0]], second.rows[pairs[:, 1]]], axis=1)
    points = np.concatenate([first.centres[pairs[:, 0]], second.centres[pairs[:, 1]]], axis=1).astype(np.float32)
    found = _Agreement(first, second, pairs, turn).best() if len(pairs) >= _LEAST else None
    if found is None:
        return Verification(0.0, numbers, np.zeros(len(pairs), bool), None, points=points)
    transform = np.linalg.inv(_to_units(second)) @ found.transform @ _to_units(first)
    return Verification(found.evidence, numbers, found.agreeing, transform / transform[2, 2], found.places, points)


@dataclass(eq=False)
class _Found:
    evidence: float
    agreeing: Bool[np.ndarray, " M"]
    transform: Float[np.ndarray, "3 3"]
    places: int
    tolerance: float


class _Agreement:
    """Searches for the transform that the given matches agree with most surprisingly."""

    def __init__(self, first: Matchable, second: Matchable, pairs: Int[np.ndarray, "M 2"], turn: float) -> None:
        self.turn = turn
        self.x, self.y = _centred(first, pairs[:, 0]), _centred(second, pairs[:, 1])
        shape_x, shape_y = first.shapes[pairs[:, 0]], second.shapes[pairs[:, 1]]
        self.maps = local_affine(self.x, self.y, shape_x, shape_y * (first.diagonal / second.diagonal))
        self.scales = np.log(np.abs(determinants(self.maps))) / 2
        self.area = second.size[0] * second.size[1] / second.diagonal**2

    @cached_property
    def chances(self) -> Float[np.ndarray, " T"]:
        """That a wrong match agrees with a transform, at each tolerance."""
        return np.minimum(np.pi * TOLERANCES**2 / self.area * _SCALES_AGREE, 0.5)

    @cached_property
    def places(self) -> Places:
        """Made when there is something to count: in most pairs of images, no three matches agree."""
        return Places(self.x, self.y)

    def best(self) -> _Found | None:
        chosen = self._seeds()
        found: list[_Found | None] = [None] * len(chosen)
        for tolerance in _REFINING if len(chosen) else ():
            transforms = affine_fits(self.x, self.y, chosen)
            missed = self._missed(*apply_affine(transforms, self.x))
            found = [_better(old, new) for old, new in zip(found, self._judged(transforms, missed, _FREE), strict=True)]
            chosen = missed < tolerance
        ranked = sorted((each for each in found if each is not None), key=lambda each: -each.evidence)
        if not ranked or ranked[0].evidence <= 0:
            return None
        best = self._perspective(ranked[0])
        best.evidence += self._other_parts(best, ranked[1:])
        return best

    def _seeds(self) -> Bool[np.ndarray, "H M"]:
        """The matches that agree with each of the transforms with the most votes."""
        votes = self._missed(*apply_affine(self.maps, self.x)) < _VOTING
        counts = np.where(np.abs(turn_of(self.maps)) <= self.turn, votes.sum(1), 0)
        seeds: list[int] = []
        for candidate in np.argsort(-counts, kind="stable"):
            if counts[candidate] < _LEAST or len(seeds) == _SEEDS:
                break
            shared = (votes[seeds] & votes[candidate]).sum(1)
            if (shared < _OVERLAP * counts[candidate]).all():
                seeds.append(candidate)
        return votes[seeds]

    def _missed(self, mapped: Float[np.ndarray, "H 2 M"], scale: Float[np.ndarray, "H _"]) -> Float[np.ndarray, "H M"]:
        """By how much each match misses each transform, in the image where that is more; infinite if scales differ.

        `mapped` and `scale` are what the transforms make of the points of the first image.
        """
        across, down = mapped[:, 0] - self.y[:, 0], mapped[:, 1] - self.y[:, 1]
        distance = np.sqrt(across * across + down * down) * np.maximum(1, 1 / scale)
        return np.where(np.abs(self.scales - np.log(scale)) < _SCALE, distance, np.inf)

    def _judged(self, transforms: Transforms, missed: Float[np.ndarray, "H M"], free: int) -> list[_Found]:
        """Each transform at the tolerance at which its agreement is least probable; `free` places count nothing."""
        agreeing = missed < TOLERANCES[:, None, None]
        count = agreeing.sum(2)
        places = self.places.count(agreeing.reshape(-1, len(self.x))).reshape(count.shape)
        evidence = self._evidence(count, places, len(self.x), self.chances[:, None], free)
        chosen = evidence.argmax(0)
        return [
            _Found(float(evidence[t, h]), agreeing[t, h], transforms[h], int(places[t, h]), float(TOLERANCES[t]))
            for h, t in enumerate(chosen)
        ]

    def _evidence(self, count: np.ndarray, places: np.ndarray, of: int, chance: np.ndarray, free: int) -> np.ndarray:
        """Matches of one place are one trial: all numbers are reduced alike."""
        trials = of * places / np.maximum(count, 1)
        surprise = improbability(np.maximum(places - free, 0), trials, chance) - np.log(len(self.x))
        return np.where(count >= _LEAST, surprise, 0.0)

    def _perspective(self, found: _Found) -> _Found:
        """A perspective transform instead of the affine one, as long as that explains more."""
        for _ in _REFINING:
            if found.agreeing.sum() < _LEAST_HOMOGRAPHY:
                break
            fit = homography_fit(self.x[found.agreeing], self.y[found.agreeing])
            if fit is None:
                break
            better = self._judged(fit[None], self._missed(*apply(fit[None], self.x)), _FREE_HOMOGRAPHY)[0]
            if better.evidence <= found.evidence:
                break
            found = better
        return found

    def _other_parts(self, best: _Found, others: list[_Found]) -> float:
        """Evidence of parts of a scene that move otherwise, such as another wall."""
        free, total = ~best.agreeing, 0.0
        for other in others:
            rest = (other.agreeing & free)[None]
            chance = self.chances[np.flatnonzero(other.tolerance == TOLERANCES)]
            more = self._evidence(rest.sum(1), self.places.count(rest), int(free.sum()), chance, _FREE)[0]
            if more > 0:
                total += float(more)
                free &= ~rest[0]
        return total


def _better(old: _Found | None, new: _Found) -> _Found:
    return new if old is None or new.evidence > old.evidence else old


def _centred(image: Matchable, rows: Int[np.ndarray, " M"]) -> Float[np.ndarray, "M 2"]:
    return (image.centres[rows] - np.array(image.size) / 2) / image.diagonal


def _to_units(image: Matchable) -> Float[np.ndarray, "3 3"]:
    """From pixels to centred coordinates in diagonals."""
    width, height = image.size
    return np.array([[1, 0, -width / 2], [0, 1, -height / 2], [0, 0, image.diagonal]]) / image.diagonal
