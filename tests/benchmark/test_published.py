"""The paper's numbers, as printed, and each with a row or a preset that shows it."""

from collections.abc import Iterator

import pytest

from faemb.benchmark.published import Result, published, tables
from faemb.benchmark.rows import RequestedRow
from faemb.benchmark.tables import TABLES, Choice, one
from faemb.presets import PUBLISHED

DATASETS = ("holidays", "oxford5k", "oxford105k", "holidays+flickr1m")
NUMBERS = {"timing": 4, "sota": 6 + 2 * 14 + 3, "short": 4 * 9, "binary": 4 * 6, "cnn": 2 * 5 + 4, "rerank": 4}


def test_as_many_numbers_as_printed() -> None:
    assert {name: len(results) for name, results in tables().items()} == NUMBERS


@pytest.mark.parametrize("table", NUMBERS)
def test_no_two_numbers_have_the_same_conditions(table: str) -> None:
    seen = [tuple(sorted(result.conditions.items())) for result in tables()[table]]
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    ("table", "conditions", "value"),
    [
        ("timing", {"method": "FAemb"}, 8.32),
        ("timing", {"method": "Fisher", "n": 128}, 1.42),
        ("sota", {"method": "Fisher", "dataset": "holidays", "n": 128}, 69.3),
        ("sota", {"method": "F-FAemb +RN", "dataset": "holidays", "n": 16}, 78.6),
        ("sota", {"method": "F-FAemb +RN", "dataset": "oxford5k", "n": 32}, 74.2),
        ("sota", {"method": "F-FAemb +RN", "dataset": "oxford105k", "n": 8}, 64.3),
        ("short", {"method": "F-FAemb +RN", "dataset": "oxford105k", "D": 256}, 44.5),
        ("short", {"method": "Temb +RN", "dataset": "holidays+flickr1m", "D": 128}, 38.7),
        ("binary", {"method": "Temb", "dataset": "oxford5k", "bits": 128}, 27.1),
        ("binary", {"method": "F-FAemb", "dataset": "oxford105k", "bits": 1024}, 44.7),
        ("cnn", {"method": "R-MAC", "D": 512}, 66.9),
        ("sota", {"method": "VLAD", "dataset": "oxford5k", "n": 64}, None),  # a dash
        ("sota", {"method": "Temb"}, None),  # several
    ],
    ids=str,
)
def test_numbers_as_printed(table: str, conditions: dict, value: float | None) -> None:
    assert published(table, **conditions) == value


def test_map_is_in_percent() -> None:
    values = [result.value for name, results in tables().items() if name != "timing" for result in results]
    assert min(values) > 20
    assert max(values) < 90


@pytest.mark.parametrize("result", tables()["sota"], ids=lambda each: str(each.conditions))
def test_dimensions_follow_from_the_number_of_anchors(result: Result) -> None:
    """Without what is discarded: 128 components of 128 n, or 1,035 of 1,035 n."""
    anchors = int(result.conditions["n"])
    per_anchor = 45 * 46 // 2 if str(result.conditions["method"]).removesuffix(" +RN") in SECOND_ORDER else 128
    assert result.conditions["D"] == (anchors - 1) * per_anchor


SECOND_ORDER = ("VLAT", "FAemb", "F-FAemb")


@pytest.mark.parametrize(
    ("better", "worse", "dataset", "gain"),
    [
        (("FAemb", 8), ("VLAT", 8), "holidays", 1.8),
        (("FAemb", 16), ("VLAD", 128), "holidays", 7.5),
        (("FAemb", 16), ("Temb", 128), "holidays", 2.0),
        (("FAemb", 16), ("Temb", 128), "oxford5k", 5.0),
        (("F-FAemb +RN", 16), ("Temb +RN", 64), "oxford105k", 7.0),
    ],
)
def test_gains_that_the_text_states_are_differences_of_numbers(better, worse, dataset: str, gain: float) -> None:
    first, second = (published("sota", method=method, n=n, dataset=dataset) for method, n in (better, worse))
    assert first is not None
    assert second is not None
    assert first - second == pytest.approx(gain, abs=0.01)


def shown() -> Iterator[RequestedRow]:
    """All rows of all tables, and all presets."""
    for dataset in DATASETS:
        choice = Choice(dataset, long_vectors=True, maps=True)
        for table in TABLES.values():
            yield from table.rows(choice)
        for name in PUBLISHED:
            for rotation in (False, True):
                yield from one(name, choice, rotation)


def test_every_number_stands_beside_a_row() -> None:
    numbers = {value for row in shown() for value in getattr(row, "published", {}).values()}
    printed = {name: {result.value for result in results} for name, results in tables().items()}
    printed["timing"] = {1000 * value for value in printed["timing"]}
    assert not set().union(*printed.values()) - numbers
