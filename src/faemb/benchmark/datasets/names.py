"""Maps the names of images in ground truth to image numbers."""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from faemb.benchmark.datasets.contents import Contents
from faemb.benchmark.datasets.dataset import Query
from faemb.errors import InputError

SHOWN = 3
"""Largest number of names listed in an error."""


class Names:
    """An image is found by its path below the folder, its file name, or its file name without suffix."""

    def __init__(self, contents: Contents) -> None:
        self._folder, self._images = contents.folder, contents.images
        self._numbers: dict[str, list[int]] = {}
        for number, path in enumerate(contents.images):
            for name in {path.relative_to(contents.folder).as_posix(), path.name, path.stem}:
                self._numbers.setdefault(name, []).append(number)

    def number(self, name: str) -> int:
        found = self._numbers[name]
        if len(found) > 1:
            places = " and ".join(str(self._images[number]) for number in found[:2])
            raise InputError(f"{name} may be {places}; keep one of them, or name it by its path in the folder")
        return found[0]

    def numbers(self, names: Iterable[str]) -> tuple[int, ...]:
        """Numbers without repetition, in the order given."""
        return tuple(dict.fromkeys(self.number(name) for name in names))

    def require(self, names: Iterable[str], source: Path) -> None:
        """Raise an InputError if ground truth names absent images."""
        absent = [name for name in dict.fromkeys(names) if name not in self._numbers]
        if absent:
            raise InputError(
                f"{source} names {len(absent)} images that are not in {self._folder}, such as {shown(absent)}; "
                "add them, or correct the file"
            )


def require_numbered(contents: Contents, name: re.Pattern[str], example: str) -> None:
    """Raise an InputError for images whose names do not belong to the benchmark, and for images of the same name."""
    odd = [path.name for path in contents.images if not name.fullmatch(path.stem)]
    if odd:
        raise InputError(
            f"{contents.folder} holds {len(odd)} images with other names than {example}, such as {shown(odd)}; "
            "give other images as distractors, from a folder of their own"
        )
    require_distinct(contents.images)


def fits_by_names(name: re.Pattern[str], queries: Callable[[Contents], Sequence[Query]], contents: Contents) -> bool:
    """Whether all images have names of the benchmark, of which some make queries."""
    return all(name.fullmatch(path.stem) for path in contents.images) and bool(queries(contents))


def require_distinct(images: Sequence[Path]) -> None:
    """Raise an InputError for images of the same name, such as thumbnails: copies would count as results."""
    seen: dict[str, Path] = {}
    for path in images:
        if seen.setdefault(path.stem, path) is not path:
            raise InputError(f"{seen[path.stem]} and {path} have the same name; keep one of them")


def shown(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN])
