"""Running work and storing its results: worker processes, threads, atomic file replacement, progress callbacks."""

from collections.abc import Callable

Progress = Callable[[str, int, int | None], None]
"""Called by long work with the name of the stage, how many items are done, and how many there are; None: not known."""


def silent(stage: str, done: int, total: int | None) -> None:
    """A progress callback that does nothing."""
