"""A real server on loopback, in a thread, with a client."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn

from faemb.web.app import create_app
from faemb.web.settings import ServerSettings
from processes import PATIENCE, wait_until


@contextmanager
def serving(settings: ServerSettings) -> Iterator[httpx.Client]:
    """A client of a server with these settings; the port is one that is free."""
    server = uvicorn.Server(uvicorn.Config(create_app(settings), log_level="warning", access_log=False))
    with socket.create_server((settings.host, 0)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            assert wait_until(lambda: server.started or not thread.is_alive())
            port = listening.getsockname()[1]
            with httpx.Client(base_url=f"http://{settings.host}:{port}", timeout=PATIENCE, trust_env=False) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
    assert not thread.is_alive()
