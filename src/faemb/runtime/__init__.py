"""Running work and storing its results: worker processes, threads, atomic file replacement, progress callbacks."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called by long work with the name of the stage, how many items are done, and how many there are, or UNKNOWN."""

UNKNOWN = -1
"""The total of a stage whose length is not known, as of a decomposition inside LAPACK; at its end, done is total."""


def time_left(seconds: float, done: int, total: int) -> float | None:
    """Seconds until a stage ends, if it goes on as in the `seconds` since it began; None while nothing tells."""
    return None if total == UNKNOWN or done == 0 else seconds * (total - done) / done


def silent(stage: str, done: int, total: int) -> None:
    """A progress callback that does nothing."""
