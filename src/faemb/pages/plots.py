"""Plots of a run as PNG: a measure over a setting, one line for each value of another; curves of single rows.

What was measured is solid with filled markers; what the paper has is dashed, in the same colour, with hollow ones.
"""

import warnings
from pathlib import Path
from typing import Any

from faemb.benchmark.formatting import telling
from faemb.benchmark.provenance import caution
from faemb.benchmark.run import Run, Value
from faemb.errors import MissingExtraError
from faemb.pages.axes import axis_name, draw_x_axis, draw_y_axis, label
from faemb.pages.lines import Line, are_numbers, label_of, lines_of, ordered
from faemb.runtime.storage import replacing

MEASURES, CURVES = "plot.png", "curves.png"

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255", "#7F7F7F")
"""Okabe and Ito's, which the colour-blind tell apart, but for yellow, which is faint on white; then wine and grey."""
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_HOLLOW = {"markerfacecolor": "white", "linewidth": 1.2}
_GREY = "#555555"
_LEGEND = 30
"""Letters in a line of it."""
_MOST_INSIDE = 5
"""Entries of a legend that still leave room for the lines."""


def save_plots(run: Run, folder: Path) -> list[Path]:
    """All that can be drawn of a run, into its folder."""
    drawn = {MEASURES: measures_plot(run)} if lines_of(run) else {}
    if any(row.series for row in run.rows):
        drawn[CURVES] = curves_plot(run)
    return [_saved(figure, folder / name) for name, figure in drawn.items()]


def measures_plot(run: Run) -> Any:
    """A matplotlib Figure of the setting and the measure that `plot` names."""
    lines = lines_of(run)
    figure, axes = _figure(run)
    places = draw_x_axis(axes, ordered([x for line in lines for x, _ in line.measured]))
    draw_y_axis(axes, [y for line in lines for _, y in (*line.measured, *line.published)])
    for number, line in enumerate(lines):
        _draw(axes, line, places, number)
    if any(line.published for line in lines):
        name = "paper (data may differ)" if caution(run) else "paper"
        dashed = "--" if are_numbers(list(places)) else ""
        axes.plot([], [], color=_GREY, marker="o", linestyle=dashed, label=name, **_HOLLOW)
    axes.set(xlabel=axis_name(run.plot["x"]), ylabel=axis_name(run.plot["y"]))
    _legend(axes)
    return figure


def curves_plot(run: Run) -> Any:
    """A matplotlib Figure with the series of each row that has one; `plot` names what they are as `series`."""
    rows = [row for row in run.rows if row.series]
    figure, axes = _figure(run)
    draw_y_axis(axes, [value for row in rows for value in row.series])
    for number, row in enumerate(rows):
        steps = range(1, len(row.series) + 1)
        name = label(label_of(row, telling(rows)), _LEGEND)
        axes.plot(steps, row.series, label=name, markevery=max(1, len(row.series) // 10), markersize=5, **_look(number))
    axes.set(xlabel=run.plot.get("steps", "iteration"), ylabel=axis_name(run.plot.get("series", "value")))
    axes.xaxis.get_major_locator().set_params(integer=True)
    _legend(axes)
    return figure


def _figure(run: Run) -> tuple[Any, Any]:
    """Without pyplot, which keeps figures and picks a window system."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("drawing plots", "plots") from error
    figure = Figure(figsize=(6.8, 4.4), dpi=160, layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.add_subplot()
    axes.set_title(label(run.title), loc="left", pad=22, fontsize=11, fontweight="bold")
    below = {"xycoords": "axes fraction", "textcoords": "offset points", "fontsize": 9, "color": _GREY}
    axes.annotate(label(_data(run)), (0, 1), (0, 8), **below)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e3e3e3", linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def _data(run: Run) -> str:
    more = "".join(f" + {used.name}" for used in run.distractors)
    return f"{run.dataset.name}{more}, {run.queries:,} queries"


def _draw(axes: Any, line: Line, places: dict[Value, float], number: int) -> None:
    """Words have no order, so nothing leads from one to the next."""
    connected = are_numbers(list(places))
    for points, style in (
        (line.published, {"linestyle": "--" if connected else "", **_HOLLOW}),
        (line.measured, {"linestyle": "-" if connected else "", "label": label(line.label or "measured", _LEGEND)}),
    ):
        axes.plot([places[x] for x, _ in points], [y for _, y in points], **{**_look(number), **style})


def _look(number: int) -> dict[str, Any]:
    return {"color": _COLOURS[number % len(_COLOURS)], "marker": _MARKERS[number % len(_MARKERS)], "linewidth": 1.8}


def _legend(axes: Any) -> None:
    """In the order in which lines end, from top to bottom; beside the lines where there are many."""
    handles, labels = axes.get_legend_handles_labels()
    ends = [(list(handle.get_ydata()) or [float("-inf")])[-1] for handle in handles]
    order = sorted(range(len(handles)), key=lambda place: -ends[place])
    beside = {"loc": "upper left", "bbox_to_anchor": (1.01, 1)} if len(handles) > _MOST_INSIDE else {"loc": "best"}
    look = {"frameon": False, "fontsize": 9, "handlelength": 2.8}
    if len(handles) > 1:
        axes.legend([handles[place] for place in order], [labels[place] for place in order], **beside, **look)


def _saved(figure: Any, path: Path) -> Path:
    with replacing(path) as temporary, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(temporary, format="png", metadata={"Software": None})
    return path
