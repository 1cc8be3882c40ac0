"""Edits of a photograph, as people make them before they pass it on: rendered, the same for the same seed."""

from collections.abc import Callable

import cv2
import numpy as np

from benchmarks.rendered import Pixels

_FONT = cv2.FONT_HERSHEY_SIMPLEX


def resized(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """To 40 to 80 % of its sides."""
    share = rng.uniform(0.4, 0.8)
    return np.asarray(cv2.resize(pixels, None, fx=share, fy=share, interpolation=cv2.INTER_AREA))


def reencoded(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    return _jpeg(pixels, int(rng.integers(20, 50)))


def cropped(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """To 60 % of its area, at any place."""
    return _part(pixels, 0.6, rng)


def small_part(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """15 to 30 % of its area, at any place."""
    return _part(pixels, rng.uniform(0.15, 0.3), rng)


def turned(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """By 5 degrees, with black corners."""
    height, width = pixels.shape[:2]
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), float(rng.choice([-5, 5])), 1.0)
    return np.asarray(cv2.warpAffine(pixels, matrix, (width, height), flags=cv2.INTER_CUBIC))


def captioned(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """A white bar with text, below the picture or over its lower part."""
    height, width = pixels.shape[:2]
    bar = np.full((int(0.15 * height), width, 3), 255, np.uint8)
    _write(bar, "a caption " + str(rng.integers(1000)), (8, int(0.7 * len(bar))), len(bar) / 50, (0, 0, 0))
    kept = pixels if rng.random() < 0.5 else pixels[: height - len(bar)]
    return np.concatenate([kept, bar])


def mirrored(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    return np.ascontiguousarray(pixels[:, ::-1])


def recoloured(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Another exposure, contrast and white balance; one in four becomes grey."""
    levels = (pixels / 255.0) ** rng.uniform(0.6, 1.6) * rng.uniform(0.7, 1.2, 3) + rng.uniform(-0.08, 0.08)
    shown = np.clip(255 * levels, 0, 255).astype(np.uint8)
    return np.repeat(cv2.cvtColor(shown, cv2.COLOR_BGR2GRAY)[..., None], 3, 2) if rng.random() < 0.25 else shown


def watermarked(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Lines of half transparent text over the whole picture."""
    height, width = pixels.shape[:2]
    shown = pixels.copy()
    for line in range(3):
        place = int(rng.uniform(0, 0.2) * width), int((line + 0.7) * height / 3)
        _write(shown, "(c) PHOTO AGENCY", place, width / 320, (255, 255, 255))
    return np.asarray(cv2.addWeighted(pixels, 0.6, shown, 0.4, 0))


def several(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Cropped, in other colours, smaller, and encoded again."""
    for edit in (cropped, recoloured, resized, reencoded):
        pixels = edit(pixels, rng)
    return pixels


Edit = Callable[[Pixels, np.random.Generator], Pixels]
EDITS: dict[str, Edit] = {
    "resized": resized,
    "re-encoded": reencoded,
    "cropped to 60 %": cropped,
    "turned by 5 degrees": turned,
    "with a caption bar": captioned,
    "in other colours": recoloured,
    "with a watermark": watermarked,
    "mirrored": mirrored,
}


def _part(pixels: Pixels, share: float, rng: np.random.Generator) -> Pixels:
    """A part of the picture with this share of its area."""
    height, width = pixels.shape[:2]
    part = (np.array([height, width]) * np.sqrt(share)).astype(int)
    top, left = (rng.uniform(0, 1, 2) * (np.array([height, width]) - part)).astype(int)
    return pixels[top : top + part[0], left : left + part[1]]


def _jpeg(pixels: Pixels, quality: int) -> Pixels:
    content = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
    return np.asarray(cv2.imdecode(content, cv2.IMREAD_COLOR))


def _write(pixels: Pixels, text: str, place: tuple[int, int], size: float, colour: tuple[int, int, int]) -> None:
    cv2.putText(pixels, text, place, _FONT, size, colour, max(int(2 * size), 1), cv2.LINE_AA)
