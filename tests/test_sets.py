"""Descriptor sets: the accepted forms, refusals and their messages, samples and padded batches."""

from typing import Any

import numpy as np
import pytest

from backends import BACKENDS, Backend
from faemb.arrays import to_numpy
from faemb.errors import InputError
from faemb.sets import DescriptorSets, as_sets, batches

COUNTS = [3, 0, 5, 1, 0]


@pytest.fixture
def images(rng: np.random.Generator) -> list[np.ndarray]:
    """Five images, two of them empty."""
    return [rng.standard_normal((count, 4)) for count in COUNTS]


@pytest.fixture
def sets(backend: Backend, images: list[np.ndarray]) -> DescriptorSets:
    return as_sets([backend.array(image) for image in images])


def assert_same(sets: DescriptorSets, images: list[np.ndarray]) -> None:
    assert len(sets) == len(images)
    for found, expected in zip(sets, images, strict=True):
        np.testing.assert_array_equal(to_numpy(found), expected)


# Accepted forms


def test_a_list_of_arrays_is_accepted(sets: DescriptorSets, images: list[np.ndarray]) -> None:
    assert_same(sets, images)
    np.testing.assert_array_equal(sets.counts, COUNTS)
    assert sets.descriptor_dimension == 4


def test_a_tuple_of_arrays_is_accepted(backend: Backend, images: list[np.ndarray]) -> None:
    assert_same(as_sets(tuple(backend.array(image) for image in images)), images)
    assert_same(as_sets((backend.array(images[0]), backend.array(images[2]))), [images[0], images[2]])


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint32, list], ids=lambda kind: kind.__name__)
def test_flat_and_offsets_are_accepted(backend: Backend, images: list[np.ndarray], kind: type) -> None:
    offsets = np.cumsum([0, *COUNTS])
    given = offsets.tolist() if kind is list else offsets.astype(kind)
    assert_same(as_sets((backend.array(np.vstack(images)), given)), images)


def test_offsets_may_be_of_the_same_library(backend: Backend, images: list[np.ndarray]) -> None:
    offsets = backend.array(np.cumsum([0, *COUNTS]))
    assert_same(as_sets((backend.array(np.vstack(images)), offsets)), images)


def test_one_array_is_one_image(backend: Backend, images: list[np.ndarray]) -> None:
    assert_same(as_sets(backend.array(images[0])), images[:1])


def test_nested_lists_of_numbers_are_accepted() -> None:
    sets = as_sets([[[1, 2], [3, 4]], [[5.5, 6]]])
    assert_same(sets, [np.array([[1, 2], [3, 4]]), np.array([[5.5, 6]])])


def test_checked_sets_pass_through(sets: DescriptorSets) -> None:
    assert as_sets(sets, columns=4) is sets


def test_all_images_may_be_empty(backend: Backend) -> None:
    sets = as_sets([backend.array(np.zeros((0, 4)))] * 3)
    assert (len(sets), sets.descriptor_dimension, sets.flat.shape[0]) == (3, 4, 0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.uint8, np.float32),
        (np.int64, np.float32),
    ],
)
def test_numbers_become_floats(backend: Backend, given: type, expected: type) -> None:
    sets = as_sets([backend.array(np.arange(6).reshape(3, 2).astype(given))])
    assert to_numpy(sets.flat).dtype == expected
    np.testing.assert_array_equal(to_numpy(sets.flat), np.arange(6).reshape(3, 2))


def test_mixed_precision_becomes_the_widest(backend: Backend, images: list[np.ndarray]) -> None:
    mixed = [images[0].astype(np.float32), images[2], np.ones((2, 4), np.uint8)]
    sets = as_sets([backend.array(image) for image in mixed])
    assert to_numpy(sets.flat).dtype == np.float64
    assert_same(sets, mixed)


@pytest.mark.torch
@pytest.mark.skipif(len(BACKENDS) < 2, reason="needs a second array library: pip install faemb[torch]")
def test_arrays_of_two_libraries_are_refused(images: list[np.ndarray]) -> None:
    first, second = BACKENDS[:2]
    with pytest.raises(InputError, match="several array libraries"):
        as_sets([first.array(images[0]), second.array(images[2])])


def test_inputs_stay_as_they_are(backend: Backend, images: list[np.ndarray]) -> None:
    given = [backend.array(image.copy()) for image in images]
    sets = as_sets(given)
    list(batches(sets, 2))
    sets.sample(3, 0)
    sets.select([2, 0])
    for after, before in zip(given, images, strict=True):
        np.testing.assert_array_equal(to_numpy(after), before)


# What is refused


def type_name(value: Any) -> str:
    """An id that is the same in every process, unlike the repr of an object."""
    return type(value).__name__


@pytest.mark.parametrize(
    "data", [None, "photo.jpg", 3, 3.5, {}, object(), iter([]), {1, 2}], ids=lambda x: type(x).__name__
)
def test_what_is_no_array_is_refused(data: Any) -> None:
    with pytest.raises(InputError, match=f"are of type {type(data).__name__}; expected a list"):
        as_sets(data)


@pytest.mark.parametrize(
    "part", [None, "photo.jpg", object(), {}, ["a", "b"], [[None, 1]]], ids=lambda x: type(x).__name__
)
def test_an_image_that_is_no_array_is_refused_by_its_place(part: Any) -> None:
    with pytest.raises(InputError, match=r"descriptors of image 1 are of type .*, not numbers"):
        as_sets([np.ones((2, 2)), part, np.ones((2, 2))])


def test_ragged_rows_are_refused() -> None:
    with pytest.raises(InputError, match="descriptors of image 0 are not a rectangular array"):
        as_sets([[[1, 2], [3]]])


def test_ragged_rows_in_a_pair_are_refused() -> None:
    with pytest.raises(InputError, match="descriptors of image 1 are not a rectangular array"):
        as_sets((np.ones((2, 2)), [[1, 2], [3]]))


@pytest.mark.parametrize(
    "array",
    [
        np.array([["a", "b"]]),
        np.array([["1", "2"]]),
        np.array([[object()]]),
        np.array([[None, 1.0]]),
        np.array([["2020-01-01"]], dtype="datetime64[D]"),
    ],
    ids=["text", "digits", "objects", "none", "dates"],
)
def test_arrays_without_numbers_are_refused(array: np.ndarray) -> None:
    for data in (array, [array], (array, [0, 1])):
        with pytest.raises(InputError, match="numbers"):
            as_sets(data)


@pytest.mark.parametrize("dtype", [bool, np.complex64, np.complex128])
def test_bool_and_complex_arrays_are_refused(backend: Backend, dtype: type) -> None:
    array = backend.array(np.ones((2, 2), dtype))
    for data in (array, [array], (array, [0, 2])):
        with pytest.raises(InputError, match="expected real numbers: convert them first"):
            as_sets(data)


@pytest.mark.parametrize("empty", [[], ()], ids=repr)
def test_no_images_are_refused(empty: Any) -> None:
    with pytest.raises(InputError, match="no descriptor sets were given"):
        as_sets(empty)


@pytest.mark.parametrize("shape", [(), (3,), (1, 2, 3)], ids=str)
def test_a_wrong_number_of_axes_is_explained(backend: Backend, shape: tuple[int, ...]) -> None:
    array = backend.array(np.ones(shape))
    shown = str(shape).replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(InputError, match=f"with shape {shown}; expected a list"):
        as_sets(array)
    with pytest.raises(InputError, match=f"image 0 have shape {shown}; expected"):
        as_sets([array])
    with pytest.raises(InputError, match=f"descriptors have shape {shown}; expected"):
        as_sets((array, [0, 1]))


def test_mixed_widths_are_explained(backend: Backend) -> None:
    given = [backend.array(np.ones((2, width))) for width in (4, 4, 5)]
    with pytest.raises(InputError, match="image 2 have 5 columns, those of image 0 have 4; all must come from one"):
        as_sets(given)


def test_a_width_that_the_model_does_not_know_is_explained(sets: DescriptorSets) -> None:
    with pytest.raises(InputError, match="descriptors have 4 columns; this model was fitted on 5"):
        as_sets(sets, columns=5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_counted(backend: Backend, images: list[np.ndarray], bad: float) -> None:
    images[2][1, 1:3] = bad
    with pytest.raises(InputError, match="descriptors hold 2 NaN or infinite values"):
        as_sets([backend.array(image) for image in images])


@pytest.mark.parametrize(
    "offsets",
    [[0], [0, 8], [0, 10], [1, 9], [-1, 9], [0, 5, 3, 9], [0, -1, 9], [9, 0], [9]],
    ids=str,
)
def test_offsets_that_do_not_rise_from_zero_to_the_end_are_explained(backend: Backend, offsets: list[int]) -> None:
    with pytest.raises(InputError, match="offsets must rise from 0 to the number of descriptors, 9"):
        as_sets((backend.array(np.ones((9, 2))), np.array(offsets)))


@pytest.mark.parametrize("flat", [None, "abc", [["a"]]], ids=repr)
def test_flat_descriptors_that_are_no_array_are_refused(flat: Any) -> None:
    with pytest.raises(InputError, match="not numbers"):
        as_sets((flat, np.array([0, 1])))


# Access


def test_an_image_is_found_by_its_index(sets: DescriptorSets, images: list[np.ndarray]) -> None:
    for i in range(5):
        np.testing.assert_array_equal(to_numpy(sets[i]), images[i])


def test_an_index_out_of_range_is_an_index_error(sets: DescriptorSets) -> None:
    with pytest.raises(IndexError):
        _ = sets[5]


def test_a_negative_index_counts_from_the_end(sets: DescriptorSets, images: list[np.ndarray]) -> None:
    np.testing.assert_array_equal(to_numpy(sets[-2]), images[-2])
    np.testing.assert_array_equal(to_numpy(sets[-5]), images[-5])


@pytest.mark.parametrize("chosen", [[2, 0], [1], [], [3, 3, 4]], ids=str)
def test_select_gives_these_images_in_this_order(
    sets: DescriptorSets, images: list[np.ndarray], chosen: list[int]
) -> None:
    selected = sets.select(chosen)
    assert selected.descriptor_dimension == 4
    assert_same(selected, [images[i] for i in chosen])


# Samples


def test_a_sample_is_drawn_without_replacement_and_in_order(backend: Backend) -> None:
    rows = backend.array(np.arange(1000.0).reshape(500, 2))
    sample = to_numpy(as_sets(rows).sample(200, seed=1))
    assert sample.shape == (200, 2)
    assert (np.diff(sample[:, 0]) > 0).all()
    np.testing.assert_array_equal(sample[:, 1], sample[:, 0] + 1)


def test_the_seed_decides_the_sample(backend: Backend) -> None:
    sets = as_sets(backend.array(np.arange(1000.0).reshape(500, 2)))
    first, again, other = (to_numpy(sets.sample(50, seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("limit", [9, 10, 1000])
def test_a_sample_that_would_hold_everything_does(sets: DescriptorSets, limit: int) -> None:
    np.testing.assert_array_equal(to_numpy(sets.sample(limit, 0)), to_numpy(sets.flat))


def test_every_descriptor_can_be_drawn(backend: Backend) -> None:
    sets = as_sets(backend.array(np.arange(10.0)[:, None]))
    drawn = {float(value) for seed in range(40) for value in to_numpy(sets.sample(3, seed)).ravel()}
    assert drawn == set(range(10))


# Batches


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_batches_hold_every_image_with_descriptors_once(
    sets: DescriptorSets, images: list[np.ndarray], size: int
) -> None:
    found = list(batches(sets, size))
    seen = np.concatenate([batch.images for batch in found])
    np.testing.assert_array_equal(seen, [2, 0, 3])  # the largest first
    assert all(1 <= len(batch.images) <= size for batch in found)
    for batch in found:
        for i, image in enumerate(batch.images):
            np.testing.assert_array_equal(to_numpy(batch.x[i])[to_numpy(batch.real[i])], images[image])


@pytest.mark.parametrize("size", [1, 2, 100])
def test_batches_are_padded_with_zeros_to_their_largest_image(sets: DescriptorSets, size: int) -> None:
    for batch in batches(sets, size):
        counts = sets.counts[batch.images]
        x, real = to_numpy(batch.x), to_numpy(batch.real)
        assert x.shape == (len(counts), counts.max(), 4)
        np.testing.assert_array_equal(real, np.arange(counts.max()) < counts[:, None])
        np.testing.assert_array_equal(x[~real], 0)


def test_images_of_one_size_keep_their_order(backend: Backend) -> None:
    sets = as_sets([backend.array(np.full((2, 1), float(i))) for i in range(7)])
    np.testing.assert_array_equal(np.concatenate([batch.images for batch in batches(sets, 3)]), np.arange(7))


def test_empty_images_give_no_batches(backend: Backend) -> None:
    assert list(batches(as_sets([backend.array(np.zeros((0, 4)))] * 3), 2)) == []


def test_a_batch_keeps_precision_and_library(backend: Backend) -> None:
    flat = backend.array(np.ones((3, 2), np.float32))
    batch = next(batches(as_sets(flat), 2))
    assert type(batch.x) is type(flat)
    assert batch.x.dtype == flat.dtype
