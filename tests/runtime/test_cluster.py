"""A task over many items on a Dask cluster: the same promises as on one machine."""

import itertools
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from faemb.errors import FaembError, InputError, LimitError, MissingExtraError
from faemb.runtime import cluster as module
from faemb.runtime.cluster import Cluster, open_cluster
from faemb.runtime.cluster_worker import NotSharedError, SentItem, SentTask, Versions, work
from faemb.runtime.limits import NO_LIMITS
from faemb.runtime.parallel import PoolLost, TaskFailed, WorkerDied, spread
from recording import recording
from worker_tasks import Witness, endless_from_ten, kill_the_worker_on_a_multiple_of_five, name_of, slowly_negated

distributed = pytest.importorskip("distributed")
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
    monkeypatch.setattr(module.DaskPool, "_send", recording(lambda _, group, tries: sizes.append(len(group)), send))
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


@pytest.mark.parametrize("other", [Versions("0.0.1", Versions.here().python), Versions(Versions.here().faemb, "2.7")])
def test_another_version_is_refused_before_any_work(cluster, monkeypatch, other):
    """Also of a worker that joins later."""
    (answer,) = work(sent_task(other), [SentItem(1, ())], "tcp://one")
    assert isinstance(answer.error, PoolLost)
    assert f"has {Versions.here()}, and this machine {other}; install the same" in str(answer.error)
    monkeypatch.setattr(Versions, "here", lambda: other)
    with pytest.raises(FaembError, match=r"the scheduler local:2 has faemb .*; install the same version on both"):
        cluster.check()


def test_no_scheduler_is_one_sentence(monkeypatch):
    monkeypatch.setattr(module, "_CONNECTING", 0.3)
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
