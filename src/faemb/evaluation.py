"""Average precision, as the benchmarks of instance search define it.

Conventions: the precision-recall curve is integrated by trapezoids (Oxford buildings' compute_ap, INRIA Holidays,
revisited Oxford and Paris); images that are junk for a query, and the query itself where a benchmark drops it, are
removed from the ranking before anything is counted.
"""

from collections.abc import Iterable

from faemb.errors import InputError


def average_precision(ranking: Iterable[int], relevant: Iterable[int], ignored: Iterable[int] = ()) -> float:
    """Area under the precision-recall curve of one ranking of distinct images, best first; those absent are missed."""
    skipped = {int(image) for image in ignored}
    wanted = {int(image) for image in relevant} - skipped
    if not wanted:
        raise InputError("a query without relevant images has no average precision; leave it out of the mean")
    area, found = 0.0, 0
    judged = (image for image in dict.fromkeys(int(image) for image in ranking) if image not in skipped)
    for position, image in enumerate(judged):
        if image in wanted:
            before = found / position if position else 1.0
            found += 1
            area += (before + found / (position + 1)) / (2 * len(wanted))
    return area
