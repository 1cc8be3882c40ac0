"""An error that no route has foreseen: its trace goes to the log, the answer is a sentence."""

import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from faemb.web.problems import problem_response

_LOG = logging.getLogger("faemb.web")


class HideFaults:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception:
            if scope["type"] != "http" or begun:
                raise
            _LOG.exception("an unexpected fault, please report it")
            sentence = "The server has met a fault of its own; its log has the details."
            await problem_response(500, sentence)(scope, receive, send)
