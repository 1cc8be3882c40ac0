"""Threads with a collection of their own: tasks in order, errors to those who asked, an end without loose ends."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from faemb.collection import Collection
from faemb.errors import InputError
from faemb.web.collection_thread import CollectionThread
from processes import wait_until
from small_collections import make_collection


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_collection(tmp_path_factory.mktemp("thread"), ["a.png"]) / "photos.faemb"


@pytest.fixture
def thread(folder):
    thread = CollectionThread("testing", folder)
    yield thread
    thread.close()


def holding() -> tuple[Callable[[Collection], None], threading.Event, threading.Event]:
    """A task that lasts until the second event, and sets the first one when it begins."""
    begun, hold = threading.Event(), threading.Event()

    def held(photos: Collection) -> None:
        begun.set()
        hold.wait()

    return held, begun, hold


def test_tasks_have_the_collection_and_their_errors_reach_the_caller(thread):
    assert asyncio.run(thread.do(len)) == 1
    with pytest.raises(ZeroDivisionError):
        asyncio.run(thread.do(lambda photos: 1 // 0))
    assert asyncio.run(thread.do(len)) == 1


def test_a_folder_without_a_collection_is_an_error_at_once(tmp_path):
    with pytest.raises(InputError, match="no collection at"):
        CollectionThread("testing", tmp_path)


def test_a_task_whose_caller_has_gone_is_left_out(thread):
    held, begun, hold = holding()
    done: list[str] = []

    async def ask() -> None:
        first = asyncio.create_task(thread.do(held))
        gone = asyncio.create_task(thread.do(lambda photos: done.append("gone")))
        last = asyncio.create_task(thread.do(lambda photos: done.append("last")))
        await asyncio.to_thread(begun.wait)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        hold.set()
        await asyncio.gather(first, last)

    asyncio.run(ask())
    assert done == ["last"]


def test_closing_ends_the_present_task_and_cancels_the_others(folder):
    thread = CollectionThread("testing", folder)
    held, begun, hold = holding()
    present = thread.submit(held)
    waiting = thread.submit(len)
    begun.wait()
    closing = threading.Thread(target=thread.close)
    closing.start()
    assert wait_until(lambda: thread._is_closing)
    hold.set()
    closing.join()
    assert present.done()
    assert not present.cancelled()
    assert waiting.cancelled()
