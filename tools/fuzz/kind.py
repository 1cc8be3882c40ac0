"""One kind of input: valid examples, changes that know the format, and the reader that must bear them."""

import shutil
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
from tools.fuzz.mutations import changed, replaced_by_something_else

T = TypeVar("T")
Way = Callable[[Path, np.random.Generator], None]
"""Changes a file in place."""

LARGEST = 10_000_000
"""Bytes of a file that is changed twice: the second change reads it."""
KEPT = "kept"
"""Files whose names begin so belong to the check and are never changed."""


class Damage(Exception):
    """A reader gave something that it must not give, without an error."""


class Kind(ABC):
    name: ClassVar[str]

    @abstractmethod
    def prepare(self, folder: Path) -> None:
        """Write seeds, one folder each; called once, in a process of its own."""

    @abstractmethod
    def read(self, folder: Path) -> None:
        """Read an input as a user would; raises a FaembError if it is refused, `Damage` if it is misread."""

    def victims(self, folder: Path) -> list[Path]:
        """The files that may be changed."""
        files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(KEPT))
        return sorted(files)

    def ways(self, victim: Path) -> Sequence[Way]:
        """Changes that know the format of a file."""
        return ()


def maker(kind: Kind, seeds: Path, seed: int, number: int) -> Callable[[Path], str]:
    """Makes the input of this number, which depends on the seed of the run and on nothing else."""
    rng = np.random.default_rng([seed, zlib.crc32(kind.name.encode()), number])
    return lambda folder: make(kind, seeds, folder, rng)


def make(kind: Kind, seeds: Path, folder: Path, rng: np.random.Generator) -> str:
    """Write an input to a new folder; returns what was changed and how."""
    seed, donor = (_chosen(sorted(seeds.iterdir()), rng) for _ in range(2))
    shutil.copytree(seed, folder)
    victim = _chosen(kind.victims(folder), rng)
    place = f"{seed.name}/{victim.relative_to(folder)}"
    if rng.random() < 0.02:
        return f"{place}: {replaced_by_something_else(victim, rng)}"
    ways = kind.ways(victim)
    names = []
    if ways and rng.random() < 0.6:
        way = _chosen(ways, rng)
        way(victim, rng)
        names.append(getattr(way, "__name__", type(way).__name__))
    if not names or (rng.random() < 0.2 and victim.stat().st_size < LARGEST):
        other = _chosen(kind.victims(donor), rng).read_bytes()
        victim.write_bytes(changed(victim.read_bytes(), other, rng))
        names.append("bytes")
    return f"{place}: {', '.join(names)}"


def _chosen(items: Sequence[T], rng: np.random.Generator) -> T:
    return items[int(rng.integers(len(items)))]
