"""Runs are kept as run.json: what goes in comes out, and what was damaged is refused in one sentence."""

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faemb.benchmark.ranking import load_sources
from faemb.benchmark.run import FILE, VERSION, Run, Used, averaged
from faemb.errors import FormatError, InputError
from faemb.pages.leaderboard import leaderboard
from faemb.pages.report import markdown
from made_up_runs import HOSTILE, row, run


@pytest.mark.parametrize("name", ["Ægir µ", HOSTILE, "no text: \udcff"], ids=["unicode", "hostile", "bytes"])
def test_what_is_saved_is_loaded(tmp_path: Path, name: str) -> None:
    made = run(row(name, 8, 70.1), replace(row("Temb", 64, 1.0), series=(3.0, 2.0)), dataset=Used(name, 1, ""))
    made.save(tmp_path)
    assert Run.load(tmp_path) == Run.load(tmp_path / FILE) == made


def test_a_folder_without_a_run_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file .*run.json'; expected the run.json in a folder that faemb"):
        Run.load(tmp_path)


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_only_plain_files_are_opened(tmp_path: Path, kind: str) -> None:
    """Opening a pipe would wait for ever, and reading a device may never end."""
    path = tmp_path / FILE
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        (path / FILE).mkdir(parents=True)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(InputError, match=r"run.json is a .*; expected the run.json in a folder"):
        Run.load(tmp_path)


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run().save(tmp_path)
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "10KB")
    with pytest.raises(InputError, match=r"run.json needs .* of memory; one file may take 10 KB"):
        Run.load(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{", "\x00", "[" * 100_000, '{"version": 2}'], ids=lambda text: text[:9] or "empty"
)
def test_a_damaged_file_is_explained(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(FormatError, match=r"is damaged .*; run the benchmark again"):
        Run.load(tmp_path)


@pytest.mark.parametrize("content", [[], 3, {}, {"version": 1}], ids=str)
def test_what_is_no_run_is_refused(tmp_path: Path, content: Any) -> None:
    (tmp_path / FILE).write_text(json.dumps(content))
    with pytest.raises(FormatError, match="is not a run that this faemb can read; run the benchmark again"):
        Run.load(tmp_path)


def test_a_newer_version_is_distinguished_from_damage(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps({"version": VERSION + 1, "more": {}}))
    with pytest.raises(FormatError, match=r"was made by a newer faemb .*; update faemb"):
        Run.load(tmp_path)


def test_version_2_is_read(tmp_path: Path) -> None:
    """It says nothing of how published numbers were measured."""
    made = run(row("FAemb", 8, 72.94, 72.7))
    content = json.loads(made.save(tmp_path).read_text())
    del content["rows"][0]["published_with"]
    (tmp_path / FILE).write_text(json.dumps({**content, "version": 2}))
    assert Run.load(tmp_path) == made
    assert made.rows[0].published_with == {}


NO_ROWS: list[Any] = [None, 3, "abc", [3], [{}], [None]]
NO_DATASETS: list[Any] = [None, [], {"name": "x"}, {"name": 3, "images": 1, "checksum": ""}]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("rows", value) for value in NO_ROWS],
        *[("dataset", value) for value in NO_DATASETS],
        *[("learning", value) for value in (4, [4], [{"other": 1}])],
        *[("title", 3), ("queries", "many"), ("settings", []), ("settings", {"a": []}), ("plot", {"x": 3})],
        ("more", 1),
    ],
)
def test_parts_of_the_wrong_kind_are_refused(tmp_path: Path, name: str, value: Any) -> None:
    run().save(tmp_path)
    content = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**content, name: value}))
    with pytest.raises(FormatError, match="is damaged"):
        Run.load(tmp_path)


HUGE = 10**400
NO_MEASURES: list[Any] = [1e308, -1e308, HUGE, -HUGE, [[[]]]]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("seconds", value) for value in (math.nan, math.inf, 1e308, -1.0, HUGE, None)],
        *[("queries", value) for value in (math.nan, -3, 1e308, HUGE)],
        *[("settings", {"a": HUGE}), ("settings", {"a": 1e308}), ("learning", [{"name": "x", "images": HUGE}])],
        ("rows", [{"settings": {"a": 1}, "measures": {"mAP": 1.0}}] * 10_001),
        ("rows", [{"settings": {f"{number}": 1}, "measures": {"mAP": 1.0}} for number in range(600)]),
        *[("rows", [{"settings": {}, "measures": {"mAP": value}}]) for value in NO_MEASURES],
        *[("rows", [{"settings": {}, "measures": {}, "seconds": {"fit": x}}]) for x in (math.nan, -1, 1e308, HUGE)],
        *[("rows", [{"settings": {}, "measures": {}, "series": [value]}]) for value in (HUGE, 1e308, "x", None)],
    ],
    ids=lambda value: str(value)[:30],
)
def test_numbers_that_nobody_measured_are_refused(tmp_path: Path, name: str, value: Any) -> None:
    run().save(tmp_path)
    content = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**content, name: value}))
    with pytest.raises(FormatError, match="is damaged") as caught:
        Run.load(tmp_path)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0, -1.5, 1e50], ids=str)
def test_what_could_not_be_measured_is_shown(tmp_path: Path, value: float) -> None:
    made = run(replace(row("FAemb", 8, value, value), spread={"mAP": value}, series=(value,)))
    made.save(tmp_path)
    assert markdown(Run.load(tmp_path))
    assert leaderboard(load_sources([tmp_path])[0])


@pytest.mark.parametrize(
    "part", ["settings", "measures", "published", "seconds", "encoder", "series", "spread", "published_with"]
)
@pytest.mark.parametrize("value", [None, 3, ["x"], {"mAP": ["high"]}], ids=str)
def test_parts_of_rows_of_the_wrong_kind_are_refused(tmp_path: Path, part: str, value: Any) -> None:
    run().save(tmp_path)
    content = json.loads((tmp_path / FILE).read_text())
    content["rows"][1][part] = value
    (tmp_path / FILE).write_text(json.dumps(content))
    with pytest.raises(FormatError, match="is damaged"):
        Run.load(tmp_path)


def test_several_seeds_make_one_row_of_means_and_spreads():
    rows = [row("FAemb", 8, score) for score in (70.0, 72.0, 77.0)]
    mean = averaged(rows)
    assert mean.measures == {"mAP": pytest.approx(73.0)}
    assert mean.spread == {"mAP": pytest.approx(np.std([70.0, 72.0, 77.0], ddof=1))}
    assert mean.settings == rows[0].settings
    assert averaged(rows[:1]) is rows[0]
