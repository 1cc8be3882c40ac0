"""How long something takes on a machine that others use too."""

import time
from collections.abc import Callable


def best_seconds(run: Callable[[], object], repeats: int = 5) -> float:
    """The fastest of several runs: what the machine can do when nobody disturbs it."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)
