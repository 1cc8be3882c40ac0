"""Plain data is read from pickles; anything else is refused and not run."""

import copyreg
import fnmatch
import os
import pickle
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faemb.benchmark.datasets import pickled
from faemb.benchmark.datasets.pickled import numbers, unpickled
from faemb.errors import InputError

PROTOCOLS = (2, 3, 4, 5)

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
plain = st.recursive(
    leaves,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pickles") / "gnd.pkl"


def written(file: Path, data: bytes) -> Path:
    file.write_bytes(data)
    return file


@settings(max_examples=100, deadline=None)
@given(value=plain, protocol=st.sampled_from((3, 4, 5)))
def test_plain_data_comes_out_as_it_went_in(file: Path, value: Any, protocol: int) -> None:
    assert unpickled(written(file, pickle.dumps(value, protocol))) == value


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("dtype", ["<i8", ">i4", "u1", "f4", "<f8"])
@pytest.mark.parametrize("values", [[], [0], [3, 1, 200]], ids=str)
def test_arrays_become_lists(file: Path, protocol: int, dtype: str, values: list[int]) -> None:
    array = np.array(values, dtype=dtype)
    assert numbers(unpickled(written(file, pickle.dumps(array, protocol)))) == values


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_numbers_of_numpy_in_a_list_are_numbers(file: Path, protocol: int) -> None:
    value = [np.int64(3), 4, np.float32(0.5)]
    assert numbers(unpickled(written(file, pickle.dumps(value, protocol)))) == [3, 4, 0.5]


def test_arrays_of_older_numpy_and_python_are_read(file: Path) -> None:
    """As NumPy 1 named its modules, and as Python 2 wrote bytes."""
    data = pickle.dumps(np.array([7, 8]), 2).replace(b"numpy._core", b"numpy.core")
    assert numbers(unpickled(written(file, data))) == [7, 8]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_shared_is_read(file: Path, protocol: int) -> None:
    shared = ["a"]
    assert unpickled(written(file, pickle.dumps([shared, shared], protocol))) == [["a"], ["a"]]


class Hostile:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_hostile_pickle_does_nothing(file: Path, protocol: int) -> None:
    victim = file.with_name("victim")
    data = pickle.dumps({"gnd": Hostile(os.mkdir, str(victim))}, protocol)
    with pytest.raises(InputError, match=r"gnd\.pkl is refused, since it requests the function \w+\.mkdir; get it"):
        unpickled(written(file, data))
    assert not victim.exists()


@pytest.mark.parametrize(
    "value",
    [
        Hostile(eval, "1"),
        Hostile(getattr, "a", "b"),
        Hostile(np.load, "x.npy"),
        np.array([{}, None], dtype=object),
        {1, 2},
        complex(1, 2),
    ],
    ids=["eval", "getattr", "numpy-load", "objects", "set", "complex"],
)
def test_what_data_has_no_need_of_is_refused(file: Path, value: Any) -> None:
    with pytest.raises((InputError, ValueError), match=r"is refused|instead of|something else"):
        numbers(unpickled(written(file, pickle.dumps(value, 4))))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x89PNG",
        b"\x80\x04.",
        b"\x80\x04h\x05.",  # remembered nowhere
        b"\x80\x04]e.",  # no mark
        b"\x80\x04K\x01K\x02R.",  # a number called
        b"\x80\x04]}b.",  # a list with a state
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",  # eight exbibytes announced
    ],
    ids=repr,
)
def test_damage_is_explained(file: Path, data: bytes) -> None:
    with pytest.raises(InputError, match="is not a pickle, or is damaged"):
        unpickled(written(file, data))


@settings(max_examples=300, deadline=None)
@given(place=st.integers(0, 10_000), value=st.integers(0, 255), cut=st.integers(0, 10_000))
def test_any_damage_ends_well(file: Path, place: int, value: int, cut: int) -> None:
    data = bytearray(pickle.dumps({"gnd": [{"easy": np.arange(9), "bbx": [1.0, 2.0]}], "imlist": ["a", "b"]}, 4))
    data[place % len(data)] = value
    with suppress(InputError):
        unpickled(written(file, bytes(data[: cut % len(data) + 1])))


@pytest.mark.parametrize(
    ("data", "asked"),
    [
        (b"\x80\x04K\x01Q.", "the operation BINPERSID"),
        (b"\x80\x04\x82\x01.", "the operation EXT1"),
        (b"\x80\x04cnumpy\nndarray\n)\x81.", "the operation NEWOBJ"),
        (b"\x80\x04(cnumpy\nndarray\no.", "the operation OBJ"),
        (b"\x80\x04(inumpy\nndarray\n.", "the operation INST"),
        (b"\x80\x04cnumpy\nndarray\nK\x01\x85R.", "an array that NumPy did not write"),
        (b"\x80\x04cnumpy\ndtype\nX\x01\x00\x00\x00O\x85R.", "an array of something else than numbers"),
        (b"\x80\x04c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00bz2\x86R.", "another encoding than latin1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_operations_that_data_does_not_use_are_refused(file: Path, data: bytes, asked: str) -> None:
    with pytest.raises(InputError, match=f"is refused, since it requests {asked}"):
        unpickled(written(file, data))


def test_an_extension_that_is_already_loaded_is_not_reached(file: Path) -> None:
    """The registry of extensions gives objects without naming them."""
    copyreg.add_extension("fnmatch", "filter", 240)
    try:
        data = pickle.dumps(fnmatch.filter, 4)
        assert pickle.loads(data) is fnmatch.filter  # noqa: S301 # from now on it is in Python's cache
        with pytest.raises(InputError, match="is refused, since it requests the operation EXT1"):
            unpickled(written(file, data))
    finally:
        copyreg.remove_extension("fnmatch", "filter", 240)


def test_arrays_that_share_their_bytes_take_memory_once(file: Path) -> None:
    """A file of about a megabyte, whose arrays would take a gigabyte if they were made."""
    head = b"\x80\x04]B" + (1_000_000).to_bytes(4, "little") + b"a" * 1_000_000 + b"q\x010"
    kind = b"cnumpy\ndtype\nX\x02\x00\x00\x00u1\x85Rq\x020"
    array = b"cnumpy._core.multiarray\n_frombuffer\nh\x01h\x02\x86Ra"
    tracemalloc.start()
    try:
        arrays = unpickled(written(file, head + kind + 1000 * array + b"."))
        assert tracemalloc.get_traced_memory()[1] < 2 * pickled.LARGEST
    finally:
        tracemalloc.stop()
    assert isinstance(arrays, list)
    assert numbers(arrays[-1]) == [97] * 1_000_000


def test_attributes_that_a_pickle_sets_do_not_remain(file: Path) -> None:
    state = b"}X\x04\x00\x00\x00markK\x01s"
    with pytest.raises(InputError, match="is damaged"):
        unpickled(written(file, b"\x80\x04c_codecs\nencode\n" + state + b"b."))
    assert not hasattr(pickled._encoded, "mark")


def test_a_large_file_is_not_read(file: Path, monkeypatch) -> None:
    monkeypatch.setattr(pickled, "LARGEST", 100)
    with pytest.raises(InputError, match="is larger than 100 bytes"):
        unpickled(written(file, pickle.dumps(list(range(1000)))))


def test_a_missing_file_is_explained(file: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file '.*gone\.pkl'; expected the ground truth"):
        unpickled(file.with_name("gone.pkl"))


def test_a_place_far_away_takes_no_memory(file: Path) -> None:
    assert unpickled(written(file, b"\x80\x04K\x01r\xff\xff\xff\x7f.")) == 1


def test_keys_whose_hash_takes_for_ever_are_refused(file: Path) -> None:
    """A tuple of the same tuple twice, a hundred levels deep, as the key of a dictionary."""
    with pytest.raises(InputError, match="is damaged"):
        unpickled(written(file, b"\x80\x04})" + 100 * b"2\x86" + b"K\x01s."))


@pytest.mark.parametrize(
    "item",
    [
        b"]",
        b"}",
        b")",
        b"]K\x01a",
        b"cnumpy\ndtype\n",
        b"(t",
        b"(d",
        b"G" + bytes(8),
        b"h\0h\1\x86",
        b"h\0",
        b"M\xff\0",
    ],
    ids=repr,
)
def test_many_objects_are_counted_before_they_are_made(
    file: Path, monkeypatch: pytest.MonkeyPatch, item: bytes
) -> None:
    head = b"\x80\x04)\x94K\x01\x940("
    content = head + 2000 * item + b"l."
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "800KB")
    tracemalloc.start()
    with suppress(InputError):
        unpickled(written(file, content))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 800_000


def test_a_file_of_too_many_objects_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "1MB")
    with pytest.raises(InputError, match=r"gnd\.pkl needs 1\.?\d* MB of memory; one file may take 1 MB"):
        unpickled(written(file, pickle.dumps([[] for _ in range(10_000)])))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gnd.pkl")
    with pytest.raises(InputError, match="is a pipe"):
        unpickled(tmp_path / "gnd.pkl")
