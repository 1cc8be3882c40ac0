"""Plots of a run as PNG files: a measure over a setting, and the series of rows that have one.

Measured values are solid with filled markers; published values are dashed, in the same colour, with hollow markers.
Importing this module needs matplotlib. pyplot is not used: it would keep figures and choose a window system.
"""

import warnings
from collections.abc import Iterable
from pathlib import Path

from faemb.benchmark.formatting import distinguishing, main_measure, setting
from faemb.benchmark.provenance import caution
from faemb.benchmark.run import Run
from faemb.errors import MissingExtraError
from faemb.runtime.storage import replacing

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
except ImportError as error:
    raise MissingExtraError("drawing plots", "plots") from error

MEASURES, CURVES = "plot.png", "curves.png"

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette for colour-blind readers, without yellow, which is faint on white."""
_AXIS_NAMES = {"n": "anchors n", "D": "dimensions D", "mAP": "mAP (%)"}


def save_plots(run: Run, folder: Path) -> list[Path]:
    """Draw the plots of the run into `folder`; returns the files, none for a table without a plot."""
    drawn = {}
    if run.rows and "x" in run.plot:
        drawn[MEASURES] = measures_plot(run)
    if any(row.series for row in run.rows):
        drawn[CURVES] = curves_plot(run)
    return [_saved(figure, folder / name) for name, figure in drawn.items()]


def measures_plot(run: Run) -> Figure:
    """The main measure over the setting `plot["x"]`, a count, with a line for each value of `plot["lines"]`."""
    x, y, by = run.plot["x"], main_measure(run), run.plot["lines"]
    figure, axes = _figure(run, _AXIS_NAMES.get(x, x), _AXIS_NAMES.get(y, y))
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    for name in dict.fromkeys(row.settings[by] for row in run.rows):
        rows = [row for row in run.rows if row.settings[by] == name]
        measured = [(float(row.settings[x]), row.measures[y]) for row in rows]
        published = [(float(row.settings[x]), row.published[y]) for row in rows if y in row.published]
        colour = _draw(axes, measured, label=setting(name))
        _draw(axes, published, colour=colour)
    if any(y in row.published for row in run.rows):
        _draw(axes, [], colour="0.4", label="paper (conditions may differ)" if caution(run) else "paper")
    figure.legend(loc="outside right upper", frameon=False)
    return figure


def curves_plot(run: Run) -> Figure:
    """The series of each row that has one; `plot` names their values as `series` and their steps as `steps`."""
    rows = [row for row in run.rows if row.series]
    figure, axes = _figure(run, run.plot.get("steps", "step"), run.plot.get("series", "value"))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for row in rows:
        settings = [f"{name} {setting(row.settings[name])}" for name in distinguishing(rows) if name in row.settings]
        _draw(axes, enumerate(row.series, 1), label=", ".join(settings))
    figure.legend(loc="outside lower left", frameon=False)
    return figure


def _figure(run: Run, x: str, y: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
    axes = figure.add_subplot(xlabel=x, ylabel=y)
    data = " + ".join(used.name for used in (run.dataset, *run.distractors))
    axes.set_title(f"{run.title}\n{data:.60}, {run.queries:,} queries", loc="left", parse_math=False)
    axes.set_prop_cycle(color=_COLOURS)
    axes.grid(axis="y", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _draw(axes: Axes, points: Iterable[tuple[float, float]], *, label: str = "", colour: str | None = None) -> str:
    """Draw measured points in the next colour, or published points in `colour`; returns the colour."""
    x, y = [*zip(*sorted(points), strict=True)] or ((), ())
    (line,) = axes.plot(x, y, "o-", markersize=5, label=label or "_", color=colour)
    if colour is not None:
        line.set(linestyle="--", markerfacecolor="white")
    return str(line.get_color())


def _saved(figure: Figure, path: Path) -> Path:
    """Write the file, the same bytes each time: the version of matplotlib is left out."""
    with replacing(path) as temporary, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(temporary, format="png", metadata={"Software": None})
    return path
