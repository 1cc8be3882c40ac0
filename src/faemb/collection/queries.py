"""Local features of queries: a few here, many in worker processes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from faemb.errors import FaembError
from faemb.features import Extractor, LocalFeatures
from faemb.runtime.parallel import spread

_FEW = 8
"""So many queries are done before the workers would have started."""


@dataclass(frozen=True)
class DescribeQuery:
    """The task that travels to the workers."""

    extractor: Extractor
    box: tuple[float, ...] | None

    def __call__(self, query: tuple[int, Any]) -> LocalFeatures:
        features = self.extractor.extract(query[1])
        return features if self.box is None else features.inside(self.box)


def described(
    queries: Sequence[Any], extractor: Extractor, box: Sequence[float] | None, jobs: int | None = None
) -> Iterator[tuple[int, LocalFeatures | Exception]]:
    """The place of each query in the list with its features, or with the error that it met, as they come."""
    task = DescribeQuery(extractor, None if box is None else tuple(box))
    if len(queries) > _FEW:
        for (place, _), outcome in spread(task, enumerate(queries), jobs=jobs):
            yield place, outcome
        return
    for place, query in enumerate(queries):
        try:
            yield place, task((place, query))
        except FaembError as error:
            yield place, error
