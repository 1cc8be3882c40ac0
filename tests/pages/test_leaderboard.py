"""Leaderboards: what the page shows, that it holds everything, and that names from outside cannot become HTML."""

import base64
import json
import os
import re
from pathlib import Path

import pytest

from faemb.benchmark.provenance import CAUTION, facts
from faemb.benchmark.ranking import load_sources
from faemb.benchmark.run import FILE, Row, Run, Used
from faemb.pages.leaderboard import leaderboard
from html_pages import Page
from made_up_runs import HOSTILE, row, run

PNG = b"\x89PNG\r\n\x1a\n and so on"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """For runs, one folder each."""
    return tmp_path


def shown(folder: Path, *runs: Run) -> Page:
    folders = [folder / f"run{number}" for number in range(len(runs))]
    for place, each in zip(folders, runs, strict=True):
        place.mkdir(exist_ok=True)
        each.save(place)
    return Page(leaderboard(load_sources(folders)[0]))


def test_rows_show_settings_ours_the_papers_and_the_gap(folder: Path) -> None:
    page = shown(folder, run())
    assert page.texts("th", "what") == ["FAembn 16", "FAembn 8", "Tembn 64"]
    assert page.cells("mAP") == ["74.0", "72.9", "70.5"]
    assert page.cells("paper") == ["75.8", "72.7", "-"]
    assert page.cells("gap") == ["-1.8", "+0.2", "-"]
    assert page.cells("time") == ["1 min 31 s"] * 3
    assert page.texts("td", "worse") == ["-1.8"]
    assert page.texts("td", "better") == ["+0.2"]


def test_a_slower_method_is_worse(folder: Path) -> None:
    page = shown(
        folder, run(*(Row({"method": name}, {"ms": 1.0}, {"ms": ms}) for name, ms in (("A", 0.5), ("B", 2.0))))
    )
    assert (page.texts("td", "worse"), page.texts("td", "better")) == (["+0.50"], ["-1.00"])
    assert "by ms, less is better" in page.texts("h2")[0]


def test_lists_are_kept_apart_by_checksum(folder: Path) -> None:
    page = shown(folder, run(), run(dataset=Used("holidays811", 811, "ab" * 32)), run())
    assert page.texts("h2") == ["holidays811 by mAP"] * 2
    assert [text.count("FAemb") for text in page.texts("tbody")] == [4, 2]
    assert "1f" * 6 in page.texts("section")[0]
    assert "ab" * 6 in page.texts("section")[1]


def test_every_run_says_what_was_used(folder: Path) -> None:
    page = shown(folder, run(), run(title="Another"))
    assert page.texts("dd") == [text for _, text in facts(run())] * 2
    assert [each["id"] for each in page.attributes("summary")] == ["run-1", "run-2"]
    assert {each["href"] for each in page.attributes("a")} == {"#run-1", "#run-2"}
    assert page.texts("p", "caution") == [CAUTION]


def test_without_published_numbers_there_is_no_column_for_them(folder: Path) -> None:
    page = shown(folder, run(row("A", 8, 1.0)))
    assert page.cells("paper") == page.texts("p", "caution") == []


def test_other_measures_have_columns(folder: Path) -> None:
    page = shown(folder, run(Row({}, {"mAP medium": 55.0, "mAP hard": 30.25}), plot={"y": "mAP hard"}))
    assert page.texts("thead") == ["methodmAP hardmAP mediumtimerun"]


def test_plots_are_part_of_the_page(folder: Path) -> None:
    (folder / "run0").mkdir()
    (folder / "run0" / "plot.png").write_bytes(PNG)
    (folder / "run0" / "other.png").write_bytes(b"<script>")
    (image,) = shown(folder, run()).attributes("img")
    assert image["src"] == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


def test_hostile_names_stay_text_and_nothing_is_loaded(folder: Path) -> None:
    used = Used(HOSTILE, 1, HOSTILE, HOSTILE)
    settings = {HOSTILE: HOSTILE}
    rows = [Row({"method": name, **settings}, {HOSTILE: 1.0}, {HOSTILE: 2.0}) for name in (HOSTILE, "\udcff")]
    everything = {"title": HOSTILE, "dataset": used, "learning": (used,), "distractors": (used,), "labels": HOSTILE}
    page = shown(folder, run(*rows, **everything, settings=settings, versions=settings, started=HOSTILE))
    assert not {"script", "link", "iframe", "object", "form", "base"} & {name for name, _, _ in page.elements}
    for _, attributes, _ in page.elements:
        assert not [name for name in attributes if name.startswith("on")]
        assert re.fullmatch(r"(#run-\d+)?", attributes.get("href", ""))
    assert page.texts("th", "what")[0].startswith(HOSTILE.replace("\x1b", "?"))


@pytest.mark.parametrize("rows", [(), (Row({}, {}),), (Row({}, {"mAP": float("nan")}),)], ids=["no", "empty", "nan"])
def test_runs_with_nothing_to_show_are_shown(folder: Path, rows: tuple[Row, ...]) -> None:
    page = shown(folder, run(rows=rows))
    assert len(page.texts("section")) == 1
    assert len(page.texts("th", "what")) == len(rows)


def test_a_run_of_another_version_is_refused(folder: Path) -> None:
    run().save(folder)
    content = json.loads((folder / FILE).read_text())
    (folder / FILE).write_text(json.dumps({**content, "version": 99}))
    sources, faults = load_sources([folder])
    assert sources == []
    assert "made by a newer faemb" in faults[0]


def test_pipes_and_huge_files_are_no_plots(folder: Path) -> None:
    place = folder / "run0"
    place.mkdir()
    os.mkfifo(place / "pipe.png")
    with (place / "huge.png").open("wb") as file:
        file.write(PNG)
        file.truncate(10**10)
    assert shown(folder, run()).texts("img") == []
