"""Tasks in parallel threads: all results in order, and errors of tasks."""

import threading
from collections.abc import Generator

import pytest
from threadpoolctl import threadpool_info

from faemb.runtime.threads import cores, in_threads


def _blas_threads():
    """Threads of the libraries that have one number per process: OpenMP has one in each thread."""
    shared = [
        each for each in threadpool_info() if each["user_api"] == "blas" and each["threading_layer"] == "pthreads"
    ]
    return [each["num_threads"] for each in shared]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 40])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(count, threads):
    assert list(in_threads(lambda n: n * n, iter(range(count)), threads)) == [n * n for n in range(count)]


def test_several_are_under_way_at_once():
    both = threading.Barrier(2, timeout=20)
    assert list(in_threads(lambda n: both.wait() >= 0, range(4), 2)) == [True] * 4


def test_few_items_are_taken_ahead():
    taken = []

    def items():
        for n in range(50):
            taken.append(n)
            yield n

    results = in_threads(lambda n: n, items(), 2)
    next(results)
    assert len(taken) <= 5
    assert isinstance(results, Generator)
    results.close()


def test_an_error_reaches_the_caller_and_ends_the_work():
    started = []

    def task(n):
        started.append(n)
        if n == 3:
            raise ValueError("the third")
        return n

    results = in_threads(task, range(1000), 2)
    with pytest.raises(ValueError, match="the third"):
        list(results)
    assert len(started) < 20


def test_libraries_have_one_thread_each_meanwhile_and_theirs_again_afterwards():
    before = _blas_threads()
    assert before, "NumPy's linear algebra is not seen"
    during = list(in_threads(lambda n: _blas_threads(), range(3), 2))
    assert all(count == 1 for counts in during for count in counts)
    assert _blas_threads() == before


def test_an_only_item_keeps_the_threads_of_the_libraries():
    before = _blas_threads()
    assert list(in_threads(lambda n: _blas_threads(), range(1), 2)) == [before]


def test_there_is_a_core():
    assert cores() >= 1
