"""Running work and storing its results: worker processes, threads, atomic file replacement, progress callbacks."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called by long work with the name of the stage, the number of finished items, and the total, or UNKNOWN."""

UNKNOWN = -1
"""Total of a stage of unknown length, such as a decomposition inside LAPACK; at its end, done equals total."""


def time_left(seconds: float, done: int, total: int) -> float | None:
    """Seconds until a stage ends, at its rate in the `seconds` since it began. None while it cannot be estimated."""
    return None if total == UNKNOWN or done == 0 else seconds * (total - done) / done


def silent(stage: str, done: int, total: int) -> None:
    """A progress callback that does nothing."""
