"""Features drawn on their image: what is coloured, what is not, and how pictures are written."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from faemb.errors import InputError
from faemb.features.drawing import LARGEST_PICTURE, draw_features, save_picture
from faemb.features.local_features import LocalFeatures

GREY = 200
DARKENED = 120


def features(*frames: Sequence[float], scores: list[float] | None = None, size: tuple[int, int] = (120, 90)):
    count = len(frames)
    rows = np.array(frames, np.float32).reshape(count, 6)
    strength = np.array(scores or np.zeros(count), np.float32)
    return LocalFeatures(np.zeros((count, 4), np.float32), rows, strength, size)


def canvas(width: int = 120, height: int = 90) -> np.ndarray:
    return np.full((height, width, 3), GREY, np.uint8)


def coloured(picture: np.ndarray) -> np.ndarray:
    """x and y of the pixels that are not as they would be without features."""
    y, x = np.nonzero((picture != DARKENED).any(axis=2))
    return np.stack([x, y], axis=1).astype(float)


def distance(points: np.ndarray, others: np.ndarray) -> np.ndarray:
    """From each point to the nearest of the others."""
    return np.linalg.norm(points[:, None] - others[None], axis=2).min(axis=1)


def region_by_the_book(frame: Sequence[float]) -> np.ndarray:
    """Many points of the ellipse p = (x, y) + A u, one at a time, and of the line along the patch's x axis."""
    x, y, a11, a12, a21, a22 = frame
    points = []
    for turn in np.linspace(0, 2 * np.pi, 2000):
        u, v = np.cos(turn), np.sin(turn)
        points.append((x + a11 * u + a12 * v, y + a21 * u + a22 * v))
    points += [(x + a11 * part, y + a21 * part) for part in np.linspace(0, 1, 200)]
    return np.array(points)


@pytest.mark.parametrize(
    "frame",
    [[60, 45, 20, 0, 0, 20], [50, 40, 30, 0, 0, 10], [60, 45, 20, -12, 15, 18], [60, 45, -20, 0, 0, 20]],
    ids=["disc", "ellipse", "turned", "mirrored"],
)
def test_a_region_is_outlined_and_the_rest_is_left(frame):
    inked, region = coloured(draw_features(canvas(), features(frame))), region_by_the_book(frame)
    assert distance(inked, region).max() < 2.0
    assert distance(region, inked).max() < 1.5


def test_a_region_beyond_the_border_is_cut():
    frame = [0, 0, 500, 0, 0, 30]
    picture = draw_features(canvas(), features(frame))
    assert distance(coloured(picture), region_by_the_book(frame)).max() < 3.0
    huge = features([60, 45, 1e30, 0, 0, 1e30], [-1e9, 1e9, 3, 0, 0, 3])
    assert draw_features(canvas(), huge).shape == (90, 120, 3)


def test_no_features_leave_the_darkened_image():
    assert (draw_features(canvas(), LocalFeatures.none(128, (120, 90))) == DARKENED).all()


def ink(picture: np.ndarray, x: int, y: int) -> list[int]:
    """The colour of a line that passes here: of the pixels around, the one that differs most from the image."""
    around = picture[y - 1 : y + 2, x - 1 : x + 2].reshape(-1, 3).astype(int)
    return around[np.abs(around - DARKENED).sum(axis=1).argmax()].tolist()


def test_strong_features_are_yellow_and_weak_ones_blue():
    large, small = [60, 45, 20, 0, 0, 20], [60, 45, 10, 0, 0, 10]
    picture = draw_features(canvas(), features(large, small, scores=[5.0, 1.0]))
    red, green, blue = ink(picture, 60, 65)
    assert min(red, green) > 2 * blue
    red, green, blue = ink(picture, 60, 55)
    assert blue > max(red, green)


def test_strong_features_lie_on_top_in_whatever_order_they_come():
    disc = [60, 45, 20, 0, 0, 20]
    first, last = (draw_features(canvas(), features(disc, disc, scores=scores)) for scores in ([5.0, 1.0], [1.0, 5.0]))
    np.testing.assert_array_equal(first, last)
    red, green, blue = ink(first, 60, 65)
    assert min(red, green) > 2 * blue


@pytest.mark.parametrize("kind", ["grey", "colour", "file", "float"])
def test_images_of_all_kinds(tmp_path: Path, kind):
    pixels: np.ndarray | Path = canvas()
    if kind == "grey":
        pixels = canvas()[..., 0]
    elif kind == "float":
        pixels = canvas() / 255.0
    elif kind == "file":
        pixels = tmp_path / "image.png"
        PIL.Image.fromarray(canvas()).save(pixels)
    picture = draw_features(pixels, features([60, 45, 20, 0, 0, 20]))
    assert picture.shape == (90, 120, 3)
    assert picture.dtype == np.uint8
    assert abs(int(picture[0, 0, 0]) - DARKENED) <= 1
    np.testing.assert_array_equal(picture[1:], draw_features(canvas(), features([60, 45, 20, 0, 0, 20]))[1:])


@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 50), (50, 1), (2, 3)])
def test_tiny_images(width, height):
    picture = draw_features(canvas(width, height), features([0, 0, 5, 0, 0, 5], size=(width, height)))
    assert picture.shape == (height, width, 3)


def test_a_large_image_is_reduced_and_its_regions_with_it():
    """From the pixel (x, y) of the original to ((x + 1/2) s - 1/2): centres of pixels are at whole numbers."""
    scale, frame = 1 / 4, [4000, 200, 400, 0, 0, 120]
    picture = draw_features(canvas(4 * LARGEST_PICTURE, 400), features(frame, size=(4 * LARGEST_PICTURE, 400)))
    assert picture.shape == (100, LARGEST_PICTURE, 3)
    region = (region_by_the_book(frame) + 0.5) * scale - 0.5
    inked = coloured(picture)
    assert distance(inked, region).max() < 2.5
    assert distance(region, inked).max() < 1.5


def test_the_image_itself_is_not_drawn_on():
    pixels = canvas()
    draw_features(pixels, features([60, 45, 20, 0, 0, 20]))
    assert (pixels == GREY).all()


def test_features_without_geometry_are_refused():
    lost = features([np.nan] * 6, [np.nan] * 6)
    with pytest.raises(InputError, match="descriptors without geometry"):
        draw_features(canvas(), lost)


@pytest.mark.parametrize(
    ("name", "kind"), [("a.png", "PNG"), ("a.jpg", "JPEG"), ("a.JPEG", "JPEG"), ("ż a.webp", "WEBP")]
)
def test_pictures_are_saved_as_their_suffix_says(tmp_path, name, kind):
    picture = draw_features(canvas(), features([60, 45, 20, 0, 0, 20]))
    save_picture(tmp_path / name, picture)
    with PIL.Image.open(tmp_path / name) as image:
        assert image.format == kind
        assert image.size == (120, 90)
        if kind == "PNG":
            np.testing.assert_array_equal(np.asarray(image), picture)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["a.tif", "a", "a.png.txt", ".png", "a.gif"])
def test_other_suffixes_are_explained(tmp_path, name):
    with pytest.raises(InputError, match=r"give a name that ends in \.png, \.jpg or \.webp"):
        save_picture(tmp_path / name, canvas())
    assert os.listdir(tmp_path) == []


def test_a_picture_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match=r"the folder .* does not exist"):
        save_picture(tmp_path / "gone" / "a.png", canvas())
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(InputError, match="it is a folder"):
        save_picture(tmp_path / "folder.png", canvas())
    assert list(tmp_path.rglob("*")) == [tmp_path / "folder.png"]
