"""What all requests share: the threads with the collection, the workers that read images, and the queries of users."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from faemb.collection import Collection
from faemb.runtime.scratch import scratch_folder
from faemb.web.answering import Answers
from faemb.web.describing import Describers
from faemb.web.desk import Desk
from faemb.web.listing import Listing
from faemb.web.queries import Queries
from faemb.web.settings import ServerSettings


@dataclass(frozen=True)
class Service:
    settings: ServerSettings
    searching: Desk
    """Searches, one at a time."""
    looking: Desk
    """Short reads, which do not wait for searches."""
    describers: Describers
    queries: Queries
    answers: Answers
    """For `searching` alone."""
    listing: Listing
    """For `looking` alone."""


@contextmanager
def running(settings: ServerSettings) -> Iterator[Service]:
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        desks = {}
        for name in ("searching", "looking"):
            desks[name] = Desk(name, settings.collection, device=settings.device)
            stack.callback(desks[name].close)
        describers = Describers(desks["looking"].submit(lambda photos: photos.model.extractor).result(), settings.jobs)
        stack.callback(describers.close)
        desks["searching"].submit(_warm_up)
        yield Service(settings, desks["searching"], desks["looking"], describers, Queries(folder), Answers(), Listing())


def _warm_up(photos: Collection) -> None:
    """Read what every search needs, while nobody waits for it."""
    if photos.model.is_fitted:
        _ = photos.view().unrelated


def service_of(request: Request) -> Service:
    return request.app.state.service


Shared = Annotated[Service, Depends(service_of)]
