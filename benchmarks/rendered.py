"""Views of a photograph as another camera, a crop or an edit would show it: rendered, the same for the same seed."""

from dataclasses import dataclass

import cv2
import numpy as np
from jaxtyping import UInt8

Pixels = UInt8[np.ndarray, "h w 3"]


@dataclass(frozen=True)
class Changes:
    """How far a view may be from the photograph; each view draws its own changes up to these."""

    least_area: float = 0.25
    """Smallest share of the photograph that a view shows."""
    perspective: float = 0.18
    """Largest shift of a corner, in sides of the view."""
    roll: float = 12.0
    """Largest turn in degrees."""
    smallest: float = 0.5
    """Smallest size of a view compared with the part of the photograph that it shows."""
    gamma: float = 1.7
    blur: float = 1.2
    """Largest standard deviation of a Gaussian, in pixels."""
    hidden: float = 0.3
    """Largest share of a side that something in front hides."""
    quality: int = 40
    """Lowest JPEG quality."""


def view(photograph: Pixels, rng: np.random.Generator, changes: Changes, area: float | None = None) -> Pixels:
    """A part of the photograph with this share of its area, or a random one, seen from elsewhere."""
    height, width = photograph.shape[:2]
    share = np.sqrt(area if area is not None else rng.uniform(changes.least_area, 1.0))
    part = np.array([width, height]) * share
    corner = rng.uniform(0, 1, 2) * (np.array([width, height]) - part)
    unit = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float64)
    seen = corner + part * unit
    size = np.maximum(np.rint(part * rng.uniform(changes.smallest, 1.0)), 32).astype(int)
    turned = (unit - 0.5) @ _rotation(rng.uniform(-1, 1) * changes.roll) + 0.5
    shifted = turned + rng.uniform(-0.5, 0.5, (4, 2)) * changes.perspective
    transform = cv2.getPerspectiveTransform(seen.astype(np.float32), (shifted * size).astype(np.float32))
    pixels = cv2.warpPerspective(
        photograph, transform, tuple(size.tolist()), flags=cv2.INTER_AREA, borderValue=(128,) * 3
    )
    return _encoded(_hidden(_lit(_blurred(pixels, rng, changes), rng, changes), rng, changes), rng, changes)


def _rotation(degrees: float) -> np.ndarray:
    angle = np.radians(degrees)
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


def _blurred(pixels: Pixels, rng: np.random.Generator, changes: Changes) -> Pixels:
    sigma = rng.uniform(0, changes.blur)
    return np.asarray(cv2.GaussianBlur(pixels, (0, 0), sigma)) if sigma > 0.3 else pixels


def _lit(pixels: Pixels, rng: np.random.Generator, changes: Changes) -> Pixels:
    levels = (pixels / 255.0) ** (changes.gamma ** rng.uniform(-1, 1)) * rng.uniform(0.85, 1.1, 3)
    return np.clip(255 * levels, 0, 255).astype(np.uint8)


def _hidden(pixels: Pixels, rng: np.random.Generator, changes: Changes) -> Pixels:
    size = np.array(pixels.shape[1::-1])
    extent = rng.uniform(0, changes.hidden, 2) * size
    start = rng.uniform(0, 1, 2) * (size - extent)
    colour = tuple(int(level) for level in rng.integers(0, 255, 3))
    return np.asarray(cv2.rectangle(pixels.copy(), start.astype(int), (start + extent).astype(int), colour, -1))


def _encoded(pixels: Pixels, rng: np.random.Generator, changes: Changes) -> Pixels:
    quality = int(rng.integers(changes.quality, 96))
    return np.asarray(
        cv2.imdecode(cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])[1], cv2.IMREAD_COLOR)
    )
