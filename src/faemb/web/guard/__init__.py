"""What surrounds every request: who may ask, and how much a request may cost. Plain ASGI, apart from the routes.

The first guard is the outermost one:

    headers    of every answer: nothing of other hosts, no frames, no guessing of types
    hosts      names under which the server is reached (DNS rebinding)
    tokens     the secret, where there is one
    origins    pages of other sites cannot use the API
    costs      bytes, time, number of requests; work for clients that have gone is given up
    faults     an unforeseen error is logged, and answered without its trace
    headers    last, `AnswerHeads`: HEAD is answered as GET, without the body
"""

from fastapi import FastAPI

from faemb.web.guard.costs import BoundCosts
from faemb.web.guard.faults import HideFaults
from faemb.web.guard.headers import AddHeaders, AnswerHeads
from faemb.web.guard.hosts import CheckHost
from faemb.web.guard.origins import CheckOrigin
from faemb.web.guard.tokens import CheckToken
from faemb.web.settings import ServerSettings


def guard(app: FastAPI, settings: ServerSettings) -> None:
    app.add_middleware(AnswerHeads)  # the one that is added last is the outermost
    app.add_middleware(HideFaults)
    app.add_middleware(BoundCosts, settings=settings)
    app.add_middleware(CheckOrigin)
    app.add_middleware(CheckToken, settings=settings)
    app.add_middleware(CheckHost, settings=settings)
    app.add_middleware(AddHeaders)
