"""Average precision by hand, and against the integration of Oxford's compute_ap."""

from collections.abc import Collection, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faemb.errors import InputError
from faemb.evaluation import average_precision


def oxford(ranking: Sequence[int], relevant: Collection[int], ignored: Collection[int]) -> float:
    """compute_ap of the Oxford buildings, step by step: the area under the curve, a trapezoid per ranked image."""
    old_recall, old_precision, area = 0.0, 1.0, 0.0
    found = judged = 0
    for image in ranking:
        if image in ignored:
            continue
        found += image in relevant
        judged += 1
        recall, precision = found / len(relevant), found / judged
        area += (recall - old_recall) * ((old_precision + precision) / 2)
        old_recall, old_precision = recall, precision
    return area


@pytest.mark.parametrize(
    ("ranking", "relevant", "expected"),
    [
        ([1, 2, 3], {1}, 1),
        ([1, 2, 3], {1, 2, 3}, 1),
        ([2, 1, 3], {1}, (0 + 1 / 2) / 2),
        ([2, 3, 1], {1}, (0 + 1 / 3) / 2),
        ([1, 2, 3], {1, 3}, (1 + (1 / 2 + 2 / 3) / 2) / 2),
        ([9, 1, 8, 2], {1, 2}, ((0 + 1 / 2) / 2 + (1 / 3 + 2 / 4) / 2) / 2),
        ([1, 2], {1, 7}, 1 / 2),
        ([1, 2], {7}, 0),
        ([], {7}, 0),
    ],
    ids=str,
)
def test_average_precision_by_hand(ranking: list[int], relevant: set[int], expected: float) -> None:
    np.testing.assert_allclose(average_precision(ranking, relevant), expected, rtol=1e-15)


@settings(max_examples=100, deadline=None)
@given(
    ranking=st.permutations(range(12)),
    length=st.integers(0, 12),
    kinds=st.lists(st.sampled_from(["relevant", "ignored", "other"]), min_size=14, max_size=14),
)
def test_average_precision_is_oxfords(ranking: list[int], length: int, kinds: list[str]) -> None:
    """Any ranking, cut anywhere: images 12 and 13 are never ranked."""
    relevant = {image for image, kind in enumerate(kinds) if kind == "relevant"} | {13}
    ignored = {image for image, kind in enumerate(kinds) if kind == "ignored"} - {13}
    ranked = ranking[:length]
    result = average_precision(ranked, relevant, ignored)
    assert 0 <= result <= 1
    np.testing.assert_allclose(result, oxford(ranked, relevant, ignored), rtol=1e-12, atol=1e-15)


def test_ignored_images_are_removed_before_counting() -> None:
    with_junk, without = average_precision([8, 1, 9, 2, 3], {1, 3}, {8, 9}), average_precision([1, 2, 3], {1, 3})
    assert with_junk == without


def test_ignored_images_that_are_not_ranked_change_nothing() -> None:
    assert average_precision([1, 2], {2}, {77}) == average_precision([1, 2], {2})


def test_missing_images_lower_the_recall() -> None:
    np.testing.assert_allclose(average_precision([1, 2], {1, 2, 3, 4}), 0.5)


@pytest.mark.parametrize("nothing", [[], set(), ()], ids=repr)
def test_a_query_without_relevant_images_is_refused(nothing: Collection[int]) -> None:
    with pytest.raises(InputError, match="a query without relevant images has no average precision"):
        average_precision([1, 2], nothing)
