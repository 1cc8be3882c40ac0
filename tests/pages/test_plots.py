"""Plots: what is drawn and how."""

import importlib
import io
import sys
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from faemb.benchmark.run import Row, Run, Used
from faemb.errors import MissingExtraError
from faemb.pages import plots
from faemb.pages.plots import CURVES, MEASURES, curves_plot, measures_plot, save_plots
from faemb.pages.report import write_run
from made_up_runs import row, run

PLOT = {"x": "n", "y": "mAP", "lines": "method"}
ROWS = [
    *(row("FAemb", n, 60.0 + n, 61.0 + n) for n in (16, 8, 32)),
    *(row("Temb", n, 50.0 + n) for n in (8, 16, 32)),
]


def lines(figure: Figure) -> list[Line2D]:
    """Lines with points; an empty one is only in the legend."""
    return [line for line in figure.axes[0].lines if len(line.get_path())]


def x(line: Line2D) -> list[float]:
    return np.asarray(line.get_xdata()).tolist()


def y(line: Line2D) -> list[float]:
    return np.asarray(line.get_ydata()).tolist()


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_measured_is_solid_and_published_dashed_in_the_same_colour() -> None:
    ours, paper, other = lines(measures_plot(run(*ROWS, plot=PLOT)))
    assert [x(line) for line in (ours, paper, other)] == [[8, 16, 32]] * 3
    assert [y(line) for line in (ours, paper)] == [[68.0, 76.0, 92.0], [69.0, 77.0, 93.0]]
    assert [line.get_linestyle() for line in (ours, paper, other)] == ["-", "--", "-"]
    assert ours.get_color() == paper.get_color() != other.get_color()
    assert paper.get_markerfacecolor() == "white"


def test_axes_title_and_legend() -> None:
    figure = measures_plot(run(*ROWS, plot=PLOT, distractors=(Used("$100k$", 9, ""),)))
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale()) == ("anchors n", "mAP (%)", "log")
    assert axes.get_title(loc="left").endswith("Oxford5k\nholidays811 + $100k$, 300 queries")
    assert legend(figure) == ["FAemb", "Temb", "paper (conditions may differ)"]


def test_counts_are_written_out_at_powers_of_two() -> None:
    figure = measures_plot(run(*(row("FAemb", n, 70.0) for n in (512, 1024, 2048)), plot=PLOT))
    figure.draw_without_rendering()
    assert {"512", "1,024", "2,048"} <= {text.get_text() for text in figure.axes[0].get_xticklabels()}


def test_complete_data_need_no_caution() -> None:
    complete = Used("holidays", 1491, "", "complete: 1,491 images and 500 queries")
    assert legend(measures_plot(run(*ROWS, plot=PLOT, dataset=complete)))[-1] == "paper"


def test_without_the_named_measure_the_first_is_drawn() -> None:
    figure = measures_plot(run(*(Row({"method": "FAemb", "n": n}, {"N-S": 3.5}) for n in (8, 16)), plot=PLOT))
    assert figure.axes[0].get_ylabel() == "N-S"
    assert [y(line) for line in lines(figure)] == [[3.5, 3.5]]


def with_series() -> Run:
    rows = [Row({"n": n}, {}, series=tuple(float(n) / (step + 1) for step in range(5))) for n in (8, 16)]
    return run(*rows, row("none", 3, 1.0), plot={"series": "objective", "steps": "half-step"})


def test_a_curve_for_each_row_with_a_series() -> None:
    figure = curves_plot(with_series())
    assert [x(line) for line in lines(figure)] == [[1, 2, 3, 4, 5]] * 2
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("half-step", "objective")
    assert legend(figure) == ["n 8", "n 16"]


@pytest.mark.parametrize(("shown", "name"), [(run(*ROWS, plot=PLOT), MEASURES), (with_series(), CURVES)])
def test_files_are_pictures_and_the_same_each_time(tmp_path: Path, shown: Run, name: str) -> None:
    assert save_plots(shown, tmp_path) == [tmp_path / name]
    before = (tmp_path / name).read_bytes()
    assert PIL.Image.open(io.BytesIO(before)).format == "PNG"
    save_plots(shown, tmp_path)
    assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize("shown", [run(), run(rows=(), plot=PLOT)], ids=["no-plot", "no-rows"])
def test_a_run_without_a_plot_has_no_files(tmp_path: Path, shown: Run) -> None:
    assert save_plots(shown, tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [r"$\frac{", "日本", "x" * 500], ids=["formula", "glyphs", "long"])
def test_datasets_of_any_name_can_be_drawn(tmp_path: Path, name: str) -> None:
    assert save_plots(run(*ROWS, plot=PLOT, dataset=Used(name, 1, "")), tmp_path) == [tmp_path / MEASURES]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -1.0])
def test_any_value_can_be_drawn(tmp_path: Path, value: float) -> None:
    assert save_plots(run(row("FAemb", 8, value), row("FAemb", 16, 1.0, value), plot=PLOT), tmp_path)


def test_without_matplotlib_the_extra_is_named_and_reports_have_no_plots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    monkeypatch.delitem(sys.modules, plots.__name__)
    with pytest.raises(
        MissingExtraError, match=r'drawing plots needs the extra \'plots\': pip install "faemb\[plots\]"'
    ):
        importlib.import_module(plots.__name__)
    assert [path.name for path in write_run(run(*ROWS, plot=PLOT), tmp_path)] == ["run.json", "report.md"]
