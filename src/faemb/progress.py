"""How long work tells of itself: called with what is being done, how much of it is done, and how much there is."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]


def silent(stage: str, done: int, total: int) -> None:
    """For work that nobody watches."""
