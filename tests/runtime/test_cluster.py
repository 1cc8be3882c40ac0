"""A task over many items on a Dask cluster: the same promises as on one machine."""

import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from clusters import processes
from faemb.errors import FaembError, InputError, LimitError, MissingExtraError, ReadError, RefusedError
from faemb.runtime import cluster as module
from faemb.runtime import cluster_worker, dask_connection, parallel
from faemb.runtime.cluster import Cluster, open_cluster
from faemb.runtime.cluster_worker import NotSharedError, SentItem, SentTask, Versions, work
from faemb.runtime.limits import NO_LIMITS
from faemb.runtime.parallel import PoolLost, TaskFailed, WorkerDied, spread
from recording import recording
from worker_tasks import (
    Refusing,
    Witness,
    a_megabyte,
    endless_from_ten,
    kill_the_worker_on_a_multiple_of_five,
    name_of,
    slowly_identified,
    slowly_negated,
)

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.cluster
WORKERS = 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with open_cluster(f"local:{WORKERS}") as made:
        yield made


@pytest.fixture(scope="module")
def outcomes(cluster: Cluster) -> list[tuple[Any, Any]]:
    """Results of one run over 20 numbers, three texts that raise, and a number again."""
    return list(spread(Witness(), [*range(20), "value", "extra", "talkative", 7], jobs=cluster))


def test_every_item_comes_back_once_with_its_own_result(outcomes):
    numbers = [item for item, _ in outcomes if isinstance(item, int)]
    assert Counter(numbers) == Counter([*range(20), 7])
    assert all(result["item"] == item for item, result in outcomes if isinstance(item, int))


def test_the_task_travels_once_per_worker_whose_libraries_use_one_thread(outcomes):
    results = [result for _, result in outcomes if isinstance(result, dict)]
    assert {result["unpacked"] for result in results} == {1}
    assert {number for result in results for number in result["threads"]} == {1}
    assert 1 <= len({result["process"] for result in results} - {os.getpid()}) <= WORKERS


def test_errors_are_given_back_with_their_items(outcomes):
    errors = {item: result for item, result in outcomes if isinstance(item, str)}
    assert type(errors["value"]) is TaskFailed
    assert str(errors["value"]) == "ValueError: no good"
    assert isinstance(errors["extra"], MissingExtraError)
    assert str(errors["talkative"]) == "TalkativeError: here has failed with 7"


def test_items_that_kill_their_process_are_named_and_all_others_succeed(cluster):
    results = dict(spread(kill_the_worker_on_a_multiple_of_five, [1, 5, 2, 3, 4], jobs=cluster))
    assert isinstance(results.pop(5), WorkerDied)
    assert results == {item: -item for item in (1, 2, 3, 4)}


def test_the_limits_are_those_of_the_machine_that_asks(cluster, monkeypatch):
    monkeypatch.setenv("FAEMB_ITEM_SECONDS", "1")
    results = dict(spread(endless_from_ten, [1, 20, 2], jobs=cluster))
    assert isinstance(results[20], LimitError)
    assert str(results[20]).startswith("it took longer than 1 s; ")
    assert (results[1], results[2]) == (-1, -2)


def counted(pulled: list[int]) -> Iterator[int]:
    for number in itertools.count():
        pulled.append(number)
        yield number


def test_an_endless_iterator_is_read_a_bounded_distance_ahead(cluster):
    pulled: list[int] = []
    outcomes = spread(slowly_negated, counted(pulled), jobs=cluster)
    for taken in range(1, 10):
        item, result = next(outcomes)
        assert result == -item
        assert len(pulled) <= taken + 2 * WORKERS
    assert isinstance(outcomes, Generator)
    outcomes.close()


def test_paths_are_those_of_this_machine_wherever_a_worker_runs(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").touch()
    assert list(spread(name_of, [Path("a.txt")], jobs=cluster)) == [(Path("a.txt"), str(tmp_path / "a.txt"))]


def test_many_items_travel_together_and_each_has_its_own_result(cluster, monkeypatch):
    monkeypatch.setattr(module, "_ALONE_UP_TO", 0.5)
    sizes: list[int] = []
    send = module.DaskPool._send
    monkeypatch.setattr(module.DaskPool, "_send", recording(lambda _, group, attempts: sizes.append(len(group)), send))
    results = dict(spread(kill_the_worker_on_a_multiple_of_five, range(1, 24), jobs=cluster))
    assert max(sizes) == 4
    assert {item for item, result in results.items() if isinstance(result, WorkerDied)} == {5, 10, 15, 20}
    assert all(result == -item for item, result in results.items() if item % 5)


# Faults


def sent_task(versions: Versions) -> SentTask:
    return SentTask("key", slowly_negated, NO_LIMITS, versions)


def test_a_worker_that_does_not_see_a_file_names_itself(tmp_path):
    (answer,) = work(sent_task(Versions.here()), [SentItem(1, (tmp_path / "a.png",))], "tcp://one")
    assert isinstance(answer.error, NotSharedError)
    assert str(answer.error).startswith(f"{tmp_path / 'a.png'} is not there on the worker {socket.gethostname()}; ")


@pytest.mark.parametrize(
    "changed", [{"faemb": "0.0.1"}, {"python": "2.7"}, {"numpy": "1.0"}, {"opencv": "3.0"}], ids=str
)
def test_another_version_is_refused_before_any_work(cluster, monkeypatch, changed):
    """Also of a worker that joins later."""
    other = Versions.here()._replace(**changed)
    (answer,) = work(sent_task(other), [SentItem(1, ())], "tcp://one")
    assert isinstance(answer.error, PoolLost)
    assert f"has {Versions.here()}, and this machine {other}; install the same" in str(answer.error)
    monkeypatch.setattr(Versions, "here", lambda: other)
    with pytest.raises(FaembError, match=r"the (scheduler|worker) .* has faemb .*; install the same version on both"):
        Cluster(cluster.client, cluster.name, print).check()


_OPTIONS = {"nthreads": 1, "memory_limit": 0, "dashboard_address": "127.0.0.1:0"}


@contextmanager
def dask(*workers: Any) -> Iterator[Any]:
    """A Dask cluster with workers of these kinds: a Worker runs in this process, a Nanny starts one of its own."""
    made = {str(number): {"cls": kind, "options": _OPTIONS} for number, kind in enumerate(workers)}
    scheduler = {"host": "127.0.0.1", "port": 0, "dashboard_address": "127.0.0.1:0"}
    start = made, {"cls": distributed.Scheduler, "options": scheduler}, made["0"]
    try:
        with distributed.SpecCluster(*start, silence_logs=60) as cluster:
            yield cluster
    finally:
        cluster_worker._stop_all()  # the processes of a worker in this process would stay for a minute


def seen_by_this_process_only() -> Path:
    """A path that exists for a worker in this process, and for none in another."""
    return Path("/proc/self/task") / str(threading.get_native_id())


def test_a_worker_that_does_not_see_the_images_is_passed_over(cluster):
    said: list[str] = []
    with dask(distributed.Worker, distributed.Nanny) as made, open_cluster(made.scheduler_address, said.append) as two:
        items = [(seen_by_this_process_only(), number) for number in range(40)]
        outcomes = list(spread(slowly_identified, items, jobs=two))
    assert sorted(number for (_, number), _ in outcomes) == list(range(40))
    assert all(found == number for (_, number), found in outcomes)
    (sentence,) = said
    assert re.match(
        r"the worker tcp://.* gets no more of this work: /proc/self/task/.* is not there on the worker", sentence
    )


def test_an_image_that_no_worker_sees_fails_and_no_worker_is_passed_over(cluster):
    items = [(seen_by_this_process_only(), 1), (Path(__file__), 2)]
    outcomes = dict(spread(slowly_identified, items, jobs=cluster))
    assert isinstance(outcomes[items[0]], NotSharedError)
    assert outcomes[items[1]] == 2


@pytest.mark.parametrize(
    "error",
    [ReadError("a.png cannot be read"), RefusedError("s3://a may not be read")],
    ids=lambda each: type(each).__name__,
)
def test_a_worker_that_may_not_read_the_images_is_passed_over(error):
    """It is the quickest, and would be given most of them."""
    said: list[str] = []
    with dask(distributed.Worker, distributed.Nanny) as made, open_cluster(made.scheduler_address, said.append) as two:
        outcomes = dict(spread(Refusing(os.getpid(), error), range(40), jobs=two))
    assert outcomes == {number: number for number in range(40)}
    (sentence,) = said
    assert re.fullmatch(rf"the worker tcp://.* gets no more of this work: {error}", sentence)


def test_an_image_that_no_worker_may_read_fails_and_no_worker_is_passed_over(cluster):
    """The processes of its workers have others as parents."""
    outcomes = dict(spread(Refusing(os.getpid(), ReadError("no")), [0, 1, 2], jobs=cluster))
    assert (outcomes[0], str(outcomes[1]), str(outcomes[2])) == (0, "no", "no")


def test_the_last_worker_is_not_passed_over(cluster, monkeypatch):
    """Each may be unable to read what another can: what the last one cannot read fails, and all else is done."""
    said: list[str] = []
    monkeypatch.setattr(module, "_ALONE", 0.3)
    monkeypatch.setattr(parallel, "_LOOK", 0.1)
    monkeypatch.setattr(cluster, "notice", said.append)
    with closing(cluster.pool(slowly_negated)) as pool:
        for worker in cluster.workers():
            pool._pass_over({worker: ReadError("no")})
        assert dict(parallel.Flow(pool, range(5))) == {number: -number for number in range(5)}
    assert len(said) == WORKERS - 1


def test_workers_may_be_away_for_a_while_however_long_results_have_come(monkeypatch):
    """The time is counted from the moment at which they are missed, also where nobody has looked before."""
    monkeypatch.setattr(module, "_ALONE", 5.0)
    monkeypatch.setattr(module, "_FRESH", 0.1)
    monkeypatch.setattr(parallel, "_LOOK", 0.1)
    with dask(distributed.Worker) as made, open_cluster(made.scheduler_address) as one:
        outcomes = spread(slowly_negated, range(2000), jobs=one)
        began = time.monotonic()
        while time.monotonic() - began < 6:
            next(outcomes)
        made.scale(0)
        threading.Timer(1.5, made.scale, [1]).start()
        for _ in range(20):  # more than were submitted before
            item, found = next(outcomes)
            assert found == -item
        assert isinstance(outcomes, Generator)
        outcomes.close()


def test_workers_that_stay_away_end_the_work(monkeypatch):
    monkeypatch.setattr(module, "_ALONE", 0.3)
    monkeypatch.setattr(module, "_FRESH", 0.1)
    monkeypatch.setattr(parallel, "_LOOK", 0.1)
    with dask(distributed.Worker) as made, open_cluster(made.scheduler_address) as one:
        outcomes = spread(slowly_negated, range(2000), jobs=one)
        next(outcomes)
        made.scale(0)
        with pytest.raises(PoolLost, match=r"all workers of tcp://.* are gone; what was stored is kept"):
            list(outcomes)


def test_results_that_one_process_can_hold_bound_what_is_submitted(cluster, monkeypatch):
    monkeypatch.setattr(module, "_ALONE_UP_TO", 0.1)
    monkeypatch.setattr(module, "_ASSUMED_BYTES", 1)
    with closing(cluster.pool(a_megabyte)) as pool:
        assert pool.ahead == 2 * WORKERS * 16
        monkeypatch.setattr(module, "_HELD_BYTES", 10_000_000)
        assert len(list(parallel.Flow(pool, range(30)))) == 30
        assert (pool.ahead, pool.together) == (8, 2)
        monkeypatch.setattr(module, "_HELD_BYTES", 1)
        assert (pool.ahead, pool.together) == (2 * WORKERS, 1)


def test_a_local_cluster_refuses_whoever_has_not_its_certificates(cluster):
    """Other users of this machine can reach its port, and could run code as this user."""
    port = cluster.client.scheduler.address.rsplit(":", 1)[1]
    strangers = {"tcp": distributed.Security(), "tls": distributed.Security.temporary()}
    for protocol, security in strangers.items():
        with pytest.raises(OSError, match=r"Timed out|ertificate|reset by peer"):
            distributed.Client(f"{protocol}://127.0.0.1:{port}", timeout=2, security=security)


def test_a_suspended_scheduler_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_ANSWERING", 0.5)
    monkeypatch.setattr(module, "_FRESH", 0.1)
    said: list[str] = []
    with processes(tmp_path) as beside, open_cluster(beside.start(workers=1), said.append) as one:
        outcomes = spread(time.sleep, [0.05] * 30, jobs=one)  # the tasks of tests cannot be imported there
        next(outcomes)
        assert beside.scheduler is not None
        beside.scheduler.send_signal(signal.SIGSTOP)
        threading.Timer(3, beside.scheduler.send_signal, [signal.SIGCONT]).start()
        assert len(list(outcomes)) == 29
    assert said == [f"the scheduler {beside.address} does not answer; waiting for it"]


def test_no_scheduler_is_one_sentence(monkeypatch):
    monkeypatch.setattr(dask_connection, "CONNECTING", 0.3)
    with pytest.raises(FaembError, match=r"there is no Dask scheduler at tcp://127.0.0.1:1; start one"):
        open_cluster("tcp://127.0.0.1:1").__enter__()


def test_a_scheduler_without_workers_is_one_sentence(monkeypatch):
    monkeypatch.setattr(module, "_JOINING", 0.2)
    with distributed.LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as empty:
        address = empty.scheduler_address
        with pytest.raises(FaembError, match=f"the scheduler {address} has no workers; start some with: dask worker"):
            open_cluster(address).__enter__()


@pytest.mark.parametrize(
    "name", ["", "scheduler", "local:", "local:x", "local:-1", "http://a:1", "tcp://a", "tcp://a b:1"]
)
def test_names_of_no_cluster_are_explained(name):
    with pytest.raises(InputError, match=r"cluster is .*; expected the address of a Dask scheduler, such as tcp://"):
        open_cluster(name).__enter__()


def test_a_number_of_local_workers_that_makes_no_sense_is_explained():
    with pytest.raises(InputError, match="the number of local workers is 0; expected a whole number, 1 to 1024"):
        open_cluster("local:0").__enter__()


def test_without_the_extra_its_name_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        MissingExtraError, match=r'a cluster needs the extra \'cluster\': pip install "faemb\[cluster\]"'
    ):
        open_cluster("local:1").__enter__()


def test_what_is_not_asked_for_is_not_imported():
    program = (
        "import sys, faemb.cli.main, faemb.collection, faemb.benchmark.command; print('distributed' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == "False\n"
