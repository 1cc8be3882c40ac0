"""What all requests share: the threads with the collection, the workers that read images, and the queries of users."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from faemb.collection import Collection
from faemb.errors import FaembError
from faemb.runtime.scratch import scratch_folder
from faemb.web.answer_cache import Answers
from faemb.web.changing import Changes
from faemb.web.collection_thread import CollectionThread
from faemb.web.comparing import Comparisons
from faemb.web.describing import Describers
from faemb.web.indexed_files import IndexedFiles
from faemb.web.jobs import Jobs
from faemb.web.listing import Dates, Listing
from faemb.web.problems import Problem
from faemb.web.queries import Queries
from faemb.web.settings import ServerSettings


@dataclass(frozen=True)
class Service:
    settings: ServerSettings
    searching: CollectionThread
    """Searches, one at a time."""
    looking: CollectionThread
    """Short reads, which do not wait for searches."""
    describers: Describers
    files: IndexedFiles
    queries: Queries
    answers: Answers
    """For `searching` alone."""
    listing: Listing
    """For `looking` alone."""
    jobs: Jobs
    comparisons: Comparisons
    changes: Changes | None
    """None: the server may only read."""


@contextmanager
def running(settings: ServerSettings) -> Iterator[Service]:
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())

        def thread(name: str) -> CollectionThread:
            return CollectionThread(name, settings.collection, device=settings.device, store=settings.store)

        threads = {}
        for name in ("searching", "looking"):
            threads[name] = thread(name)
            stack.callback(threads[name].close)
        jobs = Jobs()
        comparisons = Comparisons(jobs, lambda: thread("comparing"))
        stack.callback(comparisons.close)
        changes = Changes(thread("changing"), jobs, settings.upload_folder) if settings.writable else None
        if changes is not None:
            stack.callback(changes.close)
        stack.callback(jobs.close)
        describers = Describers(
            threads["looking"].submit(lambda photos: photos.model.extractor).result(), settings.jobs
        )
        stack.callback(describers.close)
        threads["searching"].submit(_warm_up)
        yield Service(
            settings,
            threads["searching"],
            threads["looking"],
            describers,
            IndexedFiles(folder),
            Queries(folder),
            Answers(),
            Listing(Dates()),
            jobs,
            comparisons,
            changes,
        )


def _warm_up(photos: Collection) -> None:
    """Search once, for an image of the collection, while nobody waits: what every search needs is then in memory."""
    first = next((entry for entry in photos.entries() if entry.slot is not None), None)
    if first is not None:
        with suppress(FaembError):  # its features may not be kept
            photos.search_features([photos.features(photos.layout.path_of(first.path))])


def service_of(request: Request) -> Service:
    return request.app.state.service


Shared = Annotated[Service, Depends(service_of)]


def changes_of(service: Shared) -> Changes:
    if service.changes is None:
        raise Problem(403, "This server may not change the collection; start it with faemb serve --writable.")
    return service.changes


Writable = Annotated[Changes, Depends(changes_of)]
