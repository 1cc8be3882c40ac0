"""Chains of results: which results search in turn, and how sure the ends of a chain are."""

import pytest

from faemb.rerank import SURE
from faemb.rerank.expansion import LIMIT, SEEDS, seeds, through


def test_sure_results_search_in_turn():
    assert seeds([1.0, SURE, 0.89, 0.0]) == [0, 1]


def test_a_few_of_them_at_most():
    assert seeds([1.0] * (SEEDS + 3)) == list(range(SEEDS))


@pytest.mark.parametrize(("first", "second", "both"), [(0.95, 0.3, 0.3), (0.6, 0.95, 0.6), (1.0, 1.0, LIMIT)])
def test_a_chain_is_as_sure_as_its_weaker_link(first, second, both):
    assert through(first, second) == both


def test_and_never_called_sure():
    assert LIMIT < SURE
