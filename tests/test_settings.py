"""Checks of settings: numbers of any size are accepted or refused in one short sentence."""

import math
from typing import Any

import numpy as np
import pytest

from faemb.errors import InputError
from faemb.features import HessianAffine
from faemb.settings import require_number, require_seed, require_whole, shown

HUGE = 10**400
LONG = 10**5000


@pytest.mark.parametrize("value", [1, 7, np.int64(3), 2**63 - 1], ids=repr)
def test_whole_numbers(value: Any) -> None:
    require_whole("count", value, 1)


@pytest.mark.parametrize(
    "value",
    [0, -1, 2**63, HUGE, LONG, -LONG, 1.0, math.nan, True, None, "7", [1]],
    ids=lambda x: str(x)[:9] if x is not LONG and x != -LONG else "long",
)
def test_other_whole_numbers(value: Any) -> None:
    with pytest.raises(InputError, match=r"^count is .*; expected a whole number, 1 ") as caught:
        require_whole("count", value, 1)
    assert len(str(caught.value)) < 200


def test_the_largest_number_is_named_where_it_matters() -> None:
    with pytest.raises(InputError, match=r"expected a whole number, 1 to 9223372036854775807$"):
        require_whole("count", 2**63, 1)


@pytest.mark.parametrize(
    "value", [HUGE, -HUGE, LONG, math.inf, math.nan, None, "1", True], ids=lambda x: "long" if x == LONG else str(x)[:9]
)
def test_numbers_that_are_not_finite(value: Any) -> None:
    with pytest.raises(InputError, match=r"^mu is .*; expected a number, ") as caught:
        require_number("mu", value)
    assert len(str(caught.value)) < 200


def test_seeds_are_those_of_every_generator() -> None:
    require_seed(2**32 - 1)
    with pytest.raises(InputError, match="seed is 4294967296; expected a whole number, 0 to 4294967295"):
        require_seed(2**32)


def test_an_extractor_with_a_huge_limit() -> None:
    with pytest.raises(InputError, match=r"max_features is 10*\.\.\.; expected a whole number"):
        HessianAffine(max_features=HUGE).extract(np.zeros((40, 40), np.uint8))


def test_long_values_are_cut() -> None:
    assert shown("x" * 1000) == f"'{'x' * 76}..."
    assert shown(LONG) == "a number of thousands of digits"
    assert shown([1, "a"]) == "[1, 'a']"
