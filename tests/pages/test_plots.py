"""Plots: what is drawn where and how, and that names from outside cannot break them."""

import io
import sys
from pathlib import Path
from typing import Any

import PIL.Image
import pytest
from made_up_runs import HOSTILE, row, run

from faemb.benchmark.run import Row, Run, Used
from faemb.errors import MissingExtraError
from faemb.pages.plots import CURVES, MEASURES, curves_plot, measures_plot, save_plots

PLOT = {"x": "n", "y": "mAP", "lines": "method"}


def compared() -> Run:
    rows = [row("FAemb", n, 60.0 + n, 61.0 + n) for n in (8, 16, 32)] + [row("Temb", n, 50.0 + n) for n in (8, 16, 32)]
    return run(*rows, plot=PLOT)


def drawn(figure: Any) -> list[Any]:
    """Lines with points; an empty one is only there for the legend."""
    return [line for line in figure.axes[0].lines if len(line.get_xdata())]


def legend(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def ticks(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.axes[0].get_xticklabels()]


def test_measured_is_solid_and_published_dashed_in_the_same_colour() -> None:
    paper, ours, other = drawn(measures_plot(compared()))
    assert [list(line.get_ydata()) for line in (paper, ours)] == [[69.0, 77.0, 93.0], [68.0, 76.0, 92.0]]
    assert [line.get_linestyle() for line in (paper, ours, other)] == ["--", "-", "-"]
    assert paper.get_color() == ours.get_color() != other.get_color()
    assert paper.get_markerfacecolor() == "white"
    assert ours.get_marker() != other.get_marker()


def test_axes_and_legend_say_what_is_drawn() -> None:
    figure = measures_plot(compared())
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("anchors n", "mAP (%)")
    assert axes.get_title(loc="left") == "State of the art on Holidays and Oxford5k"
    assert [text.get_text() for text in axes.texts] == ["holidays811, 300 queries"]
    assert legend(figure) == ["FAemb", "Temb", "paper (data may differ)"]


def test_complete_data_need_no_caution() -> None:
    complete = Used("holidays", 1491, "", "complete: 1,491 images and 500 queries")
    figure = measures_plot(run(*compared().rows, plot=PLOT, dataset=complete))
    assert legend(figure)[-1] == "paper"


def test_powers_of_two_stand_at_equal_distances() -> None:
    figure = measures_plot(compared())
    assert figure.axes[0].get_xscale() == "log"
    assert list(figure.axes[0].get_xticks()) == [8, 16, 32]
    assert ticks(figure) == ["8", "16", "32"]


@pytest.mark.parametrize(
    ("values", "scale", "labels"),
    [
        ((0, 10, 20), "linear", ["0", "10", "20"]),
        ((3, 5, 9), "linear", ["3", "5", "9"]),
        ((1000, 1001, 1100, 3000), "linear", ["1,000", "", "", "3,000"]),
        ((128, 7245, 8064, 32085), "log", ["128", "7,245", "", "32,085"]),
        ((16,), "log", ["16"]),
        ((5,), "linear", ["5"]),
    ],
)
def test_every_value_has_a_tick_and_labels_do_not_overlap(values: Any, scale: str, labels: list[str]) -> None:
    figure = measures_plot(run(*(row("FAemb", value, 70.0) for value in values), plot=PLOT))
    assert figure.axes[0].get_xscale() == scale
    assert list(figure.axes[0].get_xticks()) == list(values)
    assert ticks(figure) == labels


def test_words_stand_side_by_side_unconnected() -> None:
    times = {"FAemb": (2.0, 8.32), "VLAT": (0.05, 0.25)}
    rows = [Row({"method": name}, {"ms": ours}, {"ms": paper}) for name, (ours, paper) in times.items()]
    figure = measures_plot(run(*rows, plot={"x": "method", "y": "ms"}))
    assert ticks(figure) == ["FAemb", "VLAT"]
    assert {line.get_linestyle() for line in figure.axes[0].lines} == {"None"}
    assert legend(figure)[0] == "measured"
    assert figure.axes[0].get_yscale() == "log"


def test_many_lines_look_different_and_have_their_legend_beside_the_axes() -> None:
    figure = measures_plot(run(*(row(f"M{m}", n, 50.0 + m) for m in range(20) for n in (8, 16)), plot=PLOT))
    assert len({(line.get_color(), line.get_marker()) for line in drawn(figure)}) == 20
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert axes.get_legend().get_window_extent().x0 > axes.get_window_extent().x1
    assert legend(figure)[0] == "M19"


def test_a_curve_for_each_row_with_a_series() -> None:
    rows = [Row({"n": n}, {}, series=tuple(float(n) / (step + 1) for step in range(5))) for n in (8, 16)]
    figure = curves_plot(run(*rows, row("none", 3, 1.0), plot={"series": "objective"}))
    assert [list(line.get_xdata()) for line in drawn(figure)] == [[1, 2, 3, 4, 5]] * 2
    assert figure.axes[0].get_ylabel() == "objective"
    assert legend(figure) == ["n 16", "n 8"]


def test_files_are_pictures_and_the_same_each_time(tmp_path: Path) -> None:
    rows = [Row({"n": n}, {"mAP": 1.0}, series=(2.0, 1.0)) for n in (8, 16)]
    paths = save_plots(run(*rows, plot={"x": "n", "y": "mAP"}), tmp_path)
    assert [path.name for path in paths] == [MEASURES, CURVES]
    before = [path.read_bytes() for path in paths]
    assert [PIL.Image.open(io.BytesIO(content)).format for content in before] == ["PNG", "PNG"]
    save_plots(run(*rows, plot={"x": "n", "y": "mAP"}), tmp_path)
    assert [path.read_bytes() for path in paths] == before


def test_a_table_that_is_no_curve_has_no_plot(tmp_path: Path) -> None:
    assert save_plots(run(), tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [HOSTILE, r"$\frac{", "_hidden", "$a$", "日本", "x" * 500], ids=lambda name: name[:6])
def test_any_name_can_be_drawn(tmp_path: Path, name: str) -> None:
    rows = [Row({name: value, "by": f"{name}{number}"}, {name: 1.0}) for number in (1, 2) for value in ("a", name)]
    shown = run(*rows, title=name, dataset=Used(name, 1, ""), plot={"x": name, "y": name, "lines": "by"})
    assert save_plots(shown, tmp_path) == [tmp_path / MEASURES]
    assert len(legend(measures_plot(shown))) == 2


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -1.0])
def test_odd_values_can_be_drawn(tmp_path: Path, value: float) -> None:
    rows = [Row({"n": n}, {"mAP": score}, series=(score,)) for n, score in ((8, value), (16, 1.0), (0, 1e9))]
    assert len(save_plots(run(*rows, plot={"x": "n", "y": "mAP"}), tmp_path)) == 2


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(
        MissingExtraError, match=r"drawing plots needs the extra 'plots': pip install \"faemb\[plots\]\""
    ):
        save_plots(compared(), tmp_path)
