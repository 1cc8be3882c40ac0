"""Local features of a scene, and of the same scene as a known transform shows it."""

import numpy as np

from faemb.features import LocalFeatures
from faemb.features.local_features import frames_from
from faemb.rerank import Matchable

SIZE = (640, 480)


def scene(rng: np.random.Generator, count: int, size: tuple[int, int] = SIZE) -> LocalFeatures:
    """Features at random places, with random regions and descriptors."""
    centres = rng.uniform(0, 1, (count, 2)) * size
    return LocalFeatures(descriptors(rng, count), frames_from(centres, regions(rng, count)), rng.random(count), size)


def descriptors(rng: np.random.Generator, count: int) -> np.ndarray:
    drawn = rng.standard_normal((count, 64)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def regions(rng: np.random.Generator, count: int) -> np.ndarray:
    """Upright ellipses, as of the detector: lower triangular."""
    radii = np.exp(rng.uniform(np.log(4), np.log(20), count))
    shapes = np.tile(np.eye(2), (count, 1, 1))
    shapes[:, 1, 0] = rng.uniform(-0.4, 0.4, count)
    shapes[:, 1, 1] = rng.uniform(0.6, 1.5, count)
    return radii[:, None, None] * shapes


def seen(
    features: LocalFeatures, transform: np.ndarray, rng: np.random.Generator, *, wrong: float = 0.0, noise: float = 0.5
) -> LocalFeatures:
    """The features where the transform takes them; a share of `wrong` ones is anywhere, with any region.

    noise: standard deviation of the places, in pixels
    """
    centres, shapes = mapped(transform, features.centres), jacobians(transform, features.centres) @ features.shapes
    centres = centres + noise * rng.standard_normal(centres.shape)
    lost = rng.permutation(len(features))[: round(wrong * len(features))]
    centres[lost] = rng.uniform(0, 1, (len(lost), 2)) * features.image_size
    shapes[lost] = regions(rng, len(lost))
    return LocalFeatures(features.descriptors, frames_from(centres, shapes), features.scores, features.image_size)


def mapped(transform: np.ndarray, points: np.ndarray) -> np.ndarray:
    x = np.concatenate([points, np.ones((len(points), 1))], axis=1) @ transform.T
    return x[:, :2] / x[:, 2:]


def jacobians(transform: np.ndarray, points: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """By differences."""
    points = points.astype(np.float64)
    columns = [
        (mapped(transform, points + shift) - mapped(transform, points - shift)) / (2 * step)
        for shift in step * np.eye(2)
    ]
    return np.stack(columns, axis=2)


def corners(size: tuple[int, int] = SIZE) -> np.ndarray:
    width, height = size
    return np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float64)


def about_the_middle(linear: np.ndarray, size: tuple[int, int] = SIZE) -> np.ndarray:
    """A transform with this linear part that keeps the middle of the image where it is."""
    transform, middle = np.eye(3), np.array(size) / 2
    transform[:2, :2], transform[:2, 2] = linear, middle - linear @ middle
    return transform


def turned(degrees: float, scale: float = 1.0) -> np.ndarray:
    angle = np.radians(degrees)
    rotation = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return about_the_middle(scale * np.array(rotation))


def perspective(strength: float) -> np.ndarray:
    """The right side is further away."""
    transform = turned(5, 0.9)
    tilt = np.eye(3)
    tilt[2, 0] = strength / SIZE[0]
    return tilt @ transform


def prepared(first: LocalFeatures, second: LocalFeatures) -> tuple[Matchable, Matchable]:
    return Matchable.of(first), Matchable.of(second)
