"""Locations of maps and tokens: every vector and frame against the formula, bright spots found where they are."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn_networks import cells, network, picture, spot, tokens
from faemb.errors import InputError
from faemb.features.cnn import CnnMap, CnnTokens

GRIDS = {
    "map": lambda **options: CnnMap(network(cells(8), multiple=8), **options),
    "tokens": lambda **options: CnnTokens(network(tokens(8), multiple=8), **options),
    "five prefixes": lambda **options: CnnTokens(network(tokens(8, 5), multiple=8, prefix_tokens=5), **options),
}


@pytest.fixture(params=GRIDS)
def grid(request: pytest.FixtureRequest) -> Any:
    return GRIDS[request.param]


def colours_by_the_book(pixels: np.ndarray, cell: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Average colour and frame of one cell after another, row by row."""
    found = []
    for y in range(0, pixels.shape[0], cell):
        for x in range(0, pixels.shape[1], cell):
            colour = pixels[y : y + cell, x : x + cell].reshape(-1, 3).mean(axis=0) / 255
            found.append((colour, np.array([x + (cell - 1) / 2, y + (cell - 1) / 2, cell / 2, 0, 0, cell / 2])))
    return found


def test_every_location_is_a_feature_the_strongest_first(rng: np.random.Generator, grid: Any) -> None:
    pixels = picture(rng, 72, 64)
    features = grid().extract(pixels)
    book = sorted(colours_by_the_book(pixels, 8), key=lambda pair: -np.linalg.norm(pair[0]))
    assert len(features) == 9 * 8
    for row, (colour, frame) in enumerate(book):
        length = np.linalg.norm(colour)
        np.testing.assert_allclose(features.scores[row], length, rtol=1e-5)
        np.testing.assert_allclose(features.descriptors[row], colour / length, atol=1e-5)
        np.testing.assert_allclose(features.frames[row], frame, atol=1e-4)


def test_without_unit_length_vectors_stay_as_they_are(rng: np.random.Generator, grid: Any) -> None:
    pixels = picture(rng, 64, 64)
    features, unit = grid(unit_length=False).extract(pixels), grid().extract(pixels)
    np.testing.assert_allclose(np.linalg.norm(features.descriptors, axis=1), features.scores, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(unit.descriptors, axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(features.frames, unit.frames)


def test_locations_that_excite_nothing_are_left_out(grid: Any) -> None:
    pixels = spot(64, 64, 24, 24)  # on four cells of 64
    assert len(grid().extract(pixels)) == 4
    assert len(grid(unit_length=False).extract(pixels)) == 64


def test_a_black_image_has_no_features(grid: Any) -> None:
    features = grid().extract(np.zeros((64, 64, 3), np.uint8))
    assert features.descriptors.shape == (0, 3)
    assert features.frames.shape == (0, 6)


@pytest.mark.parametrize("scale", [2.0, 1.0, 0.6, 0.45])
@pytest.mark.parametrize(("x", "y"), [(100, 60), (12, 150), (250, 10)])
def test_a_bright_spot_is_strongest_where_it_is(grid: Any, scale: float, x: int, y: int) -> None:
    features = grid(scales=(scale,)).extract(spot(260, 170, x, y))
    reach = features.shapes[0].diagonal()
    assert np.all(np.abs(features.centres[0] - (x, y)) <= reach + 1)
    np.testing.assert_allclose(reach, 4 / scale, rtol=0.15)


def test_a_bright_spot_is_found_in_the_pixels_of_the_original(grid: Any) -> None:
    """Reduced to 200 x 150 first, the image has cells of 16 pixels of the original's."""
    features = grid(max_side=200).extract(spot(400, 300, 250, 90, 16))
    assert features.image_size == (400, 300)
    assert np.all(np.abs(features.centres[0] - (250, 90)) <= features.shapes[0].diagonal() + 1)
    np.testing.assert_allclose(features.shapes[0].diagonal(), 8, rtol=0.05)


def test_several_scales_are_the_union(rng: np.random.Generator, grid: Any) -> None:
    pixels = picture(rng, 160, 120)
    both = grid(scales=(1.0, 0.6)).extract(pixels)
    single = [grid(scales=(scale,)).extract(pixels) for scale in (1.0, 0.6)]
    rows = np.concatenate([np.column_stack([each.frames, each.descriptors]) for each in single])
    found = np.column_stack([both.frames, both.descriptors])
    np.testing.assert_array_equal(found[np.lexsort(found.T)], rows[np.lexsort(rows.T)])
    assert np.all(np.diff(both.scores) <= 0)


def test_every_feature_is_a_known_cell_of_a_map(rng: np.random.Generator, grid: Any) -> None:
    extractor = grid(scales=(1.0, 0.6), unit_length=False, max_features=100)
    pixels = picture(rng, 160, 120)
    features = extractor.extract(pixels).inside((20, 10, 150, 100))
    maps = [extractor.map(pixels, scale) for scale in (1.0, 0.6)]
    assert features.grids.sizes.tolist() == [list(each.shape[1:]) for each in maps]
    assert {0, 1} == set(features.grids.cells[:, 0].tolist())
    for descriptor, (scale, row, column) in zip(features.descriptors, features.grids.cells, strict=True):
        np.testing.assert_array_equal(descriptor, maps[scale][:, row, column])


def test_the_strongest_can_be_kept_alone(rng: np.random.Generator, grid: Any) -> None:
    pixels = picture(rng, 160, 120)
    some, every = grid(scales=(1.0, 0.6), max_features=7).extract(pixels), grid(scales=(1.0, 0.6)).extract(pixels)
    np.testing.assert_array_equal(some.descriptors, every.descriptors[:7])
    np.testing.assert_array_equal(some.frames, every.frames[:7])


def test_lists_and_tuples_of_scales_are_the_same_extractor(rng: np.random.Generator, grid: Any) -> None:
    pixels = picture(rng, 64, 64)
    one, other = grid(scales=(1.0, 0.5)).extract(pixels), grid(scales=[1, 0.5]).extract(pixels)
    np.testing.assert_array_equal(one.descriptors, other.descriptors)
    assert one.fingerprint == other.fingerprint


def test_the_map_itself_is_what_left_the_network(rng: np.random.Generator, grid: Any) -> None:
    pixels = picture(rng, 72, 64)
    values = grid().map(pixels)
    book = np.array([colour for colour, _ in colours_by_the_book(pixels, 8)])
    np.testing.assert_allclose(values, book.T.reshape(3, 8, 9), atol=1e-5)
    assert grid().map(pixels, 2.0).shape == (3, 16, 18)
    with pytest.raises(InputError, match="scale is 0"):
        grid().map(pixels, 0)


@settings(max_examples=25, deadline=None)
@given(width=st.integers(1, 200), height=st.integers(1, 200), name=st.sampled_from(sorted(GRIDS)))
def test_an_image_of_any_size_is_covered_by_its_cells(width: int, height: int, name: str) -> None:
    features = GRIDS[name]().extract(np.full((height, width, 3), 200, np.uint8))
    areas = 4 * np.abs(np.linalg.det(features.shapes))
    np.testing.assert_allclose(areas.sum(), width * height, rtol=1e-4)
    np.testing.assert_allclose(features.centres.mean(axis=0), [(width - 1) / 2, (height - 1) / 2], atol=1e-2)


@pytest.mark.parametrize(("width", "height", "count"), [(1, 1, 64), (1, 500, 8 * 62), (500, 1, 8 * 62)])
def test_tiny_images_are_stretched(grid: Any, width: int, height: int, count: int) -> None:
    features = grid().extract(np.full((height, width, 3), 200, np.uint8))
    assert len(features) == count
    assert np.all(np.abs(features.centres + 0.5 - (width / 2, height / 2)) <= (width / 2, height / 2))


def test_grey_images_are_taken_too(rng: np.random.Generator, grid: Any) -> None:
    grey = picture(rng, 64, 64)[..., 0]
    one, three = grid().extract(grey), grid().extract(np.repeat(grey[..., None], 3, axis=2))
    np.testing.assert_array_equal(one.descriptors, three.descriptors)


def test_a_network_of_one_size_sees_every_image_at_it() -> None:
    """320 x 80 pixels in 4 x 2 cells."""
    features = CnnMap(network(cells(8), size=(32, 16))).extract(spot(320, 80, 200, 20, 10))
    np.testing.assert_allclose(features.frames[0], [199.5, 19.5, 40, 0, 0, 20])
