"""The application: routes, the page, and what surrounds every request."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

import faemb
from faemb.web import schema
from faemb.web.documentation import correct_error_types
from faemb.web.guard import guard
from faemb.web.metrics import CountRequests, Metrics
from faemb.web.problems import MEDIA_TYPE, explain_errors
from faemb.web.routes import about, changes, duplicates, images, jobs, page, search
from faemb.web.service import running
from faemb.web.settings import ServerSettings

_ROUTERS = (search.router, images.router, changes.router, jobs.router, duplicates.router, about.router, page.router)
_PROBLEM = {"model": schema.Problem, "content": {MEDIA_TYPE: {}}}


def create_app(settings: ServerSettings) -> FastAPI:
    """The application for a collection, which is open while the application runs."""

    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with running(settings) as service:
            app.state.service = service
            metrics.watch("searching", lambda: service.searching.waiting)
            metrics.watch("looking", lambda: service.looking.waiting)
            if service.changes is not None:
                metrics.watch("changing", service.changes.waiting)
            yield

    app = FastAPI(
        title="faemb",
        summary="Find the images that show the same thing.",
        version=faemb.__version__,
        lifespan=lifespan,
        docs_url=None,  # its scripts come from other hosts
        redoc_url=None,
        redirect_slashes=False,  # behind a proxy it would lead to http
        responses={"4XX": {"description": "What is wrong, in a sentence.", **_PROBLEM}},
    )
    explain_errors(app)
    for router in _ROUTERS:
        app.include_router(router)
    app.state.metrics = metrics
    correct_error_types(app)
    guard(app, settings)
    app.add_middleware(CountRequests, metrics=metrics)
    app.openapi()  # prepares all routes: otherwise the first visitor would wait for it, beside threads that search
    return app
