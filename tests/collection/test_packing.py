"""Packed local features: how near they stay to what they were, and that no other bytes are taken for them."""

import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from faemb.collection.packing import pack, unpack
from faemb.errors import FormatError
from faemb.features import LocalFeatures
from pictures import pixels
from small_collections import tiny_model

_LENGTHS = 8  # where count and width begin, after the mark and the checksum


def features_of(descriptors: np.ndarray, size: tuple[int, int] = (640, 480)) -> LocalFeatures:
    rng = np.random.default_rng(len(descriptors))
    frames = rng.normal(100, 30, (len(descriptors), 6)).astype(np.float32)
    return LocalFeatures(descriptors.astype(np.float32), frames, rng.random(len(descriptors), np.float32), size)


def assert_near(packed: LocalFeatures, given: LocalFeatures, levels: int) -> None:
    """Half a level at most, and a little for the arithmetic; all else to the bit."""
    step = np.abs(given.descriptors).max(initial=0) / levels
    assert packed.descriptors.shape == given.descriptors.shape
    assert np.abs(packed.descriptors - given.descriptors).max(initial=0) <= 0.5001 * step
    np.testing.assert_array_equal(packed.frames, given.frames)
    np.testing.assert_array_equal(packed.scores, given.scores)
    assert packed.image_size == given.image_size
    assert {packed.descriptors.dtype, packed.frames.dtype, packed.scores.dtype} == {np.dtype(np.float32)}


@pytest.mark.parametrize("count", [0, 1, 2, 257])
@pytest.mark.parametrize("width", [1, 7, 64, 128, 384])
def test_what_is_unpacked_is_near(rng, count, width):
    given = features_of(rng.random((count, width)))
    assert_near(unpack(pack(given)), given, 255)


def test_negative_descriptors_have_half_the_levels(rng):
    given = features_of(rng.normal(0, 3, (50, 96)))
    assert_near(unpack(pack(given)), given, 127)


@pytest.mark.parametrize("value", [0.0, 1e-30, 1e-44, 1e30, -1e-44, -7.0])
def test_descriptors_that_are_all_the_same(value):
    given = features_of(np.full((3, 5), value))
    stored = unpack(pack(given)).descriptors
    np.testing.assert_allclose(stored, given.descriptors, rtol=1e-5, atol=1e-42)


def test_a_root_sift_moves_by_a_few_thousandths():
    given = tiny_model().extractor.extract(pixels(1))
    stored = unpack(pack(given)).descriptors
    assert np.linalg.norm(stored - given.descriptors, axis=1).max() < 0.005  # their lengths are 1


def test_features_without_geometry_keep_their_nan(rng):
    descriptors = rng.random((4, 8), np.float32)
    given = LocalFeatures(descriptors, np.full((4, 6), np.nan, np.float32), np.zeros(4, np.float32), (0, 0))
    stored = unpack(pack(given))
    assert np.isnan(stored.frames).all()
    assert stored.image_size == (0, 0)


def test_packed_features_can_be_changed_in_place(rng):
    """Arrays of their own, not views of bytes."""
    stored = unpack(pack(features_of(rng.random((4, 8)))))
    stored.descriptors[0], stored.frames[0], stored.scores[0] = 0, 0, 0


def test_root_sift_is_stored_without_compression_which_would_save_little_and_slow_every_search():
    given = tiny_model().extractor.extract(pixels(1))
    levels = np.rint(given.descriptors / (given.descriptors.max() / np.float32(255))).astype(np.uint8)
    assert levels[:100].tobytes() in pack(given)


def test_sparse_descriptors_are_compressed(rng):
    given = features_of(np.where(rng.random((200, 256)) < 0.1, rng.random((200, 256)), 0))
    assert len(pack(given)) < given.descriptors.size / 2
    assert_near(unpack(pack(given)), given, 255)


def test_packing_is_worth_it():
    given = tiny_model().extractor.extract(pixels(1))
    assert len(pack(given)) < (given.descriptors.nbytes + given.frames.nbytes) / 3


WHOLE = pack(features_of(np.random.default_rng(0).random((6, 9))))


def test_cut_anywhere_it_is_refused():
    for length in range(len(WHOLE)):
        with pytest.raises(FormatError, match="local features are damaged"):
            unpack(WHOLE[:length])


@given(st.integers(0, 8 * len(WHOLE) - 1))
@settings(max_examples=150, deadline=None)
@example(8 * 30)
def test_any_bit_that_flips_is_noticed(bit):
    content = bytearray(WHOLE)
    content[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FormatError, match="local features are damaged"):
        unpack(bytes(content))


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
@example(b"")
@example(b"flf1")
@example(WHOLE + b"\0")
@example(WHOLE[:8] * 9)
def test_other_bytes_are_refused(content):
    with pytest.raises(FormatError, match="local features are damaged"):
        unpack(content)


def signed(content: bytes) -> bytes:
    """Content with a valid checksum."""
    return struct.pack("<4sI", b"flf1", zlib.crc32(content)) + content


def claiming(count: int, width: int, body: bytes) -> bytes:
    return signed(struct.pack("<IIIIf?", count, width, 640, 480, 1.0, False) + zlib.compress(body))


@pytest.mark.parametrize(
    ("count", "width"), [(2**32 - 1, 2**32 - 1), (2**32 - 1, 0), (1, 2**32 - 1), (2**24, 2**10), (10**6, 128), (2, 1)]
)
def test_more_features_than_there_are_bytes_are_refused(count, width):
    with pytest.raises(FormatError, match=r"too large|not the stated one"):
        unpack(claiming(count, width, b"\0" * 29))


def test_bytes_that_swell_are_not_swollen(monkeypatch):
    """A hundred kilobytes that would become a hundred megabytes, stated to be one feature."""
    made: list[int] = []
    inflater = zlib.decompressobj

    class Watched:
        def __init__(self) -> None:
            self._inner = inflater()

        def decompress(self, content: bytes, most: int) -> bytes:
            made.append(most)
            return self._inner.decompress(content, most)

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

    bomb = claiming(1, 128, b"\0" * 10**8)
    assert len(bomb) < 10**6
    monkeypatch.setattr(zlib, "decompressobj", Watched)
    with pytest.raises(FormatError, match="not the stated one"):
        unpack(bomb)
    assert sum(made) <= 157


def test_features_that_need_too_much_memory_are_refused_before_they_are_unpacked(monkeypatch):
    """Ten kilobytes that hold what they state, a million descriptors."""
    content = claiming(10**6, 10, bytes(38 * 10**6))
    assert len(content) < 50_000
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "100MB")
    with pytest.raises(FormatError, match=r"are too large: .* needs 144 MB of memory; .* 100 MB.*FAEMB_ITEM_MEMORY"):
        unpack(content)
    tracemalloc.start()
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "145MB")
    assert len(unpack(content)) == 10**6
    assert tracemalloc.get_traced_memory()[1] < 145_000_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    "content", [WHOLE[8:-3], WHOLE[8:] + b"more", WHOLE[8:30]], ids=["unfinished", "longer", "headless"]
)
def test_a_stream_that_does_not_end_where_it_should(content):
    with pytest.raises(FormatError):
        unpack(signed(content))
