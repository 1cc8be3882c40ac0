"""Prefetching: all parts of a file that will be read are announced to the system before the first is needed.

Without this it reads each part when it is accessed, one after the other and with a hundred kilobytes around it. On a
disk a thousand rows of 16 kilobytes then take seconds; with this they take hundredths of a second.
"""

import mmap
import os
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped


def picked(rows: Any, which: Int[np.ndarray, " n"]) -> Shaped[np.ndarray, "n *w"]:
    """Some rows of an array, which may be a memory-mapped file, or of an object that is indexed like an array."""
    if not isinstance(rows, np.ndarray):
        return np.asarray(rows[which])
    content = _map_of(rows)
    if content is not None and len(which) and hasattr(mmap, "MADV_WILLNEED"):
        begin = rows.ctypes.data - np.frombuffer(content, np.uint8, 1).ctypes.data
        starts = begin + which * rows.strides[0]
        pages = starts - starts % mmap.PAGESIZE
        lengths = starts - pages + rows[0].nbytes
        for page, length in zip(pages.tolist(), lengths.tolist(), strict=True):
            content.madvise(mmap.MADV_WILLNEED, page, length)
    return np.asarray(rows)[which]  # indexing np.memmap takes longer than the copy


def _map_of(array: Any) -> mmap.mmap | None:
    """The mapped file that holds the content of an array."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, mmap.mmap) else None


def expect(file: Path, places: Iterable[tuple[int, int]]) -> None:
    """Prefetch places of a file, given as offset and length."""
    if not hasattr(os, "posix_fadvise"):
        return
    with suppress(OSError, OverflowError):  # the read that follows reports the error
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
        with closing(os.fdopen(handle, "rb")) as opened:
            for offset, length in places:
                os.posix_fadvise(opened.fileno(), offset, length, os.POSIX_FADV_WILLNEED)
