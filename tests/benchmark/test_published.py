"""The paper's numbers: as many as it prints, and in agreement with each other."""

from collections import Counter
from itertools import chain

import pytest

from faemb.benchmark.published import PAPER, published, results, tables
from faemb.errors import InputError

ROWS = {
    "timing": 4,
    "implementations": 9,
    "sota": 25,
    "oxford105k": 5,
    "short": 11,
    "binary": 6,
    "cnn": 12,
    "best": 6,
    "gains": 16,
    "statements": 4,
}
NUMBERS = {
    "timing": 4,
    "implementations": 9,
    "sota": 2 * 25 - 3,
    "oxford105k": 5,
    "short": 4 * 11 - 2,
    "binary": 4 * 6,
    "cnn": 3 * 12 - 9,
    "best": 2 * 6,
    "gains": 26,
    "statements": 4,
}


def rows(table: str) -> int:
    """Results that differ in nothing but their column are one row."""
    column = "bits" if table == "binary" else "dataset"
    rest = (tuple((k, v) for k, v in result.conditions.items() if k != column) for result in results(table))
    return len(Counter(rest))


def test_every_table_is_there() -> None:
    assert list(tables()) == list(ROWS)


@pytest.mark.parametrize("table", ROWS)
def test_as_many_rows_and_numbers_as_printed(table: str) -> None:
    assert rows(table) == ROWS[table]
    assert len(results(table)) == NUMBERS[table]


@pytest.mark.parametrize("table", ROWS)
def test_no_two_numbers_have_the_same_conditions(table: str) -> None:
    seen = [tuple(sorted(result.conditions.items())) for result in results(table)]
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    ("table", "conditions", "value"),
    [
        ("timing", {"method": "FAemb"}, 8.32),
        ("timing", {"method": "Fisher", "n": 128}, 1.42),
        ("implementations", {"method": "VLAD", "source": "Jegou 2012"}, 58.7),
        ("implementations", {"method": "Fisher", "D": 16256}, 69.3),
        ("sota", {"method": "F-FAemb +RN", "dataset": "holidays", "n": 16}, 78.6),
        ("sota", {"method": "F-FAemb +RN", "dataset": "oxford5k", "n": 32}, 74.2),
        ("sota", {"method": "BoW", "dataset": "oxford5k"}, 36.4),
        ("oxford105k", {"method": "CNN"}, 51.2),
        ("short", {"method": "VLAD LCS", "dataset": "holidays+flickr1m"}, 39.2),
        ("short", {"method": "F-FAemb +RN", "dataset": "oxford105k", "D": 256}, 44.5),
        ("binary", {"method": "Temb", "dataset": "oxford5k", "bits": 128}, 27.1),
        ("binary", {"method": "F-FAemb", "dataset": "oxford105k", "bits": 1024}, 44.7),
        ("cnn", {"method": "CNN", "dataset": "oxford5k-full"}, 68.0),
        ("cnn", {"method": "R-MAC", "D": 512}, 66.9),
        ("best", {"D": 1024, "dataset": "holidays"}, 81.4),
        ("statements", {"quantity": "milliseconds to embed a descriptor, compiled"}, 0.20),
    ],
    ids=str,
)
def test_numbers_as_printed(table: str, conditions: dict, value: float) -> None:
    assert published(table, **conditions) == value


def test_a_dash_is_no_number() -> None:
    assert results("sota", method="VLAD", n=256, dataset="oxford5k") == ()


def test_map_is_in_percent() -> None:
    values = [result.value for table in tables().values() if table.unit == "mAP" for result in table.results]
    assert min(values) > 20
    assert max(values) < 90


def test_times_and_gains_are_positive() -> None:
    assert all(0 < result.value < 20 for result in chain(results("timing"), results("gains")))


@pytest.mark.parametrize("table", ["sota", "short", "oxford105k", "cnn", "best"])
def test_dimensions_follow_from_the_number_of_anchors(table: str) -> None:
    """Of second-order embeddings of 45 dimensions, without the block that is discarded."""
    whole = {7245: 8, 15525: 16, 32085: 32}
    for result in results(table, source=PAPER):
        size = result.conditions["D"]
        anchors = whole.get(size)
        assert anchors is not None or size in (128, 256, 512, 1024, 2048, 4096)
        assert result.conditions.get("n", anchors) == anchors
        assert anchors is None or size == (anchors - 1) * 45 * 46 // 2


@pytest.mark.parametrize(
    "gain", [gain for gain in results("gains") if "of" in gain.conditions], ids=lambda gain: str(gain.conditions)
)
def test_gains_in_the_text_are_differences_in_the_tables(gain) -> None:
    stated = gain.conditions
    table, dataset = stated["of"], stated["dataset"]
    better = {name: stated[name] for name in ("n", "D") if name in stated}
    worse = {name: stated[f"over_{name}"] for name in ("n", "D") if f"over_{name}" in stated}
    difference = published(table, method=stated["method"], dataset=dataset, **better) - published(
        table, method=stated["over"], dataset=dataset, **worse
    )
    assert difference == pytest.approx(gain.value, abs=0.01)


@pytest.mark.parametrize(("over", "dimension", "gain_of"), [("VLAT", 7245, 8), ("VLAD", 16256, 16)])
def test_gains_over_implementations_of_the_paper(over: str, dimension: int, gain_of: int) -> None:
    faemb = published("sota", method="FAemb", n=gain_of, dataset="holidays")
    other = published("implementations", method=over, D=dimension)
    gain = published("gains", method="FAemb", n=gain_of, over=over, dataset="holidays")
    assert faemb - other == pytest.approx(gain, abs=0.01)


@pytest.mark.parametrize("result", results("best"), ids=lambda result: str(result.value))
def test_best_results_are_those_of_other_tables(result) -> None:
    """CNN features for Holidays; for Oxford SIFT, whole or short. Two numbers are printed nowhere else."""
    dataset, size = result.conditions["dataset"], result.conditions["D"]
    others = [
        *(results("cnn", dataset=dataset, D=size, method="F-FAemb") if dataset == "holidays" else ()),
        *(results("sota", dataset=dataset, D=size, method="F-FAemb +RN") if dataset == "oxford5k" else ()),
        *(results("short", dataset=dataset, D=size, method="F-FAemb +RN") if dataset == "oxford5k" else ()),
    ]
    assert [other.value for other in others] == [result.value] or (dataset == "holidays" and size in (15525, 1024))


def test_what_tables_share_is_the_same() -> None:
    for dataset in ("holidays", "oxford5k"):
        in_short = published("short", method="CNN", dataset=dataset)
        assert in_short == published("sota", method="CNN", dataset=dataset)
    assert published("short", method="CNN", dataset="oxford105k") == published("oxford105k", method="CNN")
    assert published("sota", method="VLAT improved") == published("implementations", method="VLAT improved")


def test_none_and_several_are_explained() -> None:
    with pytest.raises(InputError, match="the table 'sota' has 0 results with method='FAmb'; its methods are BoW,"):
        published("sota", method="FAmb")
    with pytest.raises(InputError, match="has 6 results with method='F-FAemb'; ask for more"):
        published("sota", method="F-FAemb")
    with pytest.raises(InputError, match="the paper has no table 'state'; there are timing, implementations"):
        published("state")
