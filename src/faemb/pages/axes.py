"""Scales, ticks and labels of a plot, on axes of matplotlib."""

import textwrap
from collections.abc import Sequence
from math import log2
from typing import Any

from faemb.benchmark.formatting import setting
from faemb.benchmark.run import Value
from faemb.pages.lines import are_numbers

_NAMES = {"n": "anchors n", "D": "dimensions D", "mAP": "mAP (%)"}
_WIDE_X, _WIDE_Y = 20, 100
"""Times the least value; beyond that small values could not be told apart on an even scale."""
_LEAST_DISTANCE = 0.07
"""Of two labels of ticks, as part of the axis."""


def draw_x_axis(axes: Any, values: Sequence[Value]) -> dict[Value, float]:
    """Where each value stands, with a tick there: words side by side, powers of two at equal distances."""
    if not are_numbers(values):
        axes.set_xticks(range(len(values)), [label(setting(value), 12) for value in values])
        axes.margins(x=0.15)
        return {value: float(place) for place, value in enumerate(values)}
    numbers = [float(value) for value in values]
    doubles = _doubles(numbers)
    if doubles:
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
    shown = _apart([log2(number) for number in numbers] if doubles else numbers)
    axes.set_xticks(numbers, [setting(value) if keep else "" for value, keep in zip(values, shown, strict=True)])
    return dict(zip(values, numbers, strict=True))


def draw_y_axis(axes: Any, values: Sequence[float]) -> None:
    if min(values) > 0 and max(values) > _WIDE_Y * min(values):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")


def axis_name(name: str) -> str:
    return _NAMES.get(name) or label(name)


def label(words: str, width: int = 66) -> str:
    """In a few lines; dollars would begin a formula, and legends leave out what begins with an underscore."""
    shown = "".join(each if each.isprintable() or each.isspace() else "?" for each in words)
    wrapped = textwrap.fill(shown, width, max_lines=3).replace("$", r"\$")
    return f" {wrapped}" if wrapped.startswith("_") else wrapped


def _doubles(numbers: Sequence[float]) -> bool:
    """They are powers of two, or spread so widely that they should be shown as if they were."""
    if min(numbers) <= 0:
        return False
    return all(log2(number).is_integer() for number in numbers) or max(numbers) > _WIDE_X * min(numbers)


def _apart(places: Sequence[float]) -> list[bool]:
    """Which ascending places can be labelled, so that labels do not run into each other."""
    least = _LEAST_DISTANCE * (places[-1] - places[0])
    kept: list[float] = []
    shown = []
    for place in places:
        shown.append(not kept or place - kept[-1] >= least)
        kept += [place] if shown[-1] else []
    return shown
