"""Local features of queries, extracted in this process if they are few, otherwise in worker processes.

A small image, such as a crop, may have only a handful of features. It is described at twice its size too: its vectors
are then that of the features that a stored image would have, and that of all of them.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from faemb.collection.packing import rounded
from faemb.errors import FaembError
from faemb.features import Extractor, LocalFeatures
from faemb.features.feature_files import FEATURES, features_of_query
from faemb.features.image import ImageLike
from faemb.runtime.parallel import spread

ENOUGH_FEATURES = 20
"""A query with fewer is described at twice its size too."""
LARGEST_ENLARGED = 512
"""Longer side of an image that is enlarged: it takes no more time than a large image does."""
_FEW = 8
"""Largest number of queries handled in this process: starting workers would take longer."""


@dataclass(frozen=True, eq=False)
class QueryFeatures:
    """The local features of a query, rounded as stored ones are."""

    plain: LocalFeatures
    """As those of a stored image are extracted, so that an image of the collection has similarity 1 to itself."""
    features: LocalFeatures
    """With those of the enlarged image after them, if there are few; the same as `plain` if not."""

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


@dataclass(frozen=True)
class DescribeQuery:
    """The task of the workers. Features are rounded as stored ones are, before a box selects among them."""

    extractor: Extractor
    box: tuple[float, ...] | None

    def __call__(self, query: tuple[int, ImageLike]) -> QueryFeatures:
        image = query[1]
        plain = self._selected(features_of_query(self.extractor, image))
        enlarging = self.extractor.enlarging()
        if enlarging is None or not is_enlarged(image, plain):
            return QueryFeatures(plain, plain)
        return QueryFeatures.of(plain, self._selected(enlarging.extract(image)))

    def _selected(self, features: LocalFeatures) -> LocalFeatures:
        features = rounded(features)
        return features if self.box is None else features.inside(self.box)


def is_enlarged(image: ImageLike, features: LocalFeatures) -> bool:
    """Whether a query with these features is described at twice its size too, if its extractor can do that."""
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
            yield number, outcome
        return
    for number, query in enumerate(queries):
        try:
            yield number, task((number, query))
        except FaembError as error:
            yield number, error
