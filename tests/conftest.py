"""Fixtures for all tests. Shapes written in the types of the package are checked while tests run."""

import gc
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from milvus_beside import MilvusBeside

if "PYTEST_XDIST_WORKER" in os.environ:
    # Before NumPy is imported: the workers share the cores, and threads of each that wait for the other's are slow.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Processes that tests start then compile the package once, and not each anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import numpy as np
from threadpoolctl import threadpool_limits

import typechecking

typechecking.install("faemb")  # before the package is imported

from backends import BACKENDS, Backend  # noqa: E402

if not find_spec("playwright"):  # make test-web installs it, and runs them
    collect_ignore = ["web/browser"]

gc.disable()  # until all tests are collected: of what that makes, nothing is garbage


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


LONGEST = ("test_examples", "test_demo", "test_fuzz", "test_kill", "test_readme", "test_server_kill", "test_openapi")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first: at the end no worker waits while another has one of them left."""
    items.sort(key=lambda item: item.path.stem not in LONGEST)


def pytest_runtest_setup() -> None:
    typechecking.next_test()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20170306)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Threads of a library that wait for each other are slow where there is other work to do."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is spread over processes, and no picture is described twice."""
    from small_collections import work_here

    work_here(monkeypatch)


@pytest.fixture(scope="session")
def data() -> Path:
    """Real photographs and a real network, which are not part of the project; CONTRIBUTING.md says what is expected."""
    folder = Path(os.environ.get("FAEMB_DATA", ""))
    if os.environ.get("FAEMB_DATA") and folder.is_dir():
        return folder
    reason = "needs real data: set FAEMB_DATA to a folder that holds affine/, holidays811/, models/ and so on"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def milvus_server(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[MilvusBeside]":
    """One for all tests; a test that kills it starts it again."""
    from milvus_beside import MilvusBeside, require_own_network

    require_own_network()
    beside = MilvusBeside(tmp_path_factory.mktemp("milvus"))
    beside.start()
    yield beside
    beside.stop()


def _marks(backend: Backend) -> list[pytest.MarkDecorator]:
    return [pytest.mark.torch] if backend.name.startswith("torch") else []


@pytest.fixture(params=[pytest.param(backend, id=backend.name, marks=_marks(backend)) for backend in BACKENDS])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each array library that is installed: NumPy always, PyTorch on the CPU and on a GPU where there is one."""
    return request.param
