"""Local features of queries, extracted in this process if they are few, otherwise in worker processes.

A small image, such as a crop, may have only a few features. They are also extracted at twice its size. It then has two
vectors: of the features as extracted from a stored image, and of both sets together.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from faemb.collection.packing import Rounded, rounded
from faemb.errors import FaembError
from faemb.features import Extractor, LocalFeatures
from faemb.features.feature_files import FEATURES, features_of_query
from faemb.features.image import ImageLike
from faemb.runtime.parallel import spread
from faemb.runtime.paths_and_urls import fetched

ENOUGH_FEATURES = 20
"""Of a query with fewer features, they are also extracted at twice its size."""
LARGEST_ENLARGED = 512
"""Largest longer side of an image that is enlarged, which then takes no more time than a large image."""
_FEW = 8
"""Largest number of queries processed in this process: starting workers would take longer."""


@dataclass(frozen=True, eq=False)
class QueryFeatures:
    """The local features of a query, rounded as stored ones are."""

    plain: LocalFeatures
    """As extracted from a stored image, so that an image of the collection has similarity 1 to itself."""
    features: LocalFeatures
    """`plain`, followed by those of the enlarged image if there are few."""

    @classmethod
    def of(cls, plain: LocalFeatures, more: LocalFeatures) -> "QueryFeatures":
        features = plain.and_more(more)
        return cls(plain if len(plain) else features, features)

    @property
    def enlarged(self) -> bool:
        return len(self.features) > len(self.plain)


def query_features(given: LocalFeatures | QueryFeatures) -> QueryFeatures:
    if isinstance(given, QueryFeatures):
        return given
    plain = rounded(given)
    return QueryFeatures(plain, plain)


@dataclass(frozen=True, eq=False)
class Description:
    """A worker's result."""

    plain: Rounded
    more: Rounded | None
    """Of the enlarged image."""
    box: tuple[float, ...] | None

    def features(self) -> QueryFeatures:
        plain = _selected(self.plain.features(), self.box)
        if self.more is None:
            return QueryFeatures(plain, plain)
        return QueryFeatures.of(plain, _selected(self.more.features(), self.box))


@dataclass(frozen=True)
class DescribeQuery:
    """The task of the workers. Features are rounded as stored ones are, before a box selects among them."""

    extractor: Extractor
    box: tuple[float, ...] | None

    def __call__(self, query: tuple[int, ImageLike]) -> Description:
        image = fetched(query[1]) if isinstance(query[1], str | os.PathLike) else query[1]
        found = features_of_query(self.extractor, image)
        enlarging = self.extractor.enlarging()
        if enlarging is None or not is_enlarged(image, _selected(found, self.box)):
            return Description(Rounded.of(found), None, self.box)
        return Description(Rounded.of(found), Rounded.of(enlarging.extract(image)), self.box)


def _selected(features: LocalFeatures, box: tuple[float, ...] | None) -> LocalFeatures:
    return features if box is None else features.inside(box)


def is_enlarged(image: ImageLike, features: LocalFeatures) -> bool:
    """Whether features of the query are also extracted at twice its size, if its extractor can do that."""
    if len(features) >= ENOUGH_FEATURES:
        return False
    is_image = not isinstance(image, str | os.PathLike) or not FEATURES.includes(Path(image))
    return is_image and max(features.image_size) <= LARGEST_ENLARGED


def described(
    queries: Sequence[ImageLike], extractor: Extractor, box: Sequence[float] | None, jobs: int | None = None
) -> Iterator[tuple[int, QueryFeatures | Exception]]:
    """The number of each query with its features or the error that it raised, in order of completion."""
    task = DescribeQuery(extractor, None if box is None else tuple(box))
    if len(queries) > _FEW:
        for (number, _), outcome in spread(task, enumerate(queries), jobs=jobs):
            yield number, outcome if isinstance(outcome, Exception) else outcome.features()
        return
    for number, query in enumerate(queries):
        try:
            yield number, task((number, query)).features()
        except FaembError as error:
            yield number, error
