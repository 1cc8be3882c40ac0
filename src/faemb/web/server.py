"""The server process: it listens, answers until it is told to stop, and lets requests that run end first."""

import asyncio
import ipaddress
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import uvicorn
from fastapi import FastAPI

from faemb.errors import InputError, reason
from faemb.web.app import create_app
from faemb.web.connections import IDLE_SECONDS, Connection
from faemb.web.settings import ServerSettings, is_address

_SECONDS_TO_END = 10
"""For requests that run when the server is stopped."""
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]


def serve(settings: ServerSettings, ready: Callable[[str], None]) -> None:
    """Answer requests until a signal comes; `ready` is called with the address as soon as the server answers.

    Raises the error of opening the collection. A signal takes effect, as it would without the server, when requests
    that run have ended.
    """
    with _listening(settings.host, settings.port) as listener:
        settings = replace(settings, port=listener.getsockname()[1])
        app = create_app(settings)
        server = Server(app, lambda: ready(address(settings)))
        server.answer(listener)
    for number in server.signals:
        signal.raise_signal(number)


def with_token(settings: ServerSettings) -> ServerSettings:
    """With a secret, where other machines can reach the server."""
    if settings.token is None and not settings.is_local:
        return replace(settings, token=secrets.token_urlsafe(24))
    return settings


def address(settings: ServerSettings) -> str:
    """Where the page is, with the secret if there is one."""
    host = settings.host
    with_host = ipaddress.ip_address(host) if is_address(host) else None
    if with_host is not None and with_host.is_unspecified:
        host = socket.gethostname()
    elif with_host is not None and with_host.version == 6:
        host = f"[{host}]"
    secret = f"?token={settings.token}" if settings.token else ""
    return f"http://{host}:{settings.port}/{secret}"


class Server(uvicorn.Server):
    """Calls `ready` when it answers, and leaves the signals that have stopped it to its caller."""

    def __init__(self, app: FastAPI, ready: Callable[[], None]) -> None:
        super().__init__(_config(app))
        self._app, self._ready = app, ready
        self.signals: list[int] = []

    def answer(self, listener: socket.socket) -> None:
        """Until a signal comes, or `should_exit` is set."""
        asyncio.run(self._answer(listener))

    async def _answer(self, listener: socket.socket) -> None:
        async with self._app.router.lifespan_context(self._app):  # uvicorn would print the trace of an error
            await self.serve(sockets=[listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        can_set = threading.current_thread() is threading.main_thread()
        wanted = [each for each in _SIGNALS if can_set and signal.getsignal(each) is not signal.SIG_IGN]  # as by nohup
        before = {number: signal.signal(number, self._stop) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: object) -> None:
        """The first signal lets requests end; the second one does not wait for them."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self.signals = self.signals or [number]


def _config(app: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,  # addresses may hold the secret
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=_SECONDS_TO_END,
    )


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise InputError(f"host is {host!r}; expected a name or an address of this machine ({reason(error)})") from None
    with socket.socket(family, kind, protocol) as listener:
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(place)
            listener.listen()
        except (OSError, OverflowError) as error:
            raise InputError(
                f"the server cannot listen at port {port} of {host}: {reason(error)}; end what uses it, or choose "
                "another one, such as --port 8001"
            ) from None
        yield listener
