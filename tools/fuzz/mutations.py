"""Changes of bytes that know no format: flipped bits, odd numbers, blocks that are cut, copied or of another file."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

Rng = np.random.Generator
MOST_CHANGES = 4
LONGEST_BLOCK = 256
HEAD = 96
"""Bytes of a header: half of the changes are made there, since most declared sizes are."""

INTERESTING = (0, 1, -1, 2**7, 2**15, 2**16 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 50_000, 10**9)
"""Numbers at which sizes overflow or become absurd."""


def changed(data: bytes, donor: bytes, rng: Rng) -> bytes:
    """One to four changes; `donor` is another valid file."""
    for _ in range(int(rng.integers(1, MOST_CHANGES + 1))):
        change = _CHANGES[int(rng.integers(len(_CHANGES)))]
        data = change(data, donor, rng) if data else donor[:LONGEST_BLOCK]
    return data


def odd_integer(rng: Rng) -> int:
    return INTERESTING[int(rng.integers(len(INTERESTING)))]


def replaced_by_something_else(path: Path, rng: Rng) -> str:
    """What lies in the place of a file is no file, or is far larger than it was; returns what it is."""
    kind = ("pipe", "device", "folder", "nothing", "empty", "sparse")[int(rng.integers(6))]
    if kind == "sparse":
        os.truncate(path, 3 << 30)
        return kind
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.touch()
    return kind


def _place(data: bytes, rng: Rng) -> int:
    end = min(len(data), HEAD) if rng.random() < 0.5 else len(data)
    return int(rng.integers(end))


def _length(rng: Rng) -> int:
    return int(2 ** rng.uniform(0, np.log2(LONGEST_BLOCK)))


def _flip(data: bytes, donor: bytes, rng: Rng) -> bytes:
    place = _place(data, rng)
    return data[:place] + bytes([data[place] ^ (1 << int(rng.integers(8)))]) + data[place + 1 :]


def _byte(data: bytes, donor: bytes, rng: Rng) -> bytes:
    place = _place(data, rng)
    return data[:place] + rng.bytes(1) + data[place + 1 :]


def _number(data: bytes, donor: bytes, rng: Rng) -> bytes:
    """An odd integer of 1, 2, 4 or 8 bytes, in either byte order, at a multiple of its size."""
    size = 1 << int(rng.integers(4))
    place = _place(data, rng) // size * size
    value = odd_integer(rng) % (1 << 8 * size)
    return data[:place] + value.to_bytes(size, "little" if rng.random() < 0.5 else "big") + data[place + size :]


def _cut(data: bytes, donor: bytes, rng: Rng) -> bytes:
    return data[: int(rng.integers(len(data)))]


def _delete(data: bytes, donor: bytes, rng: Rng) -> bytes:
    place = _place(data, rng)
    return data[:place] + data[place + _length(rng) :]


def _insert(data: bytes, donor: bytes, rng: Rng) -> bytes:
    place = _place(data, rng)
    return data[:place] + rng.bytes(_length(rng)) + data[place:]


def _zeros(data: bytes, donor: bytes, rng: Rng) -> bytes:
    """A block that was never written to the disk."""
    place, length = _place(data, rng), _length(rng)
    return data[:place] + bytes(min(length, len(data) - place)) + data[place + length :]


def _repeat(data: bytes, donor: bytes, rng: Rng) -> bytes:
    place, length = _place(data, rng), _length(rng)
    times = int(2 ** rng.uniform(0, 6))
    return data[:place] + data[place : place + length] * times + data[place:]


def _splice(data: bytes, donor: bytes, rng: Rng) -> bytes:
    """The beginning of one file and the end of another."""
    return data[: _place(data, rng)] + donor[int(rng.integers(len(donor) + 1)) :]


def _graft(data: bytes, donor: bytes, rng: Rng) -> bytes:
    """A block of another file in the same place."""
    place, length = _place(data, rng), _length(rng)
    return data[:place] + donor[place : place + length] + data[place + length :]


_CHANGES: tuple[Callable[[bytes, bytes, Rng], bytes], ...] = (
    *(_flip, _byte, _number, _number, _cut, _delete, _insert, _zeros, _repeat, _splice, _graft),
)
