"""The Host header names this server.

A page of another site can point its own name to 127.0.0.1 once it is open (DNS rebinding): for the browser this server
then belongs to that site. Only the Host header shows that.
"""

import re
import socket

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from faemb.web.problems import problem_response
from faemb.web.settings import ServerSettings, is_address

_HOST = re.compile(
    r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+?))\.?(?::\d{1,5})?", re.ASCII | re.IGNORECASE
)
_LOCAL = ("localhost", "127.0.0.1", "::1")


class CheckHost:
    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app, self._local = app, settings.is_local
        own = () if settings.is_local else (socket.gethostname(), f"{socket.gethostname()}.local")
        self._names = {name.lower() for name in (*_LOCAL, settings.host, *own, *settings.host_names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_known(named := Headers(scope=scope).getlist("host")):
            called = named[0][:80] if named else ""
            sentence = f"This server is not called {called!r}; if it should be, start it with --host-name NAME."
            await problem_response(421, sentence)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _is_known(self, named: list[str]) -> bool:
        match = _HOST.fullmatch(named[0]) if len(named) == 1 else None
        if match is None:
            return False
        name = (match["address"] or match["name"]).lower()
        # Unlike a name, an address cannot be pointed elsewhere.
        return name in self._names or (not self._local and is_address(name))
