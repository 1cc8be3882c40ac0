"""Tasks in parallel threads: all results in order, errors of tasks, and long calls that Ctrl-C ends."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from functools import partial

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from faemb.runtime import UNKNOWN
from faemb.runtime.threads import cores, in_threads, interruptible, reported
from processes import heeded


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


# Long calls


def test_a_call_gives_its_result_or_its_error():
    assert interruptible(lambda: 3) == 3
    for error in (ValueError("no"), TimeoutError("its own")):
        with pytest.raises(type(error), match=str(error)):
            interruptible(partial(_raise, error))


def _raise(error: Exception) -> None:
    raise error


def test_a_call_sees_the_state_of_its_caller():
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        interruptible(lambda: np.ones(1) / np.zeros(1))


def test_a_call_of_another_thread_stays_in_it():
    places: list[int] = []

    def work() -> None:
        interruptible(lambda: places.append(threading.get_ident()))
        places.append(threading.get_ident())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert places[0] == places[1]


def test_a_stage_of_unknown_length_is_told_while_it_lasts(monkeypatch):
    monkeypatch.setattr("faemb.runtime.threads._STEP", 0.01)
    told, enough = [], threading.Event()

    def progress(*call):
        told.append(call)
        if len(told) == 4:
            enough.set()

    assert reported(lambda: enough.wait(60), "thinking", progress)
    assert len(told) >= 5
    assert set(told[:-1]) == {("thinking", 0, UNKNOWN)}
    assert told[-1] == ("thinking", 1, 1)


def test_a_progress_that_fails_ends_the_wait(monkeypatch):
    monkeypatch.setattr("faemb.runtime.threads._STEP", 0.01)
    monkeypatch.setattr("faemb.runtime.threads._skip_exit_handlers", lambda: None)  # this process goes on
    goes_on = threading.Event()
    with pytest.raises(ZeroDivisionError):
        interruptible(goes_on.wait, partial(_raise, ZeroDivisionError()))
    goes_on.set()


# Ctrl-C

_PATIENCE = 120

SCRIPTS = {
    "eigenvalues": """
half = np.random.default_rng(0).standard_normal((3000, 3000))
matrix = half + half.T
print("begins", flush=True)
symmetric_eigen(matrix)
""",
    "several threads": """
half = np.random.default_rng(0).standard_normal((3000, 3000))
print("begins", flush=True)
list(in_threads(lambda _: np.linalg.svd(half), range(4), 2))
""",
    "k-means": """
import sklearn.cluster
x = np.random.default_rng(0).standard_normal((200_000, 64))
print("begins", flush=True)
kmeans_anchors(x, 256, seed=0, restarts=5)
""",
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_ctrl_c_ends_a_process_inside_a_long_call(script):
    """Each call takes many seconds on two cores; the process ends before it returns, with its own status."""
    imports = """
import sys, numpy as np
from faemb.embedding.anchors import kmeans_anchors
from faemb.linear_algebra import symmetric_eigen
from faemb.runtime import UNKNOWN
from faemb.runtime.threads import in_threads
"""
    body = "".join(f"    {line}\n" for line in script.strip().splitlines())
    whole = f"{imports}try:\n{body}    print('returned')\nexcept KeyboardInterrupt:\n    sys.exit(77)\n"
    pipe = subprocess.PIPE
    with heeded(signal.SIGINT):
        run = subprocess.Popen([sys.executable, "-c", whole], stdout=pipe, stderr=pipe, text=True)  # noqa: S603
    assert run.stdout is not None
    try:
        assert run.stdout.readline() == "begins\n"
        time.sleep(0.5)
        run.send_signal(signal.SIGINT)
        printed, complaints = run.communicate(timeout=_PATIENCE)
    finally:
        run.kill()
        run.wait()
    assert (run.returncode, printed, complaints) == (77, "", "")
