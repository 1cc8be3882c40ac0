"""Copies and other photographs: planted features, of which it is known how the second picture was made."""

import numpy as np
import pytest

from faemb.rerank import Matchable, is_copy, verify
from faemb.rerank.copies import LEAST_MATCHES, Likeness, likeness

SIZE = (640, 480)
COUNT = 300


def picture(rng: np.random.Generator, count: int = COUNT) -> Matchable:
    """Round regions of many sizes at random places."""
    descriptors = np.abs(rng.standard_normal((count, 32))).astype(np.float32)
    radii = np.exp(rng.uniform(np.log(8), np.log(40), count))
    centres = rng.uniform(0, 1, (count, 2)) * (np.array(SIZE) - 2 * radii[:, None]) + radii[:, None]
    return with_parts(descriptors, centres, radii[:, None, None] * np.eye(2))


def with_parts(descriptors: np.ndarray, centres: np.ndarray, shapes: np.ndarray) -> Matchable:
    unit = (descriptors / np.linalg.norm(descriptors, axis=1, keepdims=True)).astype(np.float32)
    return Matchable(unit, centres, shapes, np.arange(len(unit)), (float(SIZE[0]), float(SIZE[1])))


def edited(
    image: Matchable,
    rng: np.random.Generator,
    *,
    linear: tuple[tuple[float, float], tuple[float, float]] = ((1, 0), (0, 1)),
    noise: float = 0.005,
    bend: float = 0.0,
) -> Matchable:
    """Regions after a linear map; `noise` is the error of the detector in radii, `bend` the largest shift in pixels."""
    matrix = np.array(linear, float)
    radii = np.sqrt(np.linalg.det(image.shapes) * np.linalg.det(matrix))
    shift = bend * ((image.centres - np.array(SIZE) / 2) / (np.array(SIZE) / 2)) ** 2
    centres = (image.centres + shift) @ matrix.T + noise * radii[:, None] * rng.standard_normal((len(image), 2))
    return with_parts(image.descriptors, centres, matrix @ image.shapes)


def compared(first: Matchable, second: Matchable) -> Likeness:
    measured = likeness(first, second, verify(first, second))
    assert measured is not None
    return measured


@pytest.mark.parametrize(
    "linear",
    [
        ((1, 0), (0, 1)),
        ((0.5, 0), (0, 0.5)),
        ((0.996, 0.087), (-0.087, 0.996)),
        ((0.9, 0), (0, 0.7)),
    ],
    ids=["as it is", "smaller", "turned", "squeezed"],
)
def test_a_copy(rng, linear):
    first = picture(rng)
    second = edited(first, rng, linear=linear)
    measured = compared(first, second)
    assert measured.agreement == 1
    assert measured.error < 0.01
    assert measured.systematic < 0.03
    assert is_copy(first, second, verify(first, second))
    assert is_copy(second, first, verify(second, first))


def test_what_moves_parts_of_the_picture_by_different_amounts_is_no_copy(rng):
    """By one pixel at the border: much less than the error that a copy may have."""
    first = picture(rng)
    second = edited(first, rng, bend=1.0)
    measured = compared(first, second)
    assert measured.error < 0.02
    assert measured.systematic > 0.3
    assert not is_copy(first, second, verify(first, second))


def test_regions_that_lie_elsewhere_are_no_copies(rng):
    first = picture(rng)
    second = edited(first, rng, noise=0.05)
    assert compared(first, second).error > 0.02
    assert not is_copy(first, second, verify(first, second))


def test_the_same_caption_on_two_pictures_is_no_copy(rng):
    """A third of the regions are the same, at the same places; the others show something else."""
    first, other = picture(rng), picture(rng)
    same = edited(first, rng, noise=0)
    third = COUNT // 3
    second = with_parts(
        np.concatenate([same.descriptors[:third], other.descriptors[third:]]),
        np.concatenate([same.centres[:third], other.centres[third:]]),
        np.concatenate([same.shapes[:third], other.shapes[third:]]),
    )
    measured = compared(first, second)
    assert (measured.error, measured.systematic) == pytest.approx((0, 0), abs=1e-6)
    assert measured.counterparts < 0.6
    assert not measured.is_copy


def test_a_caption_below_a_picture_that_shows_little_is_no_copy(rng):
    """Nearly all regions of the second picture lie in the caption, and the first has them too."""
    below = picture(rng, 80)
    caption = with_parts(below.descriptors, below.centres * (1, 0.05) + (0, 440), below.shapes / 4)
    shown = picture(rng, 60)
    first = with_parts(
        np.concatenate([caption.descriptors, shown.descriptors]),
        np.concatenate([caption.centres, shown.centres * (1, 0.85)]),
        np.concatenate([caption.shapes, shown.shapes]),
    )
    measured = compared(first, caption)
    assert measured.counterparts > 0.9
    assert measured.extent < 0.1
    assert not measured.is_copy


def test_something_written_over_a_copy_leaves_a_copy(rng):
    """Of the first picture, all regions are found; the second has as many others."""
    first, other = picture(rng), picture(rng)
    second = edited(first, rng)
    both = with_parts(
        np.concatenate([second.descriptors, other.descriptors]),
        np.concatenate([second.centres, other.centres]),
        np.concatenate([second.shapes, other.shapes]),
    )
    assert is_copy(first, both, verify(first, both))
    assert is_copy(both, first, verify(both, first))


@pytest.mark.parametrize("count", [0, 3, LEAST_MATCHES - 1])
def test_too_few_matches_tell_nothing(rng, count):
    first = picture(rng, count)
    found = verify(first, edited(first, rng))
    assert likeness(first, first, found) is None
    assert not is_copy(first, first, found)
