"""Values that no writer writes, and JSON texts with such values in them."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

Rng = np.random.Generator
DEEP = 2000
"""Levels of nested lists: more than Python's recursion limit."""

VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        3,
        7,
        10**6,
        2**31,
        2**63 - 1,
        -(2**63),
        2**64,
        10**400,
        0.5,
        -0.5,
        1e-320,
        1e308,
    ),
    *(math.nan, math.inf, -math.inf),
    *(
        "",
        "a",
        "nan",
        "\x1b[2J",
        "two\nlines",
        "\0",
        "/etc/passwd",
        "../../x",
        "é" * 500,
        "x" * 100_000,
        "\ud800",
        "\r",
    ),
    *([], [[]], [0] * 5, [1, "a", None], {}, {"a": 1}, {"component": "Whitening"}, [1e308, 1e308]),
)


def odd_value(rng: Rng) -> Any:
    return VALUES[int(rng.integers(len(VALUES)))]


def json_changed(path: Path, rng: Rng) -> None:
    """A JSON file with one to three odd values, keys or repetitions in its tree."""
    path.write_text(tree_text(json.loads(path.read_bytes()), rng), encoding="utf-8", errors="surrogatepass")


def tree_text(tree: Any, rng: Rng) -> str:
    for _ in range(int(rng.integers(1, 4))):
        tree = tree_changed(tree, rng)
    text = json.dumps(tree)
    return text.replace('"@deep"', "[" * DEEP + "]" * DEEP)


def tree_changed(tree: Any, rng: Rng) -> Any:
    """A copy with one place changed; a place is chosen by walking down from the root."""
    if isinstance(tree, dict) and tree and rng.random() < 0.9:
        return _object_changed(tree, rng)
    if isinstance(tree, list) and tree and rng.random() < 0.8:
        place = int(rng.integers(len(tree)))
        if rng.random() < 0.2:
            return [*tree[:place], *[tree[place]] * int(rng.integers(0, 4)), *tree[place + 1 :]]
        return [*tree[:place], tree_changed(tree[place], rng), *tree[place + 1 :]]
    return "@deep" if rng.random() < 0.02 else odd_value(rng)


def _object_changed(tree: dict[str, Any], rng: Rng) -> dict[str, Any]:
    key = list(tree)[int(rng.integers(len(tree)))]
    chance = rng.random()
    if chance < 0.05:
        return {name: value for name, value in tree.items() if name != key}
    if chance < 0.1:
        return {**tree, str(odd_value(rng))[:50]: tree[key]}
    if chance < 0.15:
        return {**tree, key: tree}
    return {**tree, key: tree_changed(tree[key], rng)}
