"""Reports: the same numbers for the terminal and as Markdown, with everything that was used."""

import io
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from faemb.benchmark.formatting import columns, duration, is_cost, main_measure, number, setting
from faemb.benchmark.provenance import CAUTION, LEARNED_FASTER, caution, facts
from faemb.benchmark.run import Row, Run, Used
from faemb.pages.report import markdown, terminal_table, write_run
from faemb.presets import preset
from made_up_runs import HOSTILE, SUBSET, row, run


class Tables(HTMLParser):
    """The cells of each table, as text, and every element."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[list[list[str]]] = []
        self.elements: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_data(self, data: str) -> None:
        if self.tables and self.tables[-1] and self.tables[-1][-1] and data.strip():
            self.tables[-1][-1][-1] += data


def rendered(text: str) -> Tables:
    return Tables(MarkdownIt("commonmark").enable("table").render(text))


def printed(shown: Run, width: int = 100) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width).print(terminal_table(shown))
    return stream.getvalue()


def test_columns_are_what_varies_then_ours_the_papers_and_the_gap() -> None:
    assert {column.name: column.cells for column in columns(run())} == {
        "method": ("FAemb", "FAemb", "Temb"),
        "n": ("8", "16", "64"),
        "mAP": ("72.9", "74.0", "70.5"),
        "paper": ("72.7", "75.8", "-"),
        "gap": ("+0.2", "-1.8", "-"),
        "time": ("1 min 31 s",) * 3,
    }


def test_a_single_row_shows_all_its_settings() -> None:
    names = [column.name for column in columns(run(row("FAemb", 8, 70.0)))]
    assert names == ["method", "n", "pooling", "mAP", "time"]


def test_a_setting_that_only_some_rows_have_varies() -> None:
    (extra,) = [
        column for column in columns(run(row("A", 8, 1.0, bits=128), row("A", 8, 2.0))) if column.name == "bits"
    ]
    assert extra.cells == ("128", "-")


def test_the_gap_is_of_unrounded_numbers_and_zero_has_one_sign() -> None:
    shown = {column.name: column.cells for column in columns(run(row("A", 8, 72.68, 72.7), row("B", 8, 72.76, 72.7)))}
    assert shown["gap"] == ("+0.0", "+0.1")


@pytest.mark.parametrize(
    ("value", "measure", "text"),
    [
        (78.649, "mAP", "78.6"),
        (7.0, "mP@10", "7.0"),
        (3.857, "N-S", "3.86"),
        (12345.678, "µs per descriptor", "12,345.68"),
        (0.0, "mAP", "0.0"),
        (0.000012, "objective", "1.20e-05"),
        (0.14963, "objective, last", "0.1496"),
        (1.5e9, "objective", "1.50e+09"),
        (None, "mAP", "-"),
        (float("nan"), "mAP", "-"),
        (float("inf"), "mAP", "-"),
    ],
)
def test_numbers_have_the_decimals_that_papers_print(value: float | None, measure: str, text: str) -> None:
    assert number(value, measure) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (59.9, "59.9 s"), (60, "1 min 00 s"), (3599.9, "1 h 00 min"), (7325, "2 h 02 min")],
)
def test_durations_are_readable(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_settings_are_readable() -> None:
    values = (None, True, False, 15525, 0.5, "x")
    assert list(map(setting, values)) == ["-", "yes", "no", "15,525", "0.5", "x"]


def test_the_main_measure_is_what_is_drawn_or_the_first() -> None:
    both = Row({}, {"N-S": 3.5, "mAP": 80.0})
    assert main_measure(run(both)) == "N-S"
    assert main_measure(run(both, plot={"y": "mAP"})) == "mAP"
    assert main_measure(run(both, plot={"y": "time"})) == "N-S"
    assert main_measure(run(both, rows=())) == ""


def test_times_are_costs_and_precisions_are_not() -> None:
    assert all(map(is_cost, ("µs per descriptor", "ms", "objective")))
    assert not any(map(is_cost, ("mAP", "N-S", "mP@10", "mAP medium")))


def test_the_terminal_shows_title_values_and_caution() -> None:
    shown = printed(run())
    for text in ("State of the art", "FAemb", "72.9", "+0.2", "-1.8", "comparable only on the same data"):
        assert text in shown


def test_the_terminal_takes_nothing_for_markup_or_control() -> None:
    shown = printed(run(row("[bold]x[/bold]", 8, 1.0), row(HOSTILE, 8, 1.0), title=HOSTILE), width=300)
    assert "[bold]x[/bold]" in shown
    assert "\x1b" not in shown


def test_the_markdown_tables_have_the_same_cells() -> None:
    results, used = rendered(markdown(run())).tables
    assert results[0] == ["method", "n", "mAP", "paper", "gap", "time"]
    assert results[2] == ["FAemb", "16", "74.0", "75.8", "-1.8", "1 min 31 s"]
    assert used[1:] == [list(fact) for fact in facts(run())]


def test_markdown_says_what_was_used() -> None:
    shown = dict(facts(run(distractors=(Used("flickr100k", 100_071, "ab", "not all"),))))
    assert shown == {
        "dataset": "holidays811: 811 images, 300 queries",
        "note": SUBSET,
        "checksum of images": "1f" * 32,
        "checksum of ground truth": "2e" * 32,
        "distractors": "flickr100k: 100,071 images, checksum ab, not all",
        "learned from": f"flickr1500: 1,500 images, checksum {'3d' * 32}",
        "settings": "features hessian-affine, seed 0, device cpu, pooling democratic",
        "versions": "faemb 0.1.0, numpy 2.4.6",
        "started": "2026-03-06T12:00:00Z",
        "duration": "1 h 10 min",
    }


@pytest.mark.parametrize(
    ("note", "paper", "expected"),
    [
        (SUBSET, 70.0, CAUTION),
        ("811 images and 300 queries", 70.0, CAUTION),
        ("complete: 1,491 images and 500 queries", 70.0, ""),
        (SUBSET, None, ""),
    ],
)
def test_caution_is_given_unless_the_data_are_complete(note: str, paper: float | None, expected: str) -> None:
    shown = run(row("FAemb", 8, 70.0, paper), dataset=Used("holidays", 1, "", note))
    assert caution(shown) == expected
    assert (CAUTION in markdown(shown)) is bool(expected)


@pytest.mark.parametrize(
    ("settings", "rotation", "expected"),
    [
        ({"pooling": "sinkhorn"}, True, LEARNED_FASTER),
        ({"pooling": "sinkhorn", "bits": 64}, False, LEARNED_FASTER),
        ({"pooling": "sinkhorn"}, False, ""),
        ({"pooling": "democratic", "bits": 64}, True, ""),
    ],
    ids=["rotation", "codes", "neither", "democratic"],
)
def test_another_pooling_of_learning_images_is_stated(settings: dict, rotation: bool, expected: str) -> None:
    encoder = repr(preset("f-faemb-8", rotation=rotation))
    shown = run(row("FAemb", 8, 72.9), replace(row("F-FAemb", 8, 72.9, **settings), encoder=encoder))
    assert caution(shown) == expected
    assert ("democratically pooled learning images" in markdown(shown)) == bool(expected)


def test_hostile_names_stay_text_in_markdown() -> None:
    hostile = run(row(HOSTILE, 8, 1.0), row("_b_", 8, 1.0), title=HOSTILE, dataset=Used(HOSTILE, 1, HOSTILE, HOSTILE))
    page = rendered(markdown(hostile))
    assert set(page.elements) == {"h1", "h2", "table", "thead", "tbody", "tr", "th", "td"}
    flat = HOSTILE.replace("\n", " ").replace("\x1b", "?")
    assert page.tables[0][1][0].split() == flat.split()
    assert page.tables[0][2][0] == "_b_"


def test_plots_are_shown_where_there_are_some() -> None:
    assert "img" in rendered(markdown(run(), ["plot.png"])).elements
    assert "img" not in rendered(markdown(run())).elements


def test_a_run_without_rows_says_so() -> None:
    empty = replace(run(), rows=())
    assert "No results." in markdown(empty)
    printed(empty)


def test_the_files_are_written_into_a_folder_that_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "sota"
    made = run(plot={"x": "n", "y": "mAP", "lines": "method"})
    assert write_run(made, folder) == [folder / name for name in ("run.json", "report.md", "plot.png")]
    assert Run.load(folder) == made
    assert (folder / "report.md").read_text(encoding="utf-8") == markdown(made, ["plot.png"])


def test_names_that_are_no_text_can_be_reported(tmp_path: Path) -> None:
    write_run(run(dataset=Used("\udcff", 1, "")), tmp_path)
    assert "?: 1 images" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_the_spread_of_several_seeds_stands_beside_the_mean():
    mean = replace(row("FAemb", 8, 73.04, 72.7), spread={"mAP": 0.36})
    alone = row("FAemb", 16, 74.0)
    column = next(column for column in columns(run(mean, alone)) if column.name == "mAP")
    assert column.cells == ("73.0 ± 0.4", "74.0")
    assert "73.0 ± 0.4" in markdown(run(mean, alone))
