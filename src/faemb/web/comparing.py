"""Groups of copies, or of images that show the same thing: found by jobs, and kept while the collection stays the same.

They take minutes in a large collection, so they have a desk of their own, which is opened when it is first needed.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from faemb.collection import Collection, Groups
from faemb.pages import counted
from faemb.runtime import Progress
from faemb.web.desk import Desk
from faemb.web.jobs import CANCELLED, Job, Jobs, Outcome

State = tuple[int, int]


class Asked(NamedTuple):
    """As for `Collection.duplicates`."""

    same_thing: bool
    mirrored: bool


@dataclass(frozen=True)
class Comparison:
    """A job that looks for groups, and what it has found."""

    state: State
    """Of the collection, before the job began."""
    job: Job
    found: list[Groups]
    """Empty until the job is done."""


class Comparisons:
    """Used by one thread."""

    def __init__(self, jobs: Jobs, open_desk: Callable[[], Desk]) -> None:
        self._jobs, self._open_desk = jobs, open_desk
        self._desk: Desk | None = None
        self._starting = asyncio.Lock()
        self._known: dict[Asked, Comparison] = {}

    async def get(self, asked: Asked, state: State) -> Comparison:
        """The present one, which may still run; a new one if the collection has changed or the last was cancelled."""
        async with self._starting:
            known = self._known.get(asked)
            if known is None or known.job.state == CANCELLED or (known.job.has_ended and known.state != state):
                known = self._known[asked] = await self._started(asked, state)
            return known

    async def _started(self, asked: Asked, state: State) -> Comparison:
        if self._desk is None:
            self._desk = await asyncio.to_thread(self._open_desk)
        found: list[Groups] = []

        def work(photos: Collection, progress: Progress) -> Outcome:
            found.append(photos.duplicates(**asked._asdict(), progress=progress))
            return Outcome(f"{counted(len(found[0]), 'group')} found.")

        return Comparison(state, self._jobs.start("duplicates", self._desk, work), found)

    def close(self) -> None:
        if self._desk is not None:
            self._desk.close()
