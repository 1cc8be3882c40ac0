"""Common representation of all benchmarks: numbered images, and queries with their relevant images and junk."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from os import PathLike
from pathlib import Path

from faemb.errors import InputError
from faemb.evaluation import Judgement
from faemb.features.folders import files_below
from faemb.features.region import Box


@dataclass(frozen=True)
class Query:
    """Relevant images and junk are numbers of the dataset's images; all others are wrong answers."""

    image: Path
    number: int | None
    """Number of the query among the images; None if it is not one of them."""
    relevant: tuple[int, ...]
    junk: tuple[int, ...] = ()
    """Images that are neither right nor wrong: removed from the ranking before it is measured."""
    box: Box | None = None


@dataclass(frozen=True)
class Dataset:
    name: str
    kind: str
    folder: Path
    images: tuple[Path, ...]
    protocols: Mapping[str, tuple[Query, ...]]
    """The same queries in the same order, with the relevant images and junk of each protocol."""
    query_stays: bool
    """Whether a query stays in its own ranking, as one of its relevant images; otherwise it is removed."""
    measures: tuple[str, ...]
    note: str = ""
    missing: tuple[str, ...] = ()
    """Names of absent images of the complete benchmark, as far as they are known."""
    distractors: tuple[Path, ...] = ()
    """Folders of images that are wrong answers to every query."""

    @property
    def queries(self) -> tuple[Query, ...]:
        """Queries of the first protocol; images and boxes are the same in all protocols."""
        return next(iter(self.protocols.values()))

    def judgements(self, protocol: str) -> list[Judgement]:
        """Relevant and ignored images of each query, for `faemb.evaluation`."""
        return [Judgement(query.relevant, self._ignored(query)) for query in self.protocols[protocol]]

    def _ignored(self, query: Query) -> tuple[int, ...]:
        dropped = () if self.query_stays or query.number is None else (query.number,)
        return (*query.junk, *dropped)

    def with_distractors(self, place: str | PathLike[str]) -> "Dataset":
        """The same queries, searched among more images; these may have the same names as images of the dataset."""
        folder = Path(place)
        if not folder.is_dir():
            raise InputError(f"there is no folder {folder}; expected one with distractor images")
        if _overlap(folder, self.folder) or any(_overlap(folder, other) for other in self.distractors):
            raise InputError(f"the distractors in {folder} are already part of {self.name}; move them beside it")
        if next(files_below(folder), None) is None:
            raise InputError(f"{folder} holds no images; expected distractors")
        return replace(self, distractors=(*self.distractors, folder))

    def distractor_images(self) -> Iterator[Path]:
        """Distractors in a fixed order, one at a time, since there may be millions."""
        return chain.from_iterable(files_below(folder) for folder in self.distractors)


def _overlap(one: Path, other: Path) -> bool:
    first, second = one.resolve(), other.resolve()
    return first.is_relative_to(second) or second.is_relative_to(first)
