"""Patches of an image: their number, positions and vectors, one at a time and in batches."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnn_networks import cells, network, picture, quarters, spot
from faemb.features.cnn import CnnPatches
from faemb.features.cnn.patches import patch_boxes


def patches(**options: Any) -> CnnPatches:
    """Patches of sizes 32 and 16 for a connected layer that takes 16 x 16."""
    usual: dict[str, Any] = {"sizes": (32, 16), "stride": 10}
    return CnnPatches(network(quarters(16)), **usual | options)


def boxes_by_the_book(width: int, height: int, sizes: tuple[int, ...], stride: int) -> list[tuple[int, int, int, int]]:
    """Checks for every pixel whether a patch starts there and ends inside the image."""
    places = [(x, y) for y in range(height) for x in range(width) if x % stride == 0 and y % stride == 0]
    boxes = [(0, 0, width, height)]
    for size in sizes:
        boxes += [(x, y, size, size) for x, y in places if x + size <= width and y + size <= height]
    return boxes


def halves_by_the_book(pixels: np.ndarray) -> np.ndarray:
    """The average colour of each quarter, channel after channel."""
    h, w = pixels.shape[0] // 2, pixels.shape[1] // 2
    quarter = [[pixels[:h, :w], pixels[:h, w:]], [pixels[h:, :w], pixels[h:, w:]]]
    return np.array([quarter[i][j][..., c].mean() for c in range(3) for i in range(2) for j in range(2)]) / 255


def test_the_papers_configuration_has_497_patches_at_640_x_480() -> None:
    """The whole image, 18 * 12 patches of 128 and 20 * 14 of 64 [DC17, Sec. 5.5]."""
    features = CnnPatches(network(quarters(16))).extract(np.full((480, 640, 3), 9, np.uint8))
    assert len(features) == 497 == 1 + 18 * 12 + 20 * 14


@given(width=st.integers(1, 90), height=st.integers(1, 90), stride=st.integers(1, 40))
def test_patches_start_at_every_stride_and_end_inside(width: int, height: int, stride: int) -> None:
    sizes = (33, 16)
    np.testing.assert_array_equal(
        patch_boxes(width, height, sizes, stride), boxes_by_the_book(width, height, sizes, stride)
    )


def test_every_vector_is_that_of_its_patch(rng: np.random.Generator) -> None:
    """Sides of 64, 32 and 16 shrink to 16 by whole averages, so that quarters keep theirs."""
    pixels = picture(rng, 64, 64)
    features = patches(unit_length=False).extract(pixels)
    boxes = boxes_by_the_book(64, 64, (32, 16), 10)
    assert len(features) == len(boxes) == 1 + 16 + 25
    for row, (x, y, width, height) in enumerate(boxes):
        vector = halves_by_the_book(pixels[y : y + height, x : x + width])
        np.testing.assert_allclose(features.descriptors[row], vector, atol=1e-5)
        np.testing.assert_allclose(features.scores[row], np.linalg.norm(vector), rtol=1e-5)
        frame = [x + (width - 1) / 2, y + (height - 1) / 2, width / 2, 0, 0, height / 2]
        np.testing.assert_allclose(features.frames[row], frame)


def test_vectors_have_unit_length_unless_told_otherwise(rng: np.random.Generator) -> None:
    pixels = picture(rng, 64, 64)
    unit, raw = patches().extract(pixels), patches(unit_length=False).extract(pixels)
    np.testing.assert_allclose(unit.descriptors * raw.scores[:, None], raw.descriptors, atol=1e-6)
    np.testing.assert_array_equal(unit.scores, raw.scores)


def test_a_map_is_averaged_over_its_locations(rng: np.random.Generator) -> None:
    pixels = picture(rng, 32, 32)
    features = CnnPatches(network(cells(8), size=(16, 16)), sizes=(16,), unit_length=False).extract(pixels)
    average = [pixels.reshape(-1, 3).mean(0) / 255, pixels[:16, :16].reshape(-1, 3).mean(0) / 255]
    np.testing.assert_allclose(features.descriptors, average, atol=1e-5)


@pytest.mark.parametrize("batch", [2, 41, 42, 1000])
def test_batches_change_nothing(rng: np.random.Generator, batch: int) -> None:
    pixels = picture(rng, 64, 64)
    single, many = patches(batch=1).extract(pixels), patches(batch=batch).extract(pixels)
    np.testing.assert_allclose(single.descriptors, many.descriptors, atol=1e-6)
    np.testing.assert_array_equal(single.frames, many.frames)
    assert single.fingerprint == many.fingerprint


def test_the_strongest_patch_lies_on_the_bright_spot() -> None:
    features = patches(sizes=(16,)).extract(spot(200, 120, 108, 58, 16))
    best = features.frames[np.argmax(features.scores)]
    np.testing.assert_array_equal(best, [107.5, 57.5, 8, 0, 0, 8])


def test_frames_are_in_the_pixels_of_the_original() -> None:
    """Reduced to half, patches of 16 pixels are 32 of the original's."""
    features = patches(sizes=(16,), max_side=100).extract(np.full((120, 200, 3), 50, np.uint8))
    assert features.image_size == (200, 120)
    np.testing.assert_allclose(features.frames[:3, 0], [99.5, 15.5, 35.5])
    np.testing.assert_allclose(features.frames[:3, 2], [100, 16, 16])


@pytest.mark.parametrize(
    ("width", "height", "count"), [(1, 1, 1), (1, 500, 1), (500, 1, 1), (16, 16, 2), (31, 32, 5), (32, 32, 6)]
)
def test_sizes_that_do_not_fit_give_none_and_the_whole_image_always(width: int, height: int, count: int) -> None:
    features = patches().extract(np.full((height, width, 3), 50, np.uint8))
    assert len(features) == count
    np.testing.assert_allclose(features.frames[0, :2], [(width - 1) / 2, (height - 1) / 2])


def test_patches_that_excite_nothing_are_left_out() -> None:
    pixels = spot(64, 64, 10, 10)
    assert len(patches().extract(np.zeros_like(pixels))) == 0
    assert len(patches(unit_length=False).extract(np.zeros_like(pixels))) == 42
    assert 0 < len(patches().extract(pixels)) < 42


def test_without_sizes_the_whole_image_is_the_one_feature(rng: np.random.Generator) -> None:
    assert len(patches(sizes=()).extract(picture(rng, 64, 64))) == 1
