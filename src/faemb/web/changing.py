"""Changes of the collection through the server: one thread makes them, one after the other.

Uploads that wait are added together: each call of `add` starts worker processes, which takes about a second.
"""

import asyncio
import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from faemb.collection import Collection, Report, images_in
from faemb.collection.catalogue import Entry
from faemb.collection.layout import typed
from faemb.collection.sources import is_below, is_there
from faemb.errors import FaembError, Fault, InputError, about
from faemb.features.feature_files import kind_of
from faemb.pages import changes_in_words, counted
from faemb.runtime import Progress
from faemb.runtime.paths_and_urls import Url
from faemb.runtime.storage import sync_folder
from faemb.web.collection_thread import CollectionThread, for_visitor
from faemb.web.jobs import Cancelled, Job, Jobs, Outcome, Work
from faemb.web.problems import Problem, sentence
from faemb.web.receiving import Coming, place

Result = TypeVar("Result")

_PATIENCE = 30.0
"""Seconds that a request waits for its turn, behind a job for example."""
_REMEMBERED = 1000
"""Removals that can be undone."""
_STOPPING = "The server is being stopped; send the request again when it runs again."


@dataclass
class Added:
    """What became of the files of one request."""

    added: list[Entry] = field(default_factory=list)
    known: list[Entry] = field(default_factory=list)
    """Images with the same content, which the collection had already."""
    failed: list[Fault] = field(default_factory=list)


@dataclass(frozen=True)
class _Request:
    files: Sequence[Coming]
    answer: "Future[Added]"


class Changes:
    def __init__(self, thread: CollectionThread, jobs: Jobs, uploads: Path) -> None:
        self.uploads = uploads
        """The folder for files that are sent."""
        self.removals = Removals()
        self._thread, self._jobs = thread, jobs
        self._waiting: list[_Request] = []
        self._lock = threading.Lock()
        self._is_closing = False

    def waiting(self) -> int:
        """Number of changes that have not begun."""
        return self._thread.waiting

    async def do(self, task: Callable[[Collection], Result]) -> Result:
        """The result of a short change."""
        return await _in_time(self._thread.submit(for_visitor(task)))

    async def add(self, files: Sequence[Coming]) -> Added:
        """Add files that were received. When this returns, they are stored."""
        answer: Future[Added] = Future()
        with self._lock:
            self._waiting.append(_Request(files, answer))
        self._thread.submit(for_visitor(self._add_waiting))
        return await _in_time(answer)

    def start(self, kind: str, work: Work) -> Job:
        return self._jobs.start(kind, self._thread, work)

    def close(self) -> None:
        """Stop what runs at its next step; what it has not stored is undone."""
        self._is_closing = True
        self._thread.close()
        for request in self._taken():
            request.answer.set_exception(Problem(503, _STOPPING))

    def _taken(self) -> list[_Request]:
        """The requests that wait, without those that were given up."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        return [request for request in waiting if request.answer.set_running_or_notify_cancel()]

    def _progress(self, stage: str, done: int, total: int) -> None:
        if self._is_closing:
            raise Cancelled

    def _add_waiting(self, photos: Collection) -> None:
        requests = self._taken()
        batch = _Batch(photos, self.uploads)
        try:
            for request in requests:
                for file in request.files:
                    batch.take(file)
            batch.store(self._progress)
            answers = [batch.answer(request.files) for request in requests]
        except BaseException as error:
            batch.roll_back()
            for request in requests:
                request.answer.set_exception(Problem(503, _STOPPING) if isinstance(error, Cancelled) else error)
            return
        for request, answer in zip(requests, answers, strict=True):
            request.answer.set_result(answer)


async def _in_time(answer: "Future[Result]") -> Result:
    """The result of what waits for its turn; an error if that does not come soon."""
    waiting = asyncio.wrap_future(answer)
    try:
        await asyncio.wait([waiting], timeout=_PATIENCE)
        if not waiting.done() and answer.cancel():
            raise Problem(
                503, "The collection is being changed by a long job; try again when that has ended.", Retry_After="30"
            )
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:  # the server has waited long enough for its requests to end
        answer.cancel()
        raise Problem(503, _STOPPING) from None


class _Batch:
    """Files of several requests, added in one call. Files of the same content are stored once."""

    def __init__(self, photos: Collection, folder: Path) -> None:
        self._photos, self._folder = photos, folder
        self._kind = kind_of(photos.model.extractor)
        self._known: dict[str, Entry] = {}
        self._added: dict[str, Entry] = {}
        self._failed: dict[str, Fault] = {}
        """By content, as the others."""
        self._places: dict[str, Path] = {}
        self._fresh: set[Path] = set()
        """Files that this batch has made."""
        self._deleted: list[Path] = []
        """Those of them that could not be used."""

    def take(self, coming: Coming) -> None:
        if coming.hash in self._known or coming.hash in self._places or coming.hash in self._failed:
            return
        known = self._in_collection(coming.hash)
        if known is not None:
            self._known[coming.hash] = known
            return
        try:
            path, is_fresh = place(coming, self._folder)
        except OSError as error:
            self._failed[coming.hash] = Fault(f"it cannot be stored: {error.strerror or error}", coming.name)
            return
        self._places[coming.hash] = path
        if is_fresh:
            self._fresh.add(path)
        try:
            images_in(path, kind=self._kind)
        except InputError as error:
            self._refuse(coming.hash, about(path, error))

    def store(self, progress: Progress) -> None:
        """Add all files that are new. Files are on the disk before the collection names them."""
        files = [*self._places.values(), *self._not_encoded()]
        if not files:
            return
        sync_folder(self._folder)
        report = self._photos.add(files, relearn=False, progress=progress)
        reasons = {fault.path: fault for fault in report.failed}
        for content, path in list(self._places.items()):
            entry = self._photos.entry(path)
            if entry is not None:
                self._added[content] = entry
            else:
                self._refuse(content, reasons.get(str(path)) or about(path, "it was not added"))
        if self._deleted:
            with suppress(FaembError):  # another process may have the lock by now
                self._photos.forget_unusable(self._deleted)

    def answer(self, files: Sequence[Coming]) -> Added:
        result = Added()
        for file in files:
            if file.hash in self._failed:
                result.failed.append(_renamed(self._failed[file.hash], file.name))
            elif file.hash in self._known:
                result.known.append(self._known[file.hash])
            else:  # the next file with this content finds it in the collection
                result.added.append(self._added[file.hash])
                self._known[file.hash] = self._added[file.hash]
        return result

    def roll_back(self) -> None:
        """Delete the files of this batch that the collection does not name."""
        with suppress(FaembError, OSError):
            for path in self._fresh:
                if self._photos.entry(path) is None:
                    path.unlink(missing_ok=True)

    def _not_encoded(self) -> list[Path]:
        """Files of known images without a vector, because the process that added them was killed; adding them again
        encodes them."""
        waiting = [entry for entry in self._known.values() if entry.slot is None and entry.features]
        return [self._photos.layout.path_of(entry.path) for entry in waiting]

    def _in_collection(self, content: str) -> Entry | None:
        """An image with this content whose file is there."""
        same = self._photos.with_content(content)
        return next((entry for entry in same if is_there(self._photos.layout.path_of(entry.path))), None)

    def _refuse(self, content: str, fault: Fault) -> None:
        path = self._places.pop(content)
        self._failed[content] = fault
        if path in self._fresh:
            path.unlink(missing_ok=True)
            self._deleted.append(path)


def _renamed(fault: Fault, name: str) -> Fault:
    """About the file as its sender knows it."""
    text = str(fault).replace(fault.path, name).removeprefix(f"{name}: ")
    return Fault(sentence(text), name)


class _Removed(NamedTuple):
    path: Path
    id: int


class Removals:
    """Images that were removed and can be brought back, by a token. For the thread that changes the collection."""

    def __init__(self) -> None:
        self._removed: OrderedDict[str, _Removed] = OrderedDict()

    def remember(self, path: Path, id: int) -> str:
        token = secrets.token_urlsafe(16)
        self._removed[token] = _Removed(path, id)
        if len(self._removed) > _REMEMBERED:
            self._removed.popitem(last=False)
        return token

    def undo(self, photos: Collection, token: str) -> Entry:
        """Bring an image back, with its id; the token is used up if that succeeds."""
        removed = self._removed.get(token)
        if removed is None:
            raise Problem(
                404,
                "This removal cannot be undone here any more. The file was not deleted: bring the image back with "
                f"faemb add {typed(photos.layout.folder)} FILE.",
            )
        report = photos.bring_back(*removed)
        entry = photos.entry(removed.path)
        if entry is None:
            raise Problem(409, sentence(report.failed[0] if report.failed else f"{removed.path} was not added"))
        self._removed.pop(token, None)
        return entry


# Jobs.


def update(photos: Collection, progress: Progress) -> Outcome:
    return _outcome(photos.update(progress=progress))


def relearn(photos: Collection, progress: Progress) -> Outcome:
    report = photos.relearn(progress=progress)
    return Outcome(f"The model was learned again from {counted(report.relearned_from)}.")


def add_folder(photos: Collection, folder: Path, progress: Progress) -> Outcome:
    """Leaves out what the remembered folder above it leaves out."""
    above = [patterns for place, patterns in _local_folders(photos) if is_below(folder, place)]
    sources = images_in(folder, exclude=above[0] if above else (), kind=kind_of(photos.model.extractor))
    return _outcome(photos.add(sources, progress=progress))


def _local_folders(photos: Collection) -> Iterator[tuple[str, list[str]]]:
    """The remembered folders of this machine, and what they leave out. Visitors name no folder on another server."""
    for folder, patterns in photos.folders().items():
        if not isinstance(folder, Url):
            yield os.path.realpath(folder), patterns


def require_allowed(photos: Collection, given: str, others: Iterable[Path]) -> Path:
    """The folder; an error unless it is one from which visitors may add images: remembered, one of others, or below."""
    folder = Path(os.path.realpath(given)) if given and "\0" not in given else None
    if folder is not None:
        for place in (*(place for place, _ in _local_folders(photos)), *map(os.path.realpath, others)):
            if is_below(folder, place):
                return folder
    raise Problem(
        403,
        f"The folder {given!r} does not belong to this collection; add it on the server with "
        f"faemb add {typed(photos.layout.folder)} FOLDER, or let visitors add it with faemb serve --folder.",
    )


def _outcome(report: Report) -> Outcome:
    result = " ".join([sentence(changes_in_words(report)), *map(sentence, report.kept)])
    return Outcome(result, report.failed)
