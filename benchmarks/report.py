"""A benchmark's results: a table for people, build/bench.json for programs."""

import json
import operator
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from faemb.benchmark.rows import best_seconds

OUTPUT = Path("build/bench.json")
_RELATIONS = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True)
class Result:
    """`target` is such as ">= 50"; empty where a number is only reported."""

    name: str
    value: float
    unit: str
    target: str = ""

    @property
    def met(self) -> bool | None:
        if not self.target:
            return None
        relation, bound = self.target.split()
        return bool(_RELATIONS[relation](self.value, float(bound)))


def best_seconds_of_both(
    short: Callable[[], object], long: Callable[[], object], rounds: int = 20
) -> tuple[float, float]:
    """The fastest run of each, taken in turns: a machine that slows down for a while slows both."""
    pairs = [(best_seconds(short, 15), best_seconds(long, 1)) for _ in range(rounds)]
    return min(first for first, _ in pairs), min(second for _, second in pairs)


def peak_megabytes(run: Callable[[], object]) -> float:
    """The most memory that `run` held at once beyond what was there before it."""
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def print_table(results: Iterable[Result]) -> None:
    for result in results:
        verdict = {True: "met", False: "NOT MET", None: ""}[result.met]
        print(f"{result.name:<72} {result.value:>10.3g} {result.unit:<14} {result.target:<9} {verdict}", flush=True)


def write_json(results: list[Result], path: Path = OUTPUT) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([{**asdict(r), "met": r.met} for r in results], indent=2) + "\n")
