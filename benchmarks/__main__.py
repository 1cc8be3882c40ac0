"""python -m benchmarks [name ...]: run benchmarks, print the table, write build/bench.json.

Without names: all but the long ones.
"""

import sys
from collections.abc import Callable, Iterator

from benchmarks import (
    calibration,
    cluster,
    codes,
    collections,
    copies,
    core,
    duplicates,
    expansion,
    features,
    few_images,
    first_hour,
    growth,
    parts,
    rabitq,
    serving,
    sizes,
    turned,
    verification,
)
from benchmarks.report import OUTPUT, Result, print_table, write_json

BENCHMARKS: dict[str, Callable[[], Iterator[Result]]] = {
    "core": core.run,
    "features": features.run,
    "collections": collections.run,
    "first-hour": first_hour.run,
    "few-images": few_images.run,
    "duplicates": duplicates.run,
    "copies": copies.run,
    "parts": parts.run,
    "turned": turned.run,
    "expansion": expansion.run,
    "verification": verification.run,
    "serving": serving.run,
    "growth": growth.run,
    "codes": codes.run,
    "rabitq": rabitq.run,
    "sizes": sizes.run,
    "calibration": calibration.run,
    "cluster": cluster.run,
}
LONG = ("few-images", "copies", "parts", "turned", "expansion", "calibration", "codes", "rabitq", "sizes", "cluster")


def main(names: list[str]) -> int:
    unknown = set(names) - BENCHMARKS.keys()
    if unknown:
        print(
            f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}", file=sys.stderr
        )
        return 2
    results: list[Result] = []
    for name in names or [name for name in BENCHMARKS if name not in LONG]:
        for result in BENCHMARKS[name]():
            print_table([result])
            results.append(result)
    write_json(results)
    missed = [result.name for result in results if result.met is False]
    print(f"\n{OUTPUT} written; " + (f"targets not met: {'; '.join(missed)}" if missed else "every target met"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
