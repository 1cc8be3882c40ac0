"""Binary codes: ITQ's map, the bits it packs, and Hamming distances between them."""

import numpy as np
import pytest

from backends import Backend
from faemb import ITQ, hamming
from faemb.arrays import to_numpy
from faemb.errors import InputError, NotFittedError


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((120, 20)) @ rng.standard_normal((20, 20)) + 2


def projected(itq: ITQ, x: np.ndarray) -> np.ndarray:
    """V R, before signs are taken."""
    return (x - to_numpy(itq.mean_)) @ to_numpy(itq.projection_)


def quantisation_error(itq: ITQ, x: np.ndarray) -> float:
    values = projected(itq, x)
    return float(((np.where(values > 0, 1, -1) - values) ** 2).sum())


def hamming_by_the_book(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Bit by bit, pair by pair: slow, and plainly right."""
    return np.array([[sum(bin(int(p) ^ int(q)).count("1") for p, q in zip(u, v, strict=True)) for v in b] for u in a])


# The learned map


def test_codes_are_the_packed_signs(backend: Backend, x: np.ndarray) -> None:
    itq = ITQ(16, iterations=3).fit(backend.array(x))
    codes = to_numpy(itq.encode(backend.array(x)))
    assert codes.dtype == np.uint8
    np.testing.assert_array_equal(codes, np.packbits(projected(itq, x) > 0, axis=1))


def test_the_map_has_orthonormal_columns(backend: Backend, x: np.ndarray) -> None:
    projection = to_numpy(ITQ(16, iterations=3).fit(backend.array(x)).projection_)
    assert projection.shape == (20, 16)
    np.testing.assert_allclose(projection.T @ projection, np.eye(16), atol=1e-10)


def test_the_map_spans_the_principal_axes(backend: Backend, x: np.ndarray) -> None:
    projection = to_numpy(ITQ(8, iterations=3).fit(backend.array(x)).projection_)
    axes = np.linalg.svd(x - x.mean(0))[2][:8]
    np.testing.assert_allclose(projection @ projection.T, axes.T @ axes, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_learning_does_not_raise_the_quantisation_error(backend: Backend, x: np.ndarray, seed: int) -> None:
    errors = [quantisation_error(ITQ(16, iterations=i, seed=seed).fit(backend.array(x)), x) for i in (0, 1, 5, 20)]
    assert (np.diff(errors) <= 1e-9 * errors[0]).all()
    assert errors[-1] < errors[0]


def test_more_dimensions_than_vectors_will_do(backend: Backend, rng: np.random.Generator) -> None:
    vectors = rng.standard_normal((17, 200))
    itq = ITQ(16, iterations=3).fit(backend.array(vectors))
    projection = to_numpy(itq.projection_)
    np.testing.assert_allclose(projection.T @ projection, np.eye(16), atol=1e-10)
    assert to_numpy(itq.encode(backend.array(vectors))).shape == (17, 2)


def test_hamming_neighbours_agree_with_cosine(backend: Backend, rng: np.random.Generator) -> None:
    centres = rng.standard_normal((12, 48))
    vectors = np.repeat(centres, 10, axis=0) + 0.4 * rng.standard_normal((120, 48))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    codes = ITQ(32).fit(backend.array(vectors)).encode(backend.array(vectors))
    by_hamming = np.argsort(hamming(codes, codes), axis=1, kind="stable")[:, :10]
    by_cosine = np.argsort(-(vectors @ vectors.T), axis=1, kind="stable")[:, :10]
    shared = np.mean([len(set(p) & set(q)) / 10 for p, q in zip(by_hamming, by_cosine, strict=True)])
    assert shared > 0.7  # by chance: 10 of 120


def test_the_seed_decides_the_bits(backend: Backend, x: np.ndarray) -> None:
    first, again, other = (ITQ(16, iterations=3, seed=seed).fit(backend.array(x)) for seed in (3, 3, 4))
    np.testing.assert_array_equal(to_numpy(first.projection_), to_numpy(again.projection_))
    assert not np.array_equal(to_numpy(first.projection_), to_numpy(other.projection_))


def test_float32_vectors_give_a_float32_map(backend: Backend, x: np.ndarray) -> None:
    itq = ITQ(16, iterations=3).fit(backend.array(x.astype(np.float32)))
    assert to_numpy(itq.projection_).dtype == to_numpy(itq.mean_).dtype == np.float32
    assert to_numpy(itq.encode(backend.array(x.astype(np.float32)))).shape == (120, 2)


def test_no_vectors_give_no_codes(backend: Backend, x: np.ndarray) -> None:
    codes = to_numpy(ITQ(16, iterations=3).fit(backend.array(x)).encode(backend.array(x[:0])))
    assert (codes.shape, codes.dtype) == ((0, 2), np.dtype(np.uint8))


def test_inputs_stay_as_they_are(backend: Backend, x: np.ndarray) -> None:
    given = backend.array(x.copy())
    ITQ(8, iterations=3).fit(given).encode(given)
    np.testing.assert_array_equal(to_numpy(given), x)


# What is refused


@pytest.mark.parametrize("bits", [0, -8, 4, 12, 511])
def test_bits_that_do_not_fill_bytes_are_refused(backend: Backend, x: np.ndarray, bits: int) -> None:
    with pytest.raises(InputError, match=f"bits is {bits}; expected"):
        ITQ(bits).fit(backend.array(x))


@pytest.mark.parametrize(("count", "rank"), [(8, 7), (1, 0)])
def test_too_few_vectors_are_explained(backend: Backend, x: np.ndarray, count: int, rank: int) -> None:
    with pytest.raises(InputError, match=f"{count} image vectors of length 20 span {rank} directions; 8 bits need"):
        ITQ(8, iterations=3).fit(backend.array(x[:count]))


def test_no_vectors_at_all_are_refused(backend: Backend, x: np.ndarray) -> None:
    with pytest.raises(InputError, match="0 image vectors"):
        ITQ(8, iterations=3).fit(backend.array(x[:0]))


def test_more_bits_than_dimensions_are_explained(backend: Backend, x: np.ndarray) -> None:
    with pytest.raises(InputError, match="span 20 directions; 24 bits need at least as many"):
        ITQ(24).fit(backend.array(x))


def test_nan_is_refused(backend: Backend, x: np.ndarray) -> None:
    itq = ITQ(8, iterations=3).fit(backend.array(x))
    x[0, 0] = np.nan
    with pytest.raises(InputError, match="1 NaN or infinite"):
        ITQ(8, iterations=3).fit(backend.array(x))
    with pytest.raises(InputError, match="1 NaN or infinite"):
        itq.encode(backend.array(x))


def test_a_wrong_width_is_explained(backend: Backend, x: np.ndarray) -> None:
    with pytest.raises(InputError, match="image vectors have 19 columns; this model was fitted on 20"):
        ITQ(8, iterations=3).fit(backend.array(x)).encode(backend.array(x[:, :19]))


def test_an_unfitted_itq_says_so(backend: Backend, x: np.ndarray) -> None:
    with pytest.raises(NotFittedError, match="ITQ has learned nothing yet"):
        ITQ(8).encode(backend.array(x))


# Hamming distances


@pytest.mark.parametrize("length", [1, 3, 8, 64])
def test_hamming_counts_differing_bits(backend: Backend, rng: np.random.Generator, length: int) -> None:
    a = rng.integers(0, 256, (5, length), dtype=np.uint8)
    b = rng.integers(0, 256, (7, length), dtype=np.uint8)
    np.testing.assert_array_equal(hamming(backend.array(a), backend.array(b)), hamming_by_the_book(a, b))


def test_opposite_codes_differ_in_every_bit(backend: Backend) -> None:
    """4,096 bits: more than a byte can count."""
    zeros, ones = np.zeros((1, 512), np.uint8), np.full((1, 512), 255, np.uint8)
    np.testing.assert_array_equal(hamming(backend.array(zeros), backend.array(ones)), [[4096]])


@pytest.mark.parametrize(("count_a", "count_b"), [(0, 3), (3, 0), (0, 0)])
def test_no_codes_have_no_distances(backend: Backend, count_a: int, count_b: int) -> None:
    a, b = np.zeros((count_a, 2), np.uint8), np.zeros((count_b, 2), np.uint8)
    distances = hamming(backend.array(a), backend.array(b))
    assert distances.shape == (count_a, count_b)
    assert distances.dtype == np.int32


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.zeros((2, 2), np.int64), np.zeros((2, 2), np.uint8)),
        (np.zeros((2, 2), np.uint8), np.zeros((2, 2), bool)),
        (np.zeros((2, 2), np.uint8), np.zeros((2, 3), np.uint8)),
        (np.zeros((2, 1), np.uint8), np.zeros((2, 3), np.uint8)),
        (np.zeros(2, np.uint8), np.zeros((3, 2), np.uint8)),
        (np.zeros((3, 2), np.uint8), np.zeros(2, np.uint8)),
        (np.zeros(2, np.uint8), np.zeros(2, np.uint8)),
        (np.zeros((), np.uint8), np.zeros((), np.uint8)),
    ],
    ids=["int64", "bool", "lengths", "one-byte", "first-1d", "second-1d", "both-1d", "scalars"],
)
def test_codes_that_cannot_be_compared_are_refused(backend: Backend, a: np.ndarray, b: np.ndarray) -> None:
    with pytest.raises(InputError, match="packed uint8 codes of one length"):
        hamming(backend.array(a), backend.array(b))
