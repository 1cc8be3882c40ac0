"""Real servers on loopback: in a thread of this process, with a client, or as a process of its own."""

import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from fastapi import FastAPI

from faemb.web.app import create_app
from faemb.web.server import Server
from faemb.web.settings import ServerSettings
from processes import COMMAND, PATIENCE, heeded, wait_until


@contextmanager
def serving(settings: ServerSettings) -> Iterator[httpx.Client]:
    """A client of a server with these settings; the port is one that is free."""
    with answering(create_app(settings)) as client:
        yield client


@contextmanager
def answering(app: FastAPI) -> Iterator[httpx.Client]:
    server = Server(app, lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.answer, args=(listening,))
        thread.start()
        try:
            assert wait_until(lambda: server.started or not thread.is_alive())
            port = listening.getsockname()[1]
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, trust_env=False) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
    assert not thread.is_alive()


@dataclass(frozen=True)
class Served:
    process: subprocess.Popen[str]
    address: str
    """Of the page, with a slash at the end; without a token."""
    token: str | None

    @property
    def port(self) -> int:
        return int(self.address.rstrip("/").rsplit(":", 1)[1])


@contextmanager
def served(collection: Path, *options: object, **environment: str) -> Iterator[Served]:
    """`faemb serve` at a free port, until the block ends."""
    pipe = subprocess.PIPE
    command: list[str | Path] = [COMMAND, "serve", collection, "--port", "0", "--jobs", "1", *map(str, options)]
    with heeded(signal.SIGINT), heeded(signal.SIGHUP):
        process = subprocess.Popen(command, env=os.environ | environment, stdout=pipe, stderr=pipe, text=True)  # noqa: S603
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        found = re.search(r" at (http://\S+/)(?:\?token=(\S+))?$", process.stdout.readline().rstrip("\n"))
        assert found, process.stderr.read()
        yield Served(process, found[1], found[2])
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
