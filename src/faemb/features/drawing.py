"""Local features drawn on their image: each an ellipse, with a line from its centre along its patch's x axis."""

import os
from pathlib import Path

import cv2
import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image as Pillow

from faemb.errors import InputError
from faemb.features.image import ImageLike, as_image
from faemb.features.local_features import LocalFeatures
from faemb.runtime.storage import AnyPath, replacing, require_output

LARGEST_PICTURE = 2048
_KINDS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
_SOFTWARE, _NAME = 0x0131, "faemb"
"""The EXIF tag for the name of the program that wrote the picture, and its value in pictures of this package."""
_POINTS = 36
_FRACTION_BITS = 4


def draw_features(image: ImageLike, features: LocalFeatures) -> UInt8[np.ndarray, "H W 3"]:
    """The image, darkened and reduced to 2,048 pixels, with its regions from weak (blue) to strong (yellow)."""
    if np.isnan(features.frames).any():
        raise InputError("these features are descriptors without geometry; extract them from the image to draw them")
    shown = as_image(image, LARGEST_PICTURE)
    picture = np.ascontiguousarray(shown.rgb().astype(np.float32) * 0.6).astype(np.uint8)
    scale = np.array([picture.shape[1], picture.shape[0]]) / np.array(shown.size)  # pixel centres are at whole numbers
    thickness = max(1, round(max(picture.shape) / 1500))
    colours = _colours(features.scores)
    for row in np.argsort(features.scores, kind="stable"):  # the strongest on top
        outline, pointer = (_in_fixed_point((part + 0.5) * scale - 0.5) for part in _ellipse(features.frames[row]))
        colour = tuple(int(value) for value in colours[row])
        cv2.polylines(picture, [outline], True, colour, thickness, cv2.LINE_AA, _FRACTION_BITS)
        cv2.polylines(picture, [pointer], False, colour, thickness, cv2.LINE_AA, _FRACTION_BITS)
    return picture


def require_picture(path: AnyPath, *, overwrite: bool = False) -> str:
    """The format of a picture to write; raises the error that `save_picture` would raise for this path."""
    kind = _KINDS.get(os.path.splitext(path)[1].lower())
    if kind is None:
        raise InputError(f"a picture cannot be written to {path}; give a name that ends in .png, .jpg or .webp")
    require_output(path, _is_our_picture, overwrite=overwrite)
    return kind


def save_picture(path: AnyPath, picture: UInt8[np.ndarray, "H W 3"], *, overwrite: bool = False) -> None:
    """Write a picture; the suffix of the path gives the format.

    An existing file that was not written by this function is replaced only with `overwrite`.
    """
    kind = require_picture(path, overwrite=overwrite)
    exif = Pillow.Exif()
    exif[_SOFTWARE] = _NAME
    with replacing(path) as temporary:
        Pillow.fromarray(picture).save(temporary, format=kind, exif=exif)


def _is_our_picture(path: Path) -> bool:
    try:
        with Pillow.open(path, formats=sorted(set(_KINDS.values()))) as picture:
            return picture.getexif().get(_SOFTWARE) == _NAME
    except Exception:  # Pillow raises many kinds of errors on damaged files
        return False


def _ellipse(frame: Float[np.ndarray, " 6"]) -> tuple[Float[np.ndarray, "p 2"], Float[np.ndarray, "2 2"]]:
    """Points of the outline, and the line from the centre along the patch's x axis."""
    turn = np.linspace(0, 2 * np.pi, _POINTS, endpoint=False)
    centre, shape = frame[:2].astype(np.float64), frame[2:].reshape(2, 2).astype(np.float64)
    outline = centre + np.stack([np.cos(turn), np.sin(turn)], axis=1) @ shape.T
    return outline, np.stack([centre, centre + shape[:, 0]])


def _in_fixed_point(points: Float[np.ndarray, "p 2"]) -> np.ndarray:
    bounded = np.clip(points, -1e6, 1e6)
    return np.rint(bounded * (1 << _FRACTION_BITS)).astype(np.int32).reshape(-1, 1, 2)


def _colours(scores: Float[np.ndarray, " N"]) -> UInt8[np.ndarray, "N 3"]:
    """Colours by rank: by score, a few strong features would leave all others in one colour."""
    rank = np.empty(len(scores))
    rank[np.argsort(scores, kind="stable")] = np.linspace(0, 255, len(scores))
    if not len(scores):
        return np.zeros((0, 3), np.uint8)
    levels = rank.astype(np.uint8).reshape(-1, 1)
    return np.ascontiguousarray(cv2.applyColorMap(levels, cv2.COLORMAP_VIRIDIS)[:, 0, ::-1])
