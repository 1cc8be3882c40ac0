"""A connection that is closed when its client is idle: after a timeout, or at once if the limit of connections is
reached.

Uvicorn waits for the rest of a request's head, and for a client that does not read its answer, as long as it takes: a
few hundred such clients would occupy all connections that the process may have.
"""

import asyncio
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from faemb.web.guard.headers import HEADERS
from faemb.web.problems import problem_response

MOST = 400
"""Connections at a time; a further one takes the place of the one that was idle for longest. Systems commonly allow a
process 1,024 open files."""
SECONDS = 20.0
"""In which the head of a request must be complete, or a part of an answer taken."""
IDLE_SECONDS = 65
"""After which a connection without requests is closed; proxies close theirs after 60."""
_SAFE = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


class Connection(H11Protocol):
    _timer: asyncio.TimerHandle | None = None
    _left = 0
    """Bytes of answers that the client had not taken when the time began."""
    _idle_since = 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        self._await_request()
        if len(self.connections) > MOST:
            idle = (each for each in self.connections if isinstance(each, Connection) and each.is_idle)
            min(idle, key=lambda each: each._idle_since).transport.abort()  # this one, if all others are at work

    @property
    def is_idle(self) -> bool:
        """No whole request has come that is not answered yet."""
        answered = self.cycle is None or self.cycle.response_complete
        return answered and not self.transport.get_write_buffer_size() and not self.transport.is_closing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._timer is None:
            self._await_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._idle_since = self.loop.time()
        if self.cycle.response_complete and self.transport.get_write_buffer_size():
            self._await_request()

    def send_400_response(self, msg: str) -> None:
        """What came is not HTTP: answered as every other error."""
        answer = problem_response(400, "The request is not HTTP, or its head is too long.")
        headers = [*answer.raw_headers, *_SAFE, (b"connection", b"close")]
        reason = HTTPStatus(400).phrase.encode()
        content = bytes(answer.body)
        for event in (
            h11.Response(status_code=400, headers=headers, reason=reason),
            h11.Data(content),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def _await_request(self) -> None:
        self._stop_waiting()
        self._left = self.transport.get_write_buffer_size()
        self._timer = self.loop.call_later(SECONDS, self._too_late)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_late(self) -> None:
        self._timer = None
        left = self.transport.get_write_buffer_size()
        if self._left and left < self._left:  # the client reads, if slowly
            if left:
                self._await_request()
        else:
            self.transport.abort()
