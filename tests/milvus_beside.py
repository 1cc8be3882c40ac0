"""A Milvus server beside the tests: PyPI's milvus 2.3.5, in an environment, a folder and a network of its own.

`make test-milvus` installs it and runs the tests in a network namespace, since the server listens on all interfaces.
"""

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

PYTHON = Path(__file__).parents[1] / "build" / "milvus-venv" / "bin" / "python"
PORT = 19530
_HEALTH = "http://127.0.0.1:9091/healthz"
_STARTS, _ENDS = 180.0, 60.0
_SESSION_SECONDS = 6
"""How long a new server waits for one that was killed, and how long its parts may be too busy to report: 30 by default,
which a test that kills it five times would spend waiting."""
_QUICK = {
    "proxy.timeTickInterval": 20,
    "queryCoord.distPullInterval": 50,
    "queryCoord.checkSegmentInterval": 100,
    "queryCoord.checkChannelInterval": 100,
    "indexCoord.scheduler.interval": 100,
}
"""Milliseconds between two looks of its parts at what others have done, ten times as often as by default: every search
with strong consistency waits for one of them, and a Milvus collection that is loaded for several."""
_PROGRAM = """
import ctypes, os, signal, socket, sys
import milvus
folder = sys.argv[1]
if not os.path.exists(os.path.join(folder, "configs", "milvus.yaml")):
    server = milvus.default_server
    server.set_base_dir(folder)
    # Otherwise it takes the next port where connections to a killed server linger.
    server.config.try_bind_port = lambda port: socket.create_server(("127.0.0.1", port))
    server.config.resolve()
    milvus._initialize_data_files(folder)
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends when the tests do, however they end
program = os.path.join(folder, "bin", "milvus")
os.chdir(folder)
os.environ.update(
    DEPLOY_MODE="STANDALONE",
    METRICS_PORT="9091",
    MILVUS_RUN_DIR=os.path.join(folder, "run"),
    LD_LIBRARY_PATH=os.path.dirname(program),
)
os.execv(program, [program, "run", "standalone"])
"""
"""Becomes the server itself, so that its process id is the one that was started."""


class MilvusBeside:
    def __init__(self, folder: Path, settings: Mapping[str, int] = _QUICK) -> None:
        self._folder, self._process, self._settings = folder, None, {"common.session.ttl": _SESSION_SECONDS, **settings}
        self._starter = ThreadPoolExecutor(1)  # the system ends the server when the thread that has started it ends
        folder.mkdir(parents=True, exist_ok=True)

    _process: subprocess.Popen[bytes] | None

    def start(self) -> None:
        """Until it answers."""
        self._process = self._starter.submit(self._started).result()
        end = time.monotonic() + _STARTS
        while not _is_healthy():
            assert self._process.poll() is None, f"the server has ended: {self._end_of_log()}"
            assert time.monotonic() < end, f"the server does not answer: {self._end_of_log()}"
            time.sleep(0.2)

    def _started(self) -> "subprocess.Popen[bytes]":
        settings = {
            name: str(value) for name, value in self._settings.items()
        }  # it reads them from its environment too
        with (self._folder / "server.log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603
                [PYTHON, "-c", _PROGRAM, self._folder],
                env=os.environ | settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """By SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(_ENDS)

    def stop(self) -> None:
        """At once: a server that is asked to end first waits for its parts."""
        if self._process is not None:
            assert self._process.poll() is None, f"the server has ended by itself: {self._end_of_log()}"
            self.kill()
        self._starter.shutdown()

    def address(self, name: str) -> str:
        return f"milvus://127.0.0.1:{PORT}/{name}"

    def _end_of_log(self) -> str:
        return (self._folder / "server.log").read_text(errors="replace")[-2000:]


def require_own_network() -> None:
    """Fail where the server could be reached from other machines."""
    others = {name for _, name in socket.if_nameindex()} - {"lo"}
    if others or not PYTHON.exists():
        pytest.fail("these tests run in a network of their own, with a server of their own: make test-milvus")


def _is_healthy() -> bool:
    try:
        socket.create_connection(("127.0.0.1", PORT), timeout=5).close()
        with urllib.request.urlopen(_HEALTH, timeout=5) as answer:
            return b"OK" in answer.read()
    except (urllib.error.URLError, OSError):
        return False
