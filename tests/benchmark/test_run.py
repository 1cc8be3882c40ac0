"""Runs are kept as run.json: what goes in comes out, and what was damaged is refused in one sentence."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faemb.benchmark.run import FILE, VERSION, Run, Used, averaged
from faemb.errors import FormatError, InputError
from made_up_runs import HOSTILE, row, run


@pytest.mark.parametrize("name", ["Ægir µ", HOSTILE, "no text: \udcff"], ids=["unicode", "hostile", "bytes"])
def test_what_is_saved_is_loaded(tmp_path: Path, name: str) -> None:
    made = run(row(name, 8, 70.1), replace(row("Temb", 64, 1.0), series=(3.0, 2.0)), dataset=Used(name, 1, ""))
    made.save(tmp_path)
    assert Run.load(tmp_path) == Run.load(tmp_path / FILE) == made


def test_a_folder_without_a_run_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be read: .*; give a folder that faemb benchmark made"):
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
