"""Worker processes that wait for items: one that dies or takes too long costs its own item alone."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from faemb.errors import InputError, LimitError
from faemb.runtime.limits import SECONDS
from faemb.runtime.parallel import TaskFailed, WorkerDied
from faemb.runtime.worker_processes import Workers
from processes import wait_until


def work(item: str) -> int:
    if item == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if item == "hang":
        time.sleep(1000)
    if item == "wrong":
        raise InputError("the item is wrong")
    if item == "fault":
        raise ZeroDivisionError("by nothing")
    return os.getpid()


@contextmanager
def workers(jobs: int) -> Iterator["Workers[str, int]"]:
    made: Workers[str, int] = Workers(work, jobs)
    try:
        yield made
    finally:
        made.close()


def test_a_process_is_started_once_and_its_faults_are_those_of_single_items():
    with workers(1) as one:
        first = one.submit("a").result()
        assert first != os.getpid()
        with pytest.raises(InputError, match="the item is wrong"):
            one.submit("wrong").result()
        with pytest.raises(TaskFailed, match="ZeroDivisionError: by nothing"):
            one.submit("fault").result()
        assert one.submit("b").result() == first
        with pytest.raises(WorkerDied, match="was killed"):
            one.submit("crash").result()
        assert one.submit("c").result() not in (first, os.getpid())


def test_a_crash_does_not_touch_the_items_of_other_processes():
    with workers(2) as two:
        given = [two.submit(item) for item in ("a", "crash", "b", "crash", "c")]
        outcomes = [each.exception() for each in given]
    assert [isinstance(outcome, WorkerDied) for outcome in outcomes] == [False, True, False, True, False]
    assert outcomes[::2] == [None] * 3


def test_an_item_that_takes_too_long_is_stopped(monkeypatch):
    monkeypatch.setenv(SECONDS, "0.2")
    with workers(1) as one:
        one.submit("a").result()  # started, so that the deadline is of the work alone
        with pytest.raises(LimitError, match=r"longer than 0\.2 s"):
            one.submit("hang").result()
        assert one.submit("b").result()


def test_notes_of_begun_items_do_not_gather():
    """They would fill their pipe after some thousand items, and the process would wait for a reader."""
    with workers(1) as one:
        for _ in range(3):
            one.submit("a").result()
        (process,) = one._open
        assert not process._notes.poll()


def test_closing_stops_an_item_that_is_being_worked_on():
    with workers(1) as one:
        process = one.submit("a").result()
        hanging = one.submit("hang")
        waiting = one.submit("b")
        assert wait_until(hanging.running)
    assert waiting.cancelled()
    assert isinstance(hanging.exception(), Exception)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_processes_can_be_started_before_their_first_item():
    with workers(2) as two:
        two.start("a")
        assert wait_until(lambda: len(two._open) == 2)
        assert two.submit("a").result() != os.getpid()
