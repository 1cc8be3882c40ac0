"""Files of slots: written beyond what counts, mapped for reading, and refused where they are too short."""

import os
import zlib

import numpy as np
import pytest

from faemb.collection import slots
from faemb.collection.slots import SlotFile, checksums, read_at, write_at
from faemb.errors import FaembError, FormatError


@pytest.fixture
def file(tmp_path) -> SlotFile:
    return SlotFile(tmp_path / "vectors-1.f32", "<f4", 3)


def rows_of(*numbers: int) -> np.ndarray:
    return np.array([[n, n + 0.25, n + 0.5] for n in numbers], np.float32)


def test_what_is_written_is_read(file):
    file.write(0, rows_of(1, 2))
    file.write(2, rows_of(3))
    np.testing.assert_array_equal(file.rows(3), rows_of(1, 2, 3))
    np.testing.assert_array_equal(file.rows(2), rows_of(1, 2))
    assert file.path.read_bytes() == rows_of(1, 2, 3).tobytes()


def test_checksums_are_of_each_row(file):
    assert file.write(0, rows_of(1, 2)) == [zlib.crc32(row.tobytes()) for row in rows_of(1, 2)]
    assert checksums(rows_of(2)) == [zlib.crc32(file.path.read_bytes()[12:24])]


def test_rows_of_another_kind_are_stored_as_this_one(file):
    rows = np.asfortranarray(rows_of(1, 2).astype(np.float64))
    assert file.write(0, rows) == checksums(rows_of(1, 2))
    np.testing.assert_array_equal(file.rows(2), rows_of(1, 2))


def test_rows_are_mapped_and_cannot_be_changed(file):
    file.write(0, rows_of(1))
    rows = file.rows(1)
    assert isinstance(rows, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        rows[0] = 0


def test_what_lies_beyond_the_end_is_written_over(file):
    """As a killed process leaves it: more than a row, and not a whole one."""
    file.write(0, rows_of(1))
    with file.path.open("ab") as handle:
        handle.write(b"\xff" * 31)
    file.write(1, rows_of(2))
    np.testing.assert_array_equal(file.rows(2), rows_of(1, 2))


def test_a_mapped_row_is_not_disturbed_by_what_comes_later(file):
    file.write(0, rows_of(1))
    rows = file.rows(1)
    file.write(1, rows_of(2))
    file.path.unlink()  # as compaction does
    np.testing.assert_array_equal(rows, rows_of(1))


@pytest.mark.parametrize("held", [0, 1, 35])
def test_a_short_file_is_refused(file, held):
    file.write(0, rows_of(1, 2, 3))
    os.truncate(file.path, held)
    with pytest.raises(FormatError) as caught:
        file.rows(3)
    assert str(caught.value) == (
        f"{file.path} is cut short: it has {held} bytes of 36; restore it from a copy, or run: "
        f"faemb check {file.path.parent} --repair"
    )


def test_a_file_that_is_gone_is_as_short_as_can_be(file):
    with pytest.raises(FormatError, match="it has 0 bytes of 12;"):
        file.rows(1)


def test_no_slots_need_no_file(file):
    assert file.rows(0).shape == (0, 3)
    assert not file.path.exists()


def test_a_folder_in_its_place_is_explained(file):
    file.path.mkdir()
    with pytest.raises(FaembError, match="is not a plain file"):
        file.rows(1)


def test_a_file_that_vanishes_at_the_last_moment(file, monkeypatch):
    """Compaction deletes it between any two calls of a reader."""
    file.write(0, rows_of(1))

    def vanish(descriptor: int, fstat=os.fstat) -> os.stat_result:
        file.path.unlink(missing_ok=True)
        return fstat(descriptor)

    monkeypatch.setattr(os, "fstat", vanish)
    np.testing.assert_array_equal(file.rows(1), rows_of(1))


def test_bytes_anywhere(tmp_path):
    file = tmp_path / "features-1.bin"
    write_at(file, 0, b"front", durable=False)
    write_at(file, 5, b"after")
    write_at(file, 0, b"FRONT")
    assert file.read_bytes() == b"FRONTafter"
    assert read_at(file, 3, 4) == b"NTaf"
    assert read_at(file, 10, 0) == b""


@pytest.mark.parametrize(("offset", "length"), [(8, 3), (99, 1), (0, 5 * 10**9), (-1, 2), (2**70, 1), (3, -2)])
def test_bytes_that_a_file_does_not_have_are_not_read(tmp_path, offset, length):
    (tmp_path / "a").write_bytes(b"0123456789")
    with pytest.raises(ValueError, match="has 10 bytes, and bytes"):
        read_at(tmp_path / "a", offset, length)


@pytest.mark.parametrize("offset", [1, 5 * 10**9])
def test_a_file_never_gets_a_hole(tmp_path, offset):
    with pytest.raises(FormatError, match=r"a has 0 bytes of the .* that the catalogue names; run: faemb check"):
        write_at(tmp_path / "a", offset, b"1")
    assert not (tmp_path / "a").exists()


def test_the_disk_has_it_before_it_counts(tmp_path, monkeypatch):
    calls: list[str] = []
    monkeypatch.setattr(os, "fdatasync", lambda handle: calls.append("file"), raising=False)
    monkeypatch.setattr(slots, "sync_folder", lambda folder: calls.append("folder"))
    write_at(tmp_path / "a", 0, b"1")
    assert calls == ["file", "folder"]
    write_at(tmp_path / "a", 1, b"2")
    assert calls == ["file", "folder", "file"]
    write_at(tmp_path / "a", 2, b"3", durable=False)
    assert calls == ["file", "folder", "file"]


def test_a_write_that_is_taken_in_parts(tmp_path, monkeypatch):
    """As the system may do."""

    class Hesitant:
        def __init__(self, file) -> None:
            self._file = file

        def __enter__(self):
            return self

        def __exit__(self, *failure) -> None:
            self._file.close()

        def write(self, content) -> int:
            return self._file.write(content[:7])

        def __getattr__(self, name: str):
            return getattr(self._file, name)

    monkeypatch.setattr(slots, "open", lambda *how, **more: Hesitant(open(*how, **more)), raising=False)  # noqa: SIM115
    write_at(tmp_path / "a", 0, bytes(range(100)))
    assert (tmp_path / "a").read_bytes() == bytes(range(100))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_its_place_is_not_waited_for(file):
    os.mkfifo(file.path)
    for use in (lambda: file.rows(1), lambda: read_at(file.path, 0, 0), lambda: write_at(file.path, 0, b"content")):
        with pytest.raises(FormatError, match="is not a plain file; remove it and run: faemb check"):
            use()
