"""One task over many items in worker processes; the tasks are in `worker_tasks.py`, which workers import."""

import inspect
import itertools
import multiprocessing
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any, ClassVar

import pytest

from faemb.errors import InputError, LimitError, MissingExtraError
from faemb.runtime import worker_processes
from faemb.runtime.parallel import TaskFailed, WorkerDied, spread
from faemb.runtime.worker_processes import checked_jobs
from worker_tasks import (
    Witness,
    endless_from_ten,
    hungry,
    kill_on_three,
    kill_the_worker_on_a_multiple_of_five,
    process_that_slept,
    refused_by_the_system,
    slowly_negated,
)

JOBS = 2
AHEAD = 4 * JOBS
"""Most items that may be submitted and not finished."""


def counted(pulled: list[int]) -> Iterator[int]:
    for number in itertools.count():
        pulled.append(number)
        yield number


def workers() -> list[Any]:
    return multiprocessing.active_children()


@pytest.fixture(scope="module")
def outcomes() -> list[tuple[Any, Any]]:
    """Results of one run over 30 numbers, four texts that raise, and a number again."""
    outcomes = list(spread(Witness(), [*range(30), "value", "extra", "talkative", "lock", 7], jobs=JOBS))
    assert workers() == []
    return outcomes


def test_every_item_comes_back_once_with_its_own_result(outcomes):
    numbers = [item for item, _ in outcomes if isinstance(item, int)]
    assert Counter(numbers) == Counter([*range(30), 7])
    assert all(result["item"] == item for item, result in outcomes if isinstance(item, int))


def test_the_work_is_done_elsewhere_by_at_most_so_many(outcomes):
    processes = {result["process"] for _, result in outcomes if isinstance(result, dict)}
    assert os.getpid() not in processes
    assert 1 <= len(processes) <= JOBS


def test_the_task_travels_once_per_worker(outcomes):
    assert {result["unpacked"] for _, result in outcomes if isinstance(result, dict)} == {1}


def test_libraries_use_one_thread_in_a_worker(outcomes):
    assert {n for _, result in outcomes if isinstance(result, dict) for n in result["threads"]} == {1}


def test_an_exception_is_given_back_with_its_item(outcomes):
    (error,) = [result for item, result in outcomes if item == "value"]
    assert type(error) is TaskFailed
    assert str(error) == "ValueError: no good"


@pytest.mark.parametrize(
    ("item", "kind", "words"),
    [
        ("extra", MissingExtraError, "reading a.heic needs the extra 'heic'"),
        ("talkative", TaskFailed, "TalkativeError: here has failed with 7"),
        ("lock", TaskFailed, "ValueError: <unlocked _thread.lock"),
    ],
)
def test_an_exception_that_cannot_be_pickled_is_not_taken_for_a_dead_worker(outcomes, item, kind, words):
    (error,) = [result for given, result in outcomes if given == item]
    assert isinstance(error, kind)
    assert words in str(error)


def test_items_that_kill_their_worker_are_named_and_all_others_succeed():
    """Two that are submitted together, and a later one."""
    outcomes = list(
        spread(kill_the_worker_on_a_multiple_of_five, [1, 5, 2, 10, 3, 4, *range(6, 10), 15, 11], jobs=JOBS)
    )
    assert Counter(item for item, _ in outcomes) == Counter([*range(1, 12), 15])
    killers = {item: result for item, result in outcomes if item % 5 == 0}
    assert killers.keys() == {5, 10, 15}
    for error in killers.values():
        assert isinstance(error, WorkerDied)
        assert "killed" in str(error)
    assert all(result == -item for item, result in outcomes if item % 5)
    assert workers() == []


# Limits


def test_items_that_take_too_long_are_stopped_and_all_others_succeed(monkeypatch):
    """Two at once, one of which is in a library, and a later one."""
    hostile = [10, 20, 11]
    monkeypatch.setenv("FAEMB_ITEM_SECONDS", "1")
    outcomes = list(spread(endless_from_ten, [1, 2, *hostile, *range(3, 9)], jobs=JOBS))
    assert Counter(item for item, _ in outcomes) == Counter([*range(1, 9), *hostile])
    for item, result in outcomes:
        if item in hostile:
            assert isinstance(result, LimitError)
            assert str(result).startswith("it took longer than 1 s; ")
            assert "FAEMB_ITEM_SECONDS=10" in str(result)
        else:
            assert result == -item
    assert workers() == []


def test_the_deadline_is_of_one_item_and_not_of_all(monkeypatch):
    monkeypatch.setenv("FAEMB_ITEM_SECONDS", "1")
    processes = {result for _, result in spread(process_that_slept, [0.25] * 6, jobs=1)}
    assert len(processes) == 1  # it was not stopped and replaced
    assert isinstance(processes.pop(), int)


def test_a_caller_that_takes_its_time_makes_no_item_late(monkeypatch):
    """A worker dies while another works on 2, and the caller asks for the next result long after that."""
    monkeypatch.setenv("FAEMB_ITEM_SECONDS", "1.5")
    results = {}
    for item, result in spread(kill_on_three, [1, 2, 3, 4, 5, 6], jobs=2):
        results[item] = result
        time.sleep(2 if item == 1 else 0)
    assert isinstance(results.pop(3), WorkerDied)
    assert results == {item: -item for item in (1, 2, 4, 5, 6)}


@pytest.mark.parametrize("name", ["FAEMB_ITEM_SECONDS", "FAEMB_ITEM_MEMORY"])
def test_limits_that_make_no_sense_are_explained(monkeypatch, name):
    monkeypatch.setenv(name, "soon")
    with pytest.raises(InputError, match=f"{name} is 'soon'; expected a number of"):
        next(spread(slowly_negated, [1], jobs=1))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
def test_a_worker_that_takes_too_much_memory_is_refused_it(monkeypatch):
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "50MB")
    outcomes = dict(spread(hungry, [10**8, 10**9, 1], jobs=1))
    assert (outcomes[1], outcomes[10**8]) == (1, 1)
    assert isinstance(outcomes[10**9], LimitError)
    assert "it needs more memory than there is; " in str(outcomes[10**9])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
def test_a_lack_of_memory_is_one_sentence_whoever_reports_it(monkeypatch):
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "100MB")
    outcomes = dict(spread(refused_by_the_system, ["NumPy", "OpenCV", "Python"], jobs=1))
    assert {type(error) for error in outcomes.values()} == {LimitError}
    assert len({str(error) for error in outcomes.values()}) == 1


class Pool:
    """A pool without processes; the first one breaks when its third item is submitted."""

    made: ClassVar[int] = 0

    def __init__(self, workers: int, *, initargs: tuple[Any, ...], **options: Any) -> None:
        self.task, self.left = initargs[0], 2 if Pool.made == 0 else 1000
        Pool.made += 1

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def shutdown(self, **options: Any) -> None:
        pass

    def submit(self, run: Any, item: Any) -> "Future[Any]":
        self.left -= 1
        if self.left < 0:
            raise BrokenProcessPool("a worker has died")
        future: Future[Any] = Future()
        try:
            future.set_result(self.task(item))
        except BaseException as error:
            future.set_exception(error)
        return future


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_processes, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(Pool, "made", 0)


@pytest.mark.usefixtures("pools")
def test_no_item_is_lost_or_done_twice_when_the_pool_breaks_as_it_is_given_one():
    outcomes = list(spread(slowly_negated, iter(range(1, 20)), jobs=2))
    assert sorted(outcomes) == [(item, -item) for item in range(1, 20)]
    assert Pool.made > 1


@pytest.mark.usefixtures("pools")
def test_an_interrupt_in_a_worker_is_no_result():
    def interrupted(item: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(spread(interrupted, [1], jobs=1))


def test_an_endless_iterator_is_read_a_bounded_distance_ahead():
    pulled: list[int] = []
    outcomes = spread(slowly_negated, counted(pulled), jobs=JOBS)
    assert pulled == []
    for taken in range(1, 26):
        item, result = next(outcomes)
        assert result == -item
        assert len(pulled) <= taken + AHEAD
    assert len(workers()) == JOBS
    assert isinstance(outcomes, Generator)
    outcomes.close()
    assert workers() == []
    assert len(pulled) <= 25 + AHEAD


@pytest.mark.parametrize("taken", [1, 2, 5])
def test_leaving_early_leaves_no_workers_and_makes_no_thread_fail(monkeypatch, taken):
    faults: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", faults.append)
    outcomes = spread(slowly_negated, itertools.count(), jobs=JOBS)
    for _ in range(taken):
        next(outcomes)
    assert isinstance(outcomes, Generator)
    outcomes.close()
    assert workers() == []
    assert [str(fault.exc_value) for fault in faults] == []


def test_a_consumer_that_fails_leaves_no_workers():
    def consume() -> None:
        for _ in spread(slowly_negated, itertools.count(), jobs=1):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        consume()
    assert workers() == []


def test_items_that_fail_end_the_run_and_leave_no_workers():
    def items() -> Iterator[int]:
        yield 1
        raise LookupError("the list of items is damaged")

    with pytest.raises(LookupError, match="damaged"):
        list(spread(slowly_negated, items(), jobs=1))
    assert workers() == []


def test_no_more_workers_are_started_than_there_are_items():
    outcomes = spread(process_that_slept, [0.3, 0.3], jobs=64)
    next(outcomes)
    assert len(workers()) <= 2
    list(outcomes)


def test_no_items_no_results():
    assert list(spread(slowly_negated, [], jobs=JOBS)) == []
    assert workers() == []


@pytest.mark.parametrize("jobs", [0, -1, True, 1025], ids=repr)
def test_wrong_numbers_of_jobs_are_explained(jobs):
    with pytest.raises(InputError, match=r"jobs is .*; expected a whole number, 1 to 1024"):
        next(spread(slowly_negated, [1], jobs=jobs))


@pytest.mark.parametrize("jobs", [1.5, "2", float("nan"), [2]], ids=repr)
def test_jobs_of_a_wrong_type_are_explained(jobs):
    """Unwrapped: only in tests types are checked before."""
    with pytest.raises(InputError, match=r"jobs is .*; expected a whole number, 1 to 1024"):
        inspect.unwrap(checked_jobs)(jobs)


def test_one_worker_per_core_that_may_be_used():
    assert checked_jobs(3) == 3
    assert 1 <= checked_jobs(None) <= (os.cpu_count() or 1)
