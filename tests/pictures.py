"""Rendered pictures: small, each with features of its own, and the same for the same seed."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import PIL.Image

Size = tuple[int, int]
SIZE: Size = (120, 90)


def pixels(seed: int, size: Size = SIZE) -> np.ndarray:
    """Soft blobs, which have features."""
    coarse = np.random.default_rng(seed).integers(0, 256, (size[1] // 8, size[0] // 8)).astype(np.uint8)
    return np.asarray(PIL.Image.fromarray(coarse).resize(size, PIL.Image.Resampling.BICUBIC))


def picture(path: Path, seed: int = 0, size: Size = SIZE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.fromarray(pixels(seed, size)).save(path)
    return path


def pictures(folder: Path, seeds: Iterable[int], size: Size = SIZE) -> Path:
    for seed in seeds:
        picture(folder / f"{seed:03}.png", seed, size)
    return folder


def blank(path: Path, level: int = 128) -> Path:
    """Shows nothing: it has no local features."""
    PIL.Image.new("L", (60, 40), level).save(path)
    return path
