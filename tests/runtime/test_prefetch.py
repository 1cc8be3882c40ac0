"""Rows of mapped files: the right ones, and not much more of the file is read than these."""

import ctypes
import mmap
import os
import time
from pathlib import Path

import numpy as np
import pytest

from faemb.runtime.prefetch import expect, picked

ROWS, WIDTH = 4096, 3000


class Listed:
    """Gives rows as an array does, such as vectors in a server."""

    def __init__(self, rows: np.ndarray) -> None:
        self._rows = rows

    def __getitem__(self, which: np.ndarray) -> np.ndarray:
        return self._rows[which]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.f32"
    with path.open("wb") as out:
        np.arange(ROWS * WIDTH, dtype="<f4").tofile(out)
        out.flush()
        os.fsync(out.fileno())
    return path


@pytest.fixture
def forgotten(file: Path) -> Path:
    """None of it is in memory."""
    if not hasattr(os, "posix_fadvise"):
        pytest.skip("the system cannot be told to forget a file")
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if in_memory(file) > 0:
        pytest.skip("this file system keeps files in memory")
    return file


def in_memory(file: Path) -> int:
    """Number of pages of a file that the system holds."""
    content = np.memmap(file, np.uint8, "r")
    pages = np.zeros(-(-content.size // mmap.PAGESIZE), np.uint8)
    address, size = ctypes.c_void_p(content.ctypes.data), ctypes.c_size_t(content.size)
    assert ctypes.CDLL(None).mincore(address, size, ctypes.c_void_p(pages.ctypes.data)) == 0
    return int((pages & 1).sum())


def views(file: Path) -> dict[str, np.ndarray]:
    rows = np.memmap(file, "<f4", "r", shape=(ROWS, WIDTH))
    parts = rows.reshape(ROWS, 5, WIDTH // 5)
    later = np.memmap(file, "<f4", "r", offset=4 * WIDTH, shape=(ROWS - 1, WIDTH))
    return {"rows": rows, "parts": parts, "first part": parts[:, 0], "without the first": rows[1:], "offset": later}


@pytest.mark.parametrize("which", [[], [0], [7, 3, 3, 4000], list(range(0, 4090, 40))], ids=len)
def test_rows_are_those_of_the_array(file, which):
    chosen = np.array(which, np.int64)
    for name, rows in views(file).items():
        np.testing.assert_array_equal(picked(rows, chosen), np.array(rows)[chosen], err_msg=name)
        np.testing.assert_array_equal(picked(np.array(rows), chosen), np.array(rows)[chosen], err_msg=name)
        np.testing.assert_array_equal(picked(Listed(np.array(rows)), chosen), np.array(rows)[chosen], err_msg=name)


def test_little_more_than_the_rows_is_read(forgotten):
    rows, chosen = np.memmap(forgotten, "<f4", "r", shape=(ROWS, WIDTH)), np.arange(50, ROWS, 200)
    found = picked(rows, chosen)
    np.testing.assert_array_equal(found[:, 0], chosen * WIDTH)
    wanted = len(chosen) * (4 * WIDTH / mmap.PAGESIZE + 1)
    assert len(chosen) <= in_memory(forgotten) <= 2 * wanted


def test_expected_places_are_read_before_they_are_needed(forgotten):
    places = [(4 * WIDTH * row, 4 * WIDTH) for row in range(50, ROWS, 200)]
    expect(forgotten, places)
    wanted = len(places) * 4 * WIDTH // mmap.PAGESIZE
    end = time.monotonic() + 30
    while in_memory(forgotten) < wanted:  # the system reads them by itself
        assert time.monotonic() < end
        time.sleep(0.01)
    assert in_memory(forgotten) <= 3 * wanted


def test_what_cannot_be_expected_is_left_to_the_reader(tmp_path):
    expect(tmp_path / "nothing", [(0, 1)])
    expect(tmp_path, [(0, 1)])
    (tmp_path / "short").write_bytes(b"x")
    expect(tmp_path / "short", [(1 << 70, 5), (1 << 62, 1 << 62)])
