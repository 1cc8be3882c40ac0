"""Lists of results: what shares a list, and in which order."""

from pathlib import Path

import pytest

from faemb.benchmark.ranking import Board, Source, boards, load_sources
from faemb.benchmark.run import Row, Run, Used
from made_up_runs import SIFT, row, run


def ranked(*runs: Run) -> list[Board]:
    return boards([Source(number, each, Path()) for number, each in enumerate(runs, 1)])


def scores(board: Board) -> list[float]:
    return [place.row.measures.get(board.measure, -1) for place in board.places]


def test_runs_on_the_same_data_share_a_list_best_first() -> None:
    (board,) = ranked(run(row("A", 8, 70.0), row("B", 8, 72.0)), run(row("C", 8, 71.0)))
    assert board.measure == "mAP"
    assert scores(board) == [72.0, 71.0, 70.0]
    assert [place.source.number for place in board.places] == [1, 2, 1]


@pytest.mark.parametrize(
    "changes",
    [
        {"dataset": Used("holidays811", 811, "other")},
        {"dataset": Used("holidays", 811, "1f" * 32)},
        {"labels": "other"},
        {"distractors": (Used("flickr", 1, "ab"),)},
        {"rows": (Row({}, {"N-S": 3.9}),)},
    ],
    ids=["checksum", "name", "labels", "distractors", "measure"],
)
def test_other_data_or_another_measure_make_another_list(changes: dict) -> None:
    assert len(ranked(run(), run(**changes), run(), run(**changes))) == 2


def test_the_least_cost_is_best() -> None:
    (board,) = ranked(run(*(Row({}, {"ms per descriptor": value}) for value in (2.0, 0.1, 8.0))))
    assert scores(board) == [0.1, 2.0, 8.0]


@pytest.mark.parametrize("odd", [{}, {"mAP": float("nan")}, {"mAP": float("inf")}], ids=str)
def test_rows_without_a_value_are_last(odd: dict[str, float]) -> None:
    (board,) = ranked(run(row("A", 8, 1.0), Row({"method": "odd"}, odd), row("B", 8, 2.0)))
    assert board.places[-1].row.settings["method"] == "odd"


def test_settings_of_runs_tell_rows_apart_too() -> None:
    (board,) = ranked(run(row("A", 8, 70.0)), run(row("A", 8, 71.0), settings={**SIFT, "features": "cnn"}))
    assert board.distinguishing == ["features"]


def test_a_folder_that_is_given_twice_counts_once(tmp_path: Path) -> None:
    file = run().save(tmp_path)
    sources, faults = load_sources([tmp_path, file, tmp_path / "." / "run.json"])
    assert [source.folder for source in sources] == [tmp_path]
    assert faults == []


def test_a_folder_without_a_run_is_explained(tmp_path: Path) -> None:
    sources, (fault,) = load_sources([tmp_path])
    assert sources == []
    assert "expected the run.json in a folder that faemb benchmark made" in fault


def test_runs_that_cannot_be_read_do_not_keep_back_the_others(tmp_path: Path) -> None:
    for name in ("a", "bad", "b"):
        (tmp_path / name).mkdir()
        run().save(tmp_path / name)
    (tmp_path / "bad" / "run.json").write_text("{")
    sources, (fault,) = load_sources([tmp_path / name for name in ("a", "bad", "b")])
    assert [(source.number, source.folder.name) for source in sources] == [(1, "a"), (2, "b")]
    assert fault.startswith(f"{tmp_path / 'bad' / 'run.json'} is damaged")
