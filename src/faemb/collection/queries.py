"""Local features of queries, extracted in this process if they are few, otherwise in worker processes.

A small image, such as a crop, may have only a few features. They are also extracted at twice its size. It then has two
vectors: of the features as extracted from a stored image, and of both sets together. On request, the image is also
described turned by 90, 180 and 270 degrees, each with a vector of its own.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

from faemb.collection.packing import Rounded, rounded
from faemb.errors import FaembError, InputError
from faemb.features import Extractor, LocalFeatures
from faemb.features.feature_files import FEATURES, features_of_query
from faemb.features.image import ImageLike, name_of
from faemb.features.turning import when_turned
from faemb.runtime.parallel import spread
from faemb.runtime.paths_and_urls import fetched

ENOUGH_FEATURES = 20
"""Features of a query that has fewer are extracted at twice its size as well."""
LARGEST_ENLARGED = 512
"""Largest longer side of an image that is enlarged, which then takes no more time than a large image."""
_FEW = 8
"""Largest number of queries processed in this process: starting workers would take longer."""


@dataclass(frozen=True, eq=False)
class QueryFeatures:
    """The local features of a query, rounded as stored ones are."""

    plain: LocalFeatures
    """Extracted as those of stored images are, so that an image of the collection has similarity 1 to itself."""
    features: LocalFeatures
    """The features that are verified: `plain`, and those of the enlarged image if there are few."""
    others: tuple[LocalFeatures, ...] = ()
    """Sets that have vectors of their own beside that of `plain`."""
    turned: tuple[LocalFeatures, ...] = ()
    """Features of the image turned by 90, 180 and 270 degrees, in the coordinates of the image. Each set is verified
    on its own: features of one turn would compete with those of another for matches."""

    @classmethod
    def of(cls, plain: LocalFeatures, more: LocalFeatures) -> "QueryFeatures":
        """With the features of the enlarged image."""
        features = plain.and_more(more)
        return cls(plain if len(plain) else features, features, (features,) if len(more) else ())

    def and_turned(self, turned: Sequence[LocalFeatures]) -> "QueryFeatures":
        """With the features of the turned image; turns without features are left out."""
        return replace(self, turned=tuple(each for each in turned if len(each)))

    @property
    def sets(self) -> tuple[LocalFeatures, ...]:
        """The sets that have a vector each."""
        return self.plain, *self.others, *self.turned

    @property
    def all_verified(self) -> LocalFeatures:
        """All features that matches of a verification refer to: `features`, then those of each turn."""
        return reduce(LocalFeatures.and_more, self.turned, self.features)


def query_features(given: LocalFeatures | QueryFeatures) -> QueryFeatures:
    if isinstance(given, QueryFeatures):
        return given
    plain = rounded(given)
    return QueryFeatures(plain, plain)


@dataclass(frozen=True, eq=False)
class DescribedQuery:
    """A worker's result."""

    plain: Rounded
    more: Rounded | None
    """Features of the enlarged image."""
    box: tuple[float, ...] | None
    turned: tuple[Rounded, ...] = ()
    """Features of the turned image, a set per turn."""

    def features(self) -> QueryFeatures:
        plain = self._selected(self.plain)
        whole = QueryFeatures(plain, plain) if self.more is None else QueryFeatures.of(plain, self._selected(self.more))
        return whole.and_turned([self._selected(each) for each in self.turned]) if self.turned else whole

    def _selected(self, found: Rounded) -> LocalFeatures:
        return _selected(found.features(), self.box)


@dataclass(frozen=True)
class DescribeQuery:
    """The task of the workers. Features are rounded as stored ones are, before a box selects among them."""

    extractor: Extractor
    box: tuple[float, ...] | None
    turned: bool = False

    def __post_init__(self) -> None:
        if self.turned and not self.extractor.is_upright:
            raise InputError(
                "a query cannot be turned here: the features of this collection match however a picture lies, or are "
                "read from files; leave out turned"
            )

    def __call__(self, query: tuple[int, ImageLike]) -> DescribedQuery:
        image = fetched(query[1]) if isinstance(query[1], str | os.PathLike) else query[1]
        found = features_of_query(self.extractor, image)
        enlarging = self.extractor.enlarging() if is_enlarged(image, _selected(found, self.box)) else None
        more = None if enlarging is None else Rounded.of(enlarging.extract(image))
        turned = tuple(self._turned(image, enlarging or self.extractor))
        return DescribedQuery(Rounded.of(found), more, self.box, turned)

    def _turned(self, image: ImageLike, extractor: Extractor) -> Iterator[Rounded]:
        if not self.turned:
            return
        if not _has_pixels(image):
            raise InputError(f"{name_of(image)} is a file of features, which cannot be turned; give the image itself")
        yield from map(Rounded.of, when_turned(extractor, image))


def _selected(features: LocalFeatures, box: tuple[float, ...] | None) -> LocalFeatures:
    return features if box is None else features.inside(box)


def is_enlarged(image: ImageLike, features: LocalFeatures) -> bool:
    """Whether features of the query are also extracted at twice its size, if its extractor can do that."""
    if len(features) >= ENOUGH_FEATURES:
        return False
    return _has_pixels(image) and max(features.image_size) <= LARGEST_ENLARGED


def _has_pixels(image: ImageLike) -> bool:
    return not isinstance(image, str | os.PathLike) or not FEATURES.includes(Path(image))


def described(
    queries: Sequence[ImageLike],
    extractor: Extractor,
    box: Sequence[float] | None,
    jobs: int | None = None,
    *,
    turned: bool = False,
) -> Iterator[tuple[int, QueryFeatures | Exception]]:
    """The number of each query with its features or the error that it raised, in order of completion."""
    task = DescribeQuery(extractor, None if box is None else tuple(box), turned)
    if len(queries) > _FEW:
        for (number, _), outcome in spread(task, enumerate(queries), jobs=jobs):
            yield number, outcome if isinstance(outcome, Exception) else outcome.features()
        return
    for number, query in enumerate(queries):
        try:
            yield number, task((number, query)).features()
        except FaembError as error:
            yield number, error
