"""Runs as an experiment leaves them, with numbers that nobody measured."""

from dataclasses import replace
from typing import Any

from faemb.benchmark.run import Row, Run, Used, Value

HOSTILE = """<script>alert(1)</script>|"'&`*[x](y)\n\x1b[31m$a_b$"""
SUBSET = "a subset: 811 images and 300 queries instead of 1,491 and 500, so results cannot be compared"
SIFT: dict[str, Value] = {"features": "hessian-affine", "seed": 0, "device": "cpu"}


def row(method: str, n: int, score: float, paper: float | None = None, **settings: Any) -> Row:
    published = {} if paper is None else {"mAP": paper}
    return Row(
        {"method": method, "n": n, "pooling": "democratic", **settings},
        {"mAP": score},
        published,
        {"fit": 61.25, "encode": 30.0},
        encoder=f"{method}({n})",
    )


def run(*rows: Row, **changes: Any) -> Run:
    made = Run(
        table="sota",
        title="State of the art on Holidays and Oxford5k",
        dataset=Used("holidays811", 811, "1f" * 32, SUBSET),
        queries=300,
        labels="2e" * 32,
        learning=(Used("flickr1500", 1500, "3d" * 32),),
        distractors=(),
        settings=SIFT,
        versions={"faemb": "0.1.0", "numpy": "2.4.6"},
        started="2026-03-06T12:00:00Z",
        seconds=4210.5,
        rows=rows or (row("FAemb", 8, 72.94, 72.7), row("FAemb", 16, 74.02, 75.8), row("Temb", 64, 70.5)),
    )
    return replace(made, **changes)
