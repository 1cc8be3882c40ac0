"""python -m benchmarks [name ...]: run all benchmarks, or those named, print the table, write build/bench.json."""

import sys
from collections.abc import Callable, Iterator

from benchmarks import collections, core, duplicates, features
from benchmarks.report import OUTPUT, Result, print_table, write_json

BENCHMARKS: dict[str, Callable[[], Iterator[Result]]] = {
    "core": core.run,
    "features": features.run,
    "collections": collections.run,
    "duplicates": duplicates.run,
}


def main(names: list[str]) -> int:
    unknown = set(names) - BENCHMARKS.keys()
    if unknown:
        print(
            f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}", file=sys.stderr
        )
        return 2
    results: list[Result] = []
    for name in names or BENCHMARKS:
        for result in BENCHMARKS[name]():
            print_table([result])
            results.append(result)
    write_json(results)
    missed = [result.name for result in results if result.met is False]
    print(f"\n{OUTPUT} written; " + (f"targets not met: {'; '.join(missed)}" if missed else "every target met"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
