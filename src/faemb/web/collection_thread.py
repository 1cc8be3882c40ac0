"""A thread with a collection of its own, which does one task after the other.

A connection to the catalogue belongs to the thread that has opened it. A search occupies all cores by itself, so that
several of them at a time would not be faster.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from faemb.collection import Collection
from faemb.collection.stores.milvus_server import waiting_at_most

VISITORS_WAIT = 10.0
"""Seconds for which a server with the collection's vectors may be away before visitors are told."""

Result = TypeVar("Result")
Task = Callable[[Collection], Any]


@dataclass(frozen=True)
class _Given:
    task: Task
    answer: "Future[Any]"


class CollectionThread:
    """Opens the collection when it is made, and raises the error of opening it."""

    def __init__(self, name: str, collection: Path, *, device: str = "cpu", store: str | None = None) -> None:
        self._waiting: SimpleQueue[_Given | None] = SimpleQueue()
        self._is_closing = False
        opened: Future[None] = Future()
        given = collection, device, store, opened
        self._thread = threading.Thread(target=self._work, args=given, name=name, daemon=True)
        self._thread.start()
        opened.result()

    async def do(self, task: Callable[[Collection], Result]) -> Result:
        """The result of a task; one whose caller has gone before its turn is left out."""
        return await asyncio.wrap_future(self.submit(for_visitor(task)))

    def submit(self, task: Callable[[Collection], Result]) -> "Future[Result]":
        answer: Future[Result] = Future()
        self._waiting.put(_Given(task, answer))
        return answer

    @property
    def waiting(self) -> int:
        """Number of tasks that have not begun."""
        return self._waiting.qsize()

    def close(self) -> None:
        """End after the present task; those that wait are cancelled."""
        self._is_closing = True
        self._waiting.put(None)
        self._thread.join()

    def _work(self, folder: Path, device: str, store: str | None, opened: "Future[None]") -> None:
        try:
            collection = Collection(folder, device=device, store=store)
        except BaseException as error:
            opened.set_exception(error)
            return
        opened.set_result(None)
        with collection:
            while (given := self._waiting.get()) is not None:
                if self._is_closing:
                    given.answer.cancel()
                else:
                    _settle(given, collection)


def for_visitor(task: Callable[[Collection], Result]) -> Callable[[Collection], Result]:
    """A task for whose end somebody waits, and behind which others wait."""

    def done(photos: Collection) -> Result:
        with waiting_at_most(VISITORS_WAIT):
            return task(photos)

    return done


def _settle(given: _Given, collection: Collection) -> None:
    if not given.answer.set_running_or_notify_cancel():
        return
    try:
        given.answer.set_result(given.task(collection))
    except BaseException as error:
        given.answer.set_exception(error)
