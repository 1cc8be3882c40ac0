"""Measures by hand, and against the definitions step by step: Oxford's compute_ap, revisited Oxford's mP@k, N-S."""

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faemb.errors import InputError
from faemb.evaluation import (
    MEASURES,
    Judgement,
    average_precision,
    mean_average_precision,
    mean_precision_at,
    ns_score,
    precision_at,
    ranked,
    views_first,
)


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


def revisited(k: int, ranking: Sequence[int], relevant: Collection[int], ignored: Collection[int]) -> float:
    """mP@k of one query over a complete ranking: junk removed, then only as deep as the last relevant image."""
    judged = [image for image in ranking if image not in ignored]
    last = max(place for place, image in enumerate(judged, 1) if image in relevant)
    depth = min(last, k)
    return sum(image in relevant for image in judged[:depth]) / depth


KINDS = st.sampled_from(["relevant", "ignored", "other"])
some_kinds = st.lists(KINDS, min_size=14, max_size=14)
some_scores = st.lists(st.none() | st.integers(-3, 3).map(float), max_size=12)


def judged_as(kinds: Sequence[str], kind: str) -> set[int]:
    return {image for image, given_kind in enumerate(kinds) if given_kind == kind}


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
@given(ranking=st.permutations(range(12)), length=st.integers(0, 12), kinds=some_kinds)
def test_average_precision_is_oxfords(ranking: list[int], length: int, kinds: list[str]) -> None:
    """Any ranking, cut anywhere: images 12 and 13 are never ranked."""
    relevant, ignored = judged_as(kinds, "relevant") | {13}, judged_as(kinds, "ignored") - {13}
    result = average_precision(ranking[:length], relevant, ignored)
    assert 0 <= result <= 1
    np.testing.assert_allclose(result, oxford(ranking[:length], relevant, ignored), rtol=1e-12, atol=1e-15)


def test_ignored_images_are_removed_before_counting() -> None:
    with_junk, without = average_precision([8, 1, 9, 2, 3], {1, 3}, {8, 9}), average_precision([1, 2, 3], {1, 3})
    assert with_junk == without


def test_ignored_images_that_are_not_ranked_change_nothing() -> None:
    assert average_precision([1, 2], {2}, {77}) == average_precision([1, 2], {2})


def test_missing_images_lower_the_recall() -> None:
    np.testing.assert_allclose(average_precision([1, 2], {1, 2, 3, 4}), 0.5)


@pytest.mark.parametrize(
    ("k", "ranking", "relevant", "expected"),
    [
        (1, [1, 2, 3], {1}, 1),
        (1, [2, 1, 3], {1}, 0),
        (5, [1, 2, 3, 4, 5, 6], {1}, 1),  # all are found at the first place: nothing deeper is looked at
        (5, [2, 1, 3, 4, 5, 6], {1}, 1 / 2),
        (5, [1, 2, 3, 4, 5, 6], {1, 6}, 1 / 5),
        (3, [1, 2, 3, 4, 5, 6], {1, 3, 6}, 2 / 3),
        (10, [1, 2], {1, 7}, 1 / 10),  # one is missing, and counts as far behind
        (10, [], {7}, 0),
    ],
    ids=str,
)
def test_precision_at_by_hand(k: int, ranking: list[int], relevant: set[int], expected: float) -> None:
    np.testing.assert_allclose(precision_at(k, ranking, relevant), expected, rtol=1e-15)


@settings(max_examples=100, deadline=None)
@given(ranking=st.permutations(range(14)), kinds=some_kinds, k=st.integers(1, 16))
def test_precision_at_is_that_of_revisited_oxford(ranking: list[int], kinds: list[str], k: int) -> None:
    relevant, ignored = judged_as(kinds, "relevant") | {13}, judged_as(kinds, "ignored") - {13}
    np.testing.assert_allclose(
        precision_at(k, ranking, relevant, ignored), revisited(k, ranking, relevant, ignored), rtol=1e-12
    )


def test_views_first_counts_the_query_among_the_four() -> None:
    group = {0, 1, 2, 3}
    assert views_first([0, 1, 2, 3, 9], group) == 4
    assert views_first([0, 9, 2, 8, 1, 3], group) == 2
    assert views_first([9, 8, 7, 6, 0, 1, 2, 3], group) == 0
    assert views_first([0, 9, 2, 8, 1, 3], group, ignored={9, 8}) == 4
    assert views_first([0], group) == 1


def test_means_are_over_queries_that_have_relevant_images() -> None:
    rankings = [[0, 1, 2], [0, 1, 2], [2, 1, 0]]
    judgements = [Judgement([0]), Judgement([]), Judgement([0], [1])]
    assert mean_average_precision(rankings, judgements) == (1 + (0 + 1 / 2) / 2) / 2
    assert mean_precision_at(1, rankings, judgements) == 1 / 2
    assert ns_score(rankings, judgements) == 1


def test_a_query_whose_only_relevant_image_is_ignored_is_left_out() -> None:
    assert mean_average_precision([[0, 1], [0, 1]], [Judgement([0]), Judgement([1], [1])]) == 1


def test_rankings_may_be_made_one_at_a_time() -> None:
    held = []

    def rankings() -> Iterator[list[int]]:
        for number in range(3):
            held.append(number)
            yield [number]

    assert mean_average_precision(rankings(), (Judgement([number]) for number in range(3))) == 1
    assert held == [0, 1, 2]


def test_measures_go_by_the_names_in_reports() -> None:
    rankings, judgements = [[0, 1, 2, 3, 4]], [Judgement([1, 3])]
    values = {name: measure(rankings, judgements) for name, measure in MEASURES.items()}
    assert values == {
        "mAP": oxford(rankings[0], {1, 3}, ()),
        "mP@1": 0,
        "mP@5": 2 / 4,
        "mP@10": 2 / 4,
        "N-S": 2,
    }


def test_one_ranking_for_each_query() -> None:
    with pytest.raises(ValueError, match="longer"):
        mean_average_precision([[0]], [Judgement([0]), Judgement([0])])


def test_no_query_with_relevant_images_is_refused() -> None:
    with pytest.raises(InputError, match="no query has relevant images"):
        mean_average_precision([[0, 1]], [Judgement([])])


@pytest.mark.parametrize("nothing", [[], set(), ()], ids=repr)
def test_a_query_without_relevant_images_is_refused(nothing: Collection[int]) -> None:
    with pytest.raises(InputError, match="a query without relevant images has no measure"):
        average_precision([1, 2], nothing)


def test_an_image_that_is_ranked_twice_is_refused() -> None:
    with pytest.raises(InputError, match="holds an image twice"):
        average_precision([3, 1, 3], {1})


def test_precision_at_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="k is 0"):
        precision_at(0, [1], {1})


@settings(max_examples=100, deadline=None)
@given(scores=some_scores)
def test_rankings_fall_and_ties_keep_their_order(scores: list[float | None]) -> None:
    slow = sorted(range(len(scores)), key=lambda image: (scores[image] is None, -(scores[image] or 0.0), image))
    assert ranked(scores).tolist() == slow


def test_scores_of_an_array_are_ranked_alike() -> None:
    assert ranked(np.array([0.5, -np.inf, 0.5, 0.9], dtype=np.float32)).tolist() == [3, 0, 2, 1]


def test_nan_is_no_score() -> None:
    with pytest.raises(InputError, match="the score of image 1 is NaN"):
        ranked([0.5, float("nan"), 0.1])
