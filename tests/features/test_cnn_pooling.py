"""SPoC and R-MAC against their definitions, one location and one region at a time."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faemb.errors import InputError
from faemb.features.cnn import rmac, rmac_regions, spoc
from faemb.features.cnn.pooling import regions_of


@pytest.fixture
def values(rng: np.random.Generator) -> np.ndarray:
    return rng.random((6, 7, 12)).astype(np.float32)


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x)


def spoc_by_the_book(values: np.ndarray, centre_prior: bool) -> np.ndarray:
    d, h, w = values.shape
    total, sigma = np.zeros(d), min(h, w) / 6
    for y, x in np.ndindex(h, w):
        apart = (y + 0.5 - h / 2) ** 2 + (x + 0.5 - w / 2) ** 2
        total += values[:, y, x] * (np.exp(-apart / (2 * sigma**2)) if centre_prior else 1)
    return unit(total)


@pytest.mark.parametrize("centre_prior", [False, True])
def test_spoc_is_the_sum_over_locations(values: np.ndarray, centre_prior: bool) -> None:
    expected = spoc_by_the_book(values, centre_prior)
    np.testing.assert_allclose(spoc(values, centre_prior=centre_prior), expected, rtol=1e-5)


def test_rmac_is_the_sum_of_its_regions_maxima(values: np.ndarray) -> None:
    book = []
    for y, x, side in regions_of(7, 12, 3):
        maxima = [max(values[c, y + i, x + j] for i in range(side) for j in range(side)) for c in range(6)]
        book.append(unit(np.array(maxima)))
    np.testing.assert_allclose(rmac_regions(values), book, rtol=1e-5)
    np.testing.assert_allclose(rmac(values), unit(np.sum(book, axis=0)), rtol=1e-5)


def test_the_regions_of_a_square_map() -> None:
    """1 + 4 + 9 squares of 12, 8 and 6 cells."""
    regions = regions_of(12, 12, 3)
    assert regions[:5] == [(0, 0, 12), (0, 0, 8), (0, 4, 8), (4, 0, 8), (4, 4, 8)]
    assert regions[5:] == [(y, x, 6) for y in (0, 3, 6) for x in (0, 3, 6)]


def test_the_regions_of_a_wide_map() -> None:
    """640 x 480 in cells of 16: two squares along the longer axis, then 2 * 3 and 3 * 4."""
    regions = regions_of(30, 40, 3)
    assert len(regions) == 2 + 6 + 12
    assert regions[:2] == [(0, 0, 30), (0, 10, 30)]
    assert regions[2:8] == [(y, x, 20) for y in (0, 10) for x in (0, 10, 20)]
    assert regions_of(40, 30, 3) == [(x, y, side) for y, x, side in sorted(regions, key=lambda r: (-r[2], r[1], r[0]))]


@pytest.mark.parametrize(("longer", "squares"), [(11, 2), (16, 2), (17, 2), (19, 3), (22, 3), (28, 4)])
def test_neighbours_overlap_by_about_two_fifths(longer: int, squares: int) -> None:
    """On 10 rows, exactly so for 16, 22 and 28 columns; of 19, three squares overlap by 0.55 and two by 0.1."""
    assert len(regions_of(10, longer, 1)) == squares


@given(h=st.integers(1, 40), w=st.integers(1, 40), levels=st.integers(1, 4))
def test_regions_lie_on_the_map_and_reach_its_ends(h: int, w: int, levels: int) -> None:
    regions = np.array(regions_of(h, w, levels))
    assert regions.min() >= 0
    assert (regions[:, 0] + regions[:, 2]).max() == h
    assert (regions[:, 1] + regions[:, 2]).max() == w
    assert regions[:, 2].min() >= 1


@pytest.mark.parametrize("pool", [spoc, rmac])
def test_a_map_of_zeros_gives_zeros_and_one_location_itself(pool: Any) -> None:
    np.testing.assert_array_equal(pool(np.zeros((4, 3, 3))), np.zeros(4))
    np.testing.assert_allclose(pool(np.array([3.0, 4.0])[:, None, None]), [0.6, 0.8])


@pytest.mark.parametrize("pool", [spoc, rmac, rmac_regions])
def test_what_is_no_map_is_refused(pool: Any) -> None:
    with pytest.raises(InputError, match=r"a map has shape \(4, 3\); expected \(channels, rows, columns\)"):
        pool(np.zeros((4, 3)))
    with pytest.raises(InputError, match="none of them empty"):
        pool(np.zeros((4, 0, 3)))
    with pytest.raises(InputError, match="the map's values hold 1 NaN"):
        pool(np.array([[[np.nan]]]))


def test_levels_are_counted_from_one(values: np.ndarray) -> None:
    with pytest.raises(InputError, match="levels is 0; expected a whole number, 1 or more"):
        rmac(values, levels=0)
