"""Measures of rankings, as the benchmarks of instance search define them.

Conventions: a ranking holds distinct numbers of images, best first. Images that are junk for a query, and the query
itself where a benchmark removes it, are ignored. A query without relevant images has no measure and is left out of
means. Measures are fractions from 0 to 1, except the N-S score, from 0 to 4.

Measures: AP, the precision-recall curve integrated by trapezoids (Oxford buildings' compute_ap, INRIA Holidays, and
revisited Oxford and Paris [RITAC18]); mP@k, precision among the first k, or fewer if all relevant images are ranked
higher [RITAC18]; N-S, the number of an object's four images among the first four results [NS06].

[RITAC18]: Radenovic et al., "Revisiting Oxford and Paris: large-scale image retrieval benchmarking", CVPR 2018.
[NS06]: Nister and Stewenius, "Scalable recognition with a vocabulary tree", CVPR 2006.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from faemb.errors import InputError

Ranking = Iterable[int] | Int[np.ndarray, " N"]
Scores = Sequence[float | None] | Float[np.ndarray, " N"]

OBJECT_VIEWS = 4
"""Number of images of each object of UKBench, and therefore the best N-S score."""


class Judgement(NamedTuple):
    """Relevant and ignored images of one query, by number."""

    relevant: Iterable[int]
    ignored: Iterable[int] = ()


def ranked(scores: Scores) -> Int[np.ndarray, " N"]:
    """Images by decreasing score; ties are ordered by image number, so that rankings are reproducible.

    None, or minus infinity, is the score of an image without features: such images come last.
    """
    given = scores if isinstance(scores, np.ndarray) else [-np.inf if score is None else score for score in scores]
    values = np.asarray(given, dtype=np.float64)
    if np.isnan(values).any():
        raise InputError(f"the score of image {int(np.isnan(values).argmax())} is NaN; expected a number, or None")
    return np.argsort(-values, kind="stable")


def average_precision(ranking: Ranking, relevant: Iterable[int], ignored: Iterable[int] = ()) -> float:
    """Area under the precision-recall curve of one ranking; relevant images that are not in it count as not found."""
    places, wanted = _places(ranking, relevant, ignored)
    found = np.arange(len(places))
    before = np.where(places > 0, found / np.maximum(places, 1), 1.0)
    return float(np.sum(before + (found + 1) / (places + 1)) / (2 * wanted))


def precision_at(k: int, ranking: Ranking, relevant: Iterable[int], ignored: Iterable[int] = ()) -> float:
    """The fraction of relevant images among the first k, or up to the last relevant image if it ranks above k.

    So a query with fewer than k relevant images can reach 1. Relevant images that are missing count as ranked last.
    """
    if k < 1:
        raise InputError(f"k is {k}; expected at least 1")
    places, wanted = _places(ranking, relevant, ignored)
    depth = min(k, int(places[-1]) + 1) if len(places) == wanted else k
    return int(np.sum(places < depth)) / depth


def views_first(ranking: Ranking, relevant: Iterable[int], ignored: Iterable[int] = ()) -> float:
    """The N-S score of one query: the number of relevant images among the first four, including the query itself."""
    places, _ = _places(ranking, relevant, ignored)
    return float(np.sum(places < OBJECT_VIEWS))


def mean_average_precision(rankings: Iterable[Ranking], judgements: Iterable[Judgement]) -> float:
    return _mean(average_precision, rankings, judgements)


def mean_precision_at(k: int, rankings: Iterable[Ranking], judgements: Iterable[Judgement]) -> float:
    return _mean(partial(precision_at, k), rankings, judgements)


def ns_score(rankings: Iterable[Ranking], judgements: Iterable[Judgement]) -> float:
    return _mean(views_first, rankings, judgements)


MEASURES: Mapping[str, Callable[[Iterable[Ranking], Iterable[Judgement]], float]] = {
    "mAP": mean_average_precision,
    "mP@1": partial(mean_precision_at, 1),
    "mP@5": partial(mean_precision_at, 5),
    "mP@10": partial(mean_precision_at, 10),
    "N-S": ns_score,
}
"""Measures by their usual names in benchmarks."""


def _mean(measure: Callable[..., float], rankings: Iterable[Ranking], judgements: Iterable[Judgement]) -> float:
    """The mean over queries with relevant images; rankings may come from a generator, to save memory."""
    values = []
    for ranking, (relevant, ignored) in zip(rankings, judgements, strict=True):
        wanted, skipped = set(relevant), set(ignored)
        if wanted - skipped:
            values.append(measure(ranking, wanted, skipped))
    if not values:
        raise InputError("no query has relevant images, so there is no mean; check the ground truth")
    return float(np.mean(values))


def _places(ranking: Ranking, relevant: Iterable[int], ignored: Iterable[int]) -> tuple[Int[np.ndarray, " found"], int]:
    """Ranks of the relevant images from 0, without ignored images; and the number of relevant images."""
    skipped, order = _numbers(ignored), _numbers(ranking)
    wanted = np.setdiff1d(_numbers(relevant), skipped)
    if not wanted.size:
        raise InputError("a query without relevant images has no measure; leave it out of the mean")
    if (np.diff(np.sort(order)) == 0).any():
        raise InputError("a ranking holds an image twice; expected every image at most once")
    judged = order[~np.isin(order, skipped)]
    return np.flatnonzero(np.isin(judged, wanted)), wanted.size


def _numbers(images: Ranking) -> Int[np.ndarray, " N"]:
    return np.asarray(images if isinstance(images, np.ndarray) else list(images), dtype=np.int64)
