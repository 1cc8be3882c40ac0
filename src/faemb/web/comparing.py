"""Groups of copies, or of images that show the same thing: found by jobs, and kept until somebody asks for new ones.

They take minutes in a large collection, so they have a thread of their own, which is opened when it is first needed;
what was found stays in use when the collection has changed.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from faemb.collection import Collection
from faemb.pages import counted
from faemb.runtime import Progress
from faemb.web.collection_thread import CollectionThread
from faemb.web.found_groups import FoundGroups
from faemb.web.jobs import CANCELLED, DONE, FAILED, Job, Jobs, Outcome

State = tuple[int, int]


class ComparisonOptions(NamedTuple):
    """As for `Collection.duplicates`."""

    same_thing: bool
    mirrored: bool


@dataclass(frozen=True)
class Comparison:
    """A job that looks for groups, and what it has found."""

    state: State
    """Of the collection, before the job began."""
    job: Job
    found: list[FoundGroups]
    """Empty until the job is done."""


class Comparisons:
    """The comparisons that were started, by options; not thread-safe."""

    def __init__(self, jobs: Jobs, open_thread: Callable[[], CollectionThread]) -> None:
        self._jobs, self._open_thread = jobs, open_thread
        self._thread: CollectionThread | None = None
        self._starting = asyncio.Lock()
        self._latest: dict[ComparisonOptions, Comparison] = {}
        self._done: dict[ComparisonOptions, Comparison] = {}
        """The last ones that have found groups, or that there are none."""

    async def get(self, options: ComparisonOptions, state: State, *, again: bool) -> Comparison:
        """The last finished comparison; a new one if there is none, or with `again` if the collection has changed
        since.

        The new one may still run. One that has failed is returned once, so that its error can be given: the next
        request starts another.
        """
        async with self._starting:
            latest = self._latest.get(options)
            if latest is not None and latest.job.state == DONE:
                self._done[options] = latest
            done = self._done.get(options)
            if done is not None and (done.state == state or not again):
                return done
            if latest is None or (latest.job.has_ended and (done is not None or again or _is_over(latest, state))):
                latest = self._latest[options] = await self._started(options, state)
            elif latest.job.state == FAILED:
                del self._latest[options]
            return latest

    async def _started(self, options: ComparisonOptions, state: State) -> Comparison:
        if self._thread is None:
            self._thread = await asyncio.to_thread(self._open_thread)
        found: list[FoundGroups] = []

        def work(photos: Collection, progress: Progress) -> Outcome:
            found.append(FoundGroups(photos, photos.duplicates(**options._asdict(), progress=progress)))
            return Outcome(f"{counted(len(found[0]), 'group')} found.")

        return Comparison(state, self._jobs.start("duplicates", self._thread, work), found)

    def close(self) -> None:
        if self._thread is not None:
            self._thread.close()


def _is_over(ended: Comparison, state: State) -> bool:
    """Whether a comparison that found nothing says nothing about the collection as it is."""
    return ended.job.state == CANCELLED or ended.state != state
