"""Embedding, coding and aggregation at n = 16 and d = 45 (D = 16,560), one image having 1,000 descriptors.

Data are rendered: Gaussian descriptors whose variances fall like those of RootSIFT after PCA. The whitening comes from
a Cholesky factor, since an eigendecomposition at D = 16,560 would take many times longer than all the rest.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from scipy.linalg import lapack
from threadpoolctl import threadpool_limits

from benchmarks.report import Result, best_seconds_of_both, peak_megabytes
from faemb import FAemb, FastFAemb, Whitening
from faemb.benchmark.rows import best_seconds
from faemb.embedding import Embedding
from faemb.embedding.codings import FunctionApproximation
from faemb.pooling import Gram, democratic, sinkhorn
from faemb.sets import Batch, as_sets, batches

ANCHORS, WIDTH, DESCRIPTORS, IMAGES = 16, 45, 1000, 64
EXPLICIT_IMAGES = 2
WHITENING_ROWS = 25_000


def run() -> Iterator[Result]:
    rng = np.random.default_rng(0)
    training = descriptors(rng, 6000)
    method = FastFAemb(ANCHORS, unit_residuals=True)
    method.fit(training)
    with threadpool_limits(1):
        plain = FastFAemb(ANCHORS)
        plain.with_anchors(method.anchors_)
        yield from embedding(plain, descriptors(rng, DESCRIPTORS))
        yield from codings(method, descriptors(rng, DESCRIPTORS))
    yield from aggregation(method, cholesky_whitening(method, partial(descriptors, rng)), rng)


def descriptors(rng: np.random.Generator, count: int) -> np.ndarray:
    scale = 0.15 / np.sqrt(1 + np.arange(WIDTH) / 4)
    return (rng.standard_normal((count, WIDTH)) * scale).astype(np.float32)


def embedding(method: FastFAemb, x: np.ndarray) -> Iterator[Result]:
    """Never forming the rows, against forming them as the formula says."""
    ones = np.ones(len(x), np.float32)
    pooling, rows = best_seconds_of_both(lambda: method.operator(x).pool(ones), lambda: dense_rows(method, x))
    own = best_seconds(lambda: method.operator(x).dense(), 5)
    per_descriptor = 1e6 / len(x)
    yield Result("coefficients + pool, one core", pooling * per_descriptor, "µs/descriptor", "<= 10")
    yield Result("dense rows by the formula, one core", rows * per_descriptor, "µs/descriptor")
    yield Result("dense rows by Embedded.dense, one core", own * per_descriptor, "µs/descriptor")
    yield Result("dense rows by the formula / (coefficients + pool)", rows / pooling, "times", ">= 50")


def dense_rows(method: FastFAemb, x: np.ndarray) -> np.ndarray:
    """g_j upper(r r') for all descriptors and anchors, written as it is printed."""
    i, j = np.triu_indices(x.shape[1])
    coefficients = method.coding(x).weights(x)
    r = x[:, None, :] - method.anchors_
    if method.unit_residuals:
        r = r / np.linalg.norm(r, axis=2, keepdims=True)
    return (coefficients[:, :, None] * (r[:, :, i] * r[:, :, j])).reshape(len(x), -1)


def codings(method: FastFAemb, x: np.ndarray) -> Iterator[Result]:
    """FAemb's coding, solved to its optimum, against F-FAemb's closed form."""
    fast = method.coding(x)
    slow = FAemb(ANCHORS).with_anchors(method.anchors_).coding(x)
    wide = x.astype(np.float64)
    exact = FunctionApproximation(method.anchors_.astype(np.float64), mu=FAemb(ANCHORS).mu)
    residual = float(exact.kkt_residual(wide, exact.weights(wide)).max())
    closed, solved = best_seconds_of_both(lambda: fast.weights(x), lambda: slow.weights(x), 60)
    yield Result("F-FAemb coding, one core", closed * 1e6 / len(x), "µs/descriptor")
    yield Result("FAemb coding, one core", solved * 1e6 / len(x), "µs/descriptor")
    yield Result("FAemb coding / F-FAemb coding", solved / closed, "times", "<= 10")
    yield Result("FAemb coding, worst KKT residual in float64", residual, "", "<= 1e-6")


def aggregation(method: FastFAemb, whitening: Whitening, rng: np.random.Generator) -> Iterator[Result]:
    """Democratic vectors of a batch without forming anything N x D, against the explicit way, image by image."""
    (batch,) = batches(as_sets([descriptors(rng, DESCRIPTORS) for _ in range(IMAGES)]), IMAGES)
    products = CountedProducts(method, whitening, batch)
    twice = best_seconds(products.vectors, 2) / IMAGES
    start = time.perf_counter()
    explicit = [explicit_way(method, whitening, batch.x[image]) for image in range(EXPLICIT_IMAGES)]
    spent = (time.perf_counter() - start) / EXPLICIT_IMAGES
    theirs = peak_megabytes(lambda: explicit_way(method, whitening, batch.x[0]))
    start = time.perf_counter()
    whitening.prepare_metric(10**6)  # as when more than 600 images are encoded
    formed = time.perf_counter() - start
    once = best_seconds(products.vectors, 2) / IMAGES
    ours = peak_megabytes(products.vectors)
    cosine = min(cosines(products.vectors(), [exact_from_rows(whitened) for _, whitened in explicit]))
    yield Result("explicit democratic vector (rows, whitening, Gram, Sinkhorn)", 1e3 * spent, "ms/image")
    yield Result("matrix-free democratic vector", 1e3 * once, "ms/image")
    yield Result("matrix-free democratic vector, W'W not formed", 1e3 * twice, "ms/image")
    yield Result("forming W'W, once per model (1.1 GB)", formed, "s")
    yield Result("products with the Gram matrix, batch of 64", products.count, "products")
    yield Result("explicit / matrix-free", spent / once, "times", ">= 30")
    yield Result("explicit / matrix-free, W'W not formed", spent / twice, "times")
    yield Result("cosine between the two, same equation", cosine, "", ">= 0.999")
    yield Result("peak memory beside the model, matrix-free, 64 images together", ours, "MB")
    yield Result("peak memory beside the model, explicit, one image", theirs, "MB")
    yield Result("peak memory, matrix-free / explicit", ours / theirs, "times", "<= 0.2")


class CountedProducts:
    """The encoder's inner step on one batch, with its Gram products counted."""

    def __init__(self, method: FastFAemb, whitening: Whitening, batch: Batch) -> None:
        self.method, self.whitening, self.batch, self.count = method, whitening, batch, 0

    def vectors(self) -> np.ndarray:
        gram = Gram(self.method.operator(self.batch.x, self.batch.real), self.batch.real, self.whitening)
        self.count = 0

        def times(w: np.ndarray) -> np.ndarray:
            self.count += 1
            return gram.times(w)

        x = self.batch.x
        return gram.vector(democratic(times, gram.usable, diagonal=partial(gram.diagonal, x), like_x=x).weights)


def explicit_way(method: FastFAemb, whitening: Whitening, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One image: N x D rows, their whitening, the N x N Gram matrix, Sinkhorn; the vector and the whitened rows."""
    rows = dense_rows(method, x)
    rows -= whitening.mean_
    whitened = rows @ whitening.matrix_.T
    weights = sinkhorn((whitened @ whitened.T)[None], np.ones((1, len(x)), bool))
    return (weights @ whitened)[0], whitened


def exact_from_rows(whitened: np.ndarray) -> np.ndarray:
    """The vector that solves the same equation as the matrix-free way, from the explicit Gram matrix."""
    kernel = whitened @ whitened.T
    votes = np.ones((1, len(whitened)), bool)
    solved = democratic(lambda w: w @ kernel, votes, diagonal=lambda _: np.diag(kernel)[None], like_x=kernel)
    return (solved.weights @ whitened)[0]


def cosines(vectors: np.ndarray, references: list[np.ndarray]) -> Iterator[float]:
    for vector, reference in zip(vectors, references, strict=False):
        yield float(vector @ reference / np.linalg.norm(vector) / np.linalg.norm(reference))


def cholesky_whitening(method: Embedding, draw: Callable[[int], np.ndarray]) -> Whitening:
    """W = L^-1 with L L' the covariance: the same inner products as by eigenvectors, at a twentieth of the cost.

    In float32 with a ridge, which is exact enough for timing only.
    """
    length, batch = method.dimension, 2500
    mean = method.operator(draw(batch)).dense().mean(axis=0)
    covariance = np.zeros((length, length), np.float32)
    for _ in range(WHITENING_ROWS // batch):
        rows = method.operator(draw(batch)).dense()
        rows -= mean
        covariance += rows.T @ rows
    covariance[np.diag_indices(length)] += 1e-4 * np.trace(covariance) / length
    factor, _ = lapack.spotrf(covariance / WHITENING_ROWS, lower=1, overwrite_a=1, clean=1)
    inverse, _ = lapack.strtri(factor, lower=1, overwrite_c=1)
    whitening = Whitening()
    whitening.mean_, whitening.matrix_ = mean, np.ascontiguousarray(inverse)
    whitening.eigenvalues_ = np.full(length, np.trace(covariance) / WHITENING_ROWS / length)
    return whitening
