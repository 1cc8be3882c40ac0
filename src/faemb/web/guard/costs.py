"""How much requests may cost, so that a flood of them, or a few huge or slow ones, do not take the process down.

    bytes      of one request are counted as they come: one image and a form around it, little without an image
    seconds    in which they must have come
    number     of requests that are worked on or wait for it, and of bytes that all of them hold

The work for a client that has gone is given up: it waits no longer for its turn. What changes the collection goes on.
"""

import asyncio
from contextlib import suppress
from typing import Any, NamedTuple

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from faemb.runtime.limits import in_words
from faemb.web.problems import problem_response
from faemb.web.settings import ServerSettings

_FORM = 1_000_000
"""Bytes of a request without the image."""
_HELD = 8
"""Bytes that all requests hold, as a multiple of the largest image."""
_SECONDS_TO_WAIT = {"Retry-After": "2"}
_GONE: Message = {"type": "http.disconnect"}
_NOTHING: Message = {"type": "http.request", "body": b"", "more_body": False}


class _Refusal(NamedTuple):
    status: int
    sentence: str
    headers: dict[str, str]


_TOO_BUSY = _Refusal(429, "The server has too much to do; ask again in a few seconds.", _SECONDS_TO_WAIT)


class BoundCosts:
    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app, self._settings = app, settings
        self._running = 0
        self._held = _Held(_HELD * settings.most_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _costs_work(scope):
            await self._app(scope, receive, send)
        elif self._running >= self._settings.most_waiting:
            await _refuse(_TOO_BUSY, scope, receive, send)
        else:
            self._running += 1
            try:
                await self._answer(scope, receive, send)
            finally:
                self._running -= 1

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Until the answer is sent, the request is refused, or its client has gone."""
        body = _Body(scope, receive, self._settings, self._held)
        if body.refused.done():
            return await _refuse(body.refused.result(), scope, receive, send)
        work = asyncio.ensure_future(self._app(scope, body.receive, send))
        ends = [asyncio.create_task(body.client_gone())] if _can_be_given_up(scope) else []
        try:
            awaited: list[asyncio.Future[Any]] = [work, body.refused, *ends]
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
            elif body.refused.done():
                await _ended(work)
                await _refuse(body.refused.result(), scope, receive, send)
        finally:
            body.forget()
            await _ended(work, *ends)


class _Held:
    """Bytes of requests that are being answered."""

    def __init__(self, most: int) -> None:
        self.most, self.now = most, 0


class _Body:
    """The body of a request: its messages are passed on as they come, and counted."""

    def __init__(self, scope: Scope, receive: Receive, settings: ServerSettings, held: _Held) -> None:
        headers = Headers(scope=scope)
        with_files = headers.get("content-type", "").lower().startswith("multipart/")
        self._most = _FORM + (settings.most_bytes if with_files else 0)
        self._receive, self._seconds, self._held = receive, settings.body_seconds, held
        loop = asyncio.get_running_loop()
        self._deadline = loop.time() + settings.body_seconds
        self._come = 0
        self._whole, self._gone = asyncio.Event(), asyncio.Event()
        self._is_empty = not ("content-length" in headers or "transfer-encoding" in headers)
        if self._is_empty:
            self._whole.set()
        self.refused: asyncio.Future[_Refusal] = loop.create_future()
        if int(headers.get("content-length", 0)) > self._most:  # digits only, else it would not have come here
            self.refused.set_result(self._too_large())

    async def receive(self) -> Message:
        if self._is_empty:
            self._is_empty = False
            return _NOTHING
        if self._whole.is_set():
            await self._gone.wait()
            return _GONE
        return await self._next()

    async def client_gone(self) -> None:
        """Return when the client has gone after it has sent the whole request."""
        await self._whole.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone.set()

    def forget(self) -> None:
        self._held.now -= self._come
        self._come = 0

    async def _next(self) -> Message:
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            return await self._refuse(_Refusal(408, f"The request has not come within {self._seconds:g} s.", {}))
        come = len(message.get("body", b""))
        self._come += come
        self._held.now += come
        if self._come > self._most:
            return await self._refuse(self._too_large())
        if self._held.now > self._held.most:
            return await self._refuse(_TOO_BUSY)
        if not message.get("more_body"):
            self._whole.set()
        return message

    async def _refuse(self, refusal: _Refusal) -> Message:
        """Wait to be cancelled: an error would be answered by the routes as a fault in the form."""
        if not self.refused.done():
            self.refused.set_result(refusal)
        await asyncio.get_running_loop().create_future()
        return _GONE

    def _too_large(self) -> _Refusal:
        sentence = f"The request is too large: at most {in_words(self._most)} can be sent at a time."
        return _Refusal(413, sentence, {})


def _costs_work(scope: Scope) -> bool:
    """Everything but what is ready to be sent; that is bounded by the number of connections."""
    return scope["method"] not in ("GET", "HEAD") or (
        scope["path"].startswith("/api/") and not scope["path"].endswith("/thumbnail")
    )


def _can_be_given_up(scope: Scope) -> bool:
    return scope["method"] in ("GET", "HEAD") or scope["path"] == "/api/search"


async def _refuse(refusal: _Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    await problem_response(refusal.status, refusal.sentence, refusal.headers)(scope, receive, send)


async def _ended(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
            with suppress(asyncio.CancelledError):
                task.exception()  # nobody waits for it
