"""How work is run and kept: worker processes, threads, files that are complete or absent, progress reports."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called by long work with the name of the stage, how many items are done, and how many there are."""


def silent(stage: str, done: int, total: int) -> None:
    """The progress callback of work that nobody watches."""
