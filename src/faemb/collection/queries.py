"""Local features of queries, extracted in this process if they are few, otherwise in worker processes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from faemb.collection.packing import rounded
from faemb.errors import FaembError
from faemb.features import Extractor, LocalFeatures
from faemb.features.feature_files import features_of_query
from faemb.features.image import ImageLike
from faemb.runtime.parallel import spread

_FEW = 8
"""Largest number of queries handled in this process: starting workers would take longer."""


@dataclass(frozen=True)
class DescribeQuery:
    """The task of the workers. Features are rounded as stored ones are, before a box selects among them."""

    extractor: Extractor
    box: tuple[float, ...] | None

    def __call__(self, query: tuple[int, ImageLike]) -> LocalFeatures:
        features = rounded(features_of_query(self.extractor, query[1]))
        return features if self.box is None else features.inside(self.box)


def described(
    queries: Sequence[ImageLike], extractor: Extractor, box: Sequence[float] | None, jobs: int | None = None
) -> Iterator[tuple[int, LocalFeatures | Exception]]:
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
