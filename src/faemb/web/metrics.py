"""Numbers for Prometheus: requests, their time, and what waits."""

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_METHODS = ("GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
UNKNOWN = "other"
"""In place of a path or method that the server does not know: visitors must not be able to make new labels."""


class Metrics:
    """Metrics of one application, in a registry of its own: several applications may run in a process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        which = ("method", "route", "status")
        self.requests = Counter("faemb_requests", "Requests that were answered.", which, registry=self._registry)
        self.seconds = Histogram(
            "faemb_request_seconds",
            "Time from a request's head to the end of its answer.",
            which[:2],
            registry=self._registry,
            buckets=_SECONDS,
        )
        self.in_flight = self._gauge("faemb_requests_in_flight", "Requests that are being answered.")
        self.images = self._gauge("faemb_images", "Images of the collection.")
        self._waiting = Gauge("faemb_waiting", "Tasks that wait for their turn.", ("thread",), registry=self._registry)

    def watch(self, thread: str, waiting: Callable[[], float]) -> None:
        """Report the length of a queue."""
        self._waiting.labels(thread).set_function(waiting)

    def page(self) -> bytes:
        return generate_latest(self._registry)

    def _gauge(self, name: str, meaning: str) -> Gauge:
        return Gauge(name, meaning, registry=self._registry)


class CountRequests:
    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        begun, status = time.perf_counter(), "none"

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            with self._metrics.in_flight.track_inprogress():
                await self._app(scope, receive, sending)
        finally:
            asked = scope["method"] if scope["method"] in _METHODS else UNKNOWN, _template(scope)
            self._metrics.requests.labels(*asked, status).inc()
            self._metrics.seconds.labels(*asked).observe(time.perf_counter() - begun)


def _template(scope: Scope) -> str:
    """The path of a route with the names of its parameters, such as /api/images/{id}."""
    return getattr(scope.get("route"), "path", UNKNOWN)
