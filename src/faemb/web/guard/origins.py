"""Pages of other sites cannot use the API through the browser of a visitor.

Browsers send `Origin` with what changes something, and `Sec-Fetch-Site` with every request to this machine or by TLS.
Programs such as curl send neither; they act for themselves, not for a page.
"""

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from faemb.web.problems import problem_response

_READING = ("GET", "HEAD")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class CheckOrigin:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _matters(scope) and not _is_same(Headers(scope=scope)):
            sentence = "A page of another site has sent this request; only pages of this server may."
            await problem_response(403, sentence)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _matters(scope: Scope) -> bool:
    """Links of other sites may lead to pages, not into the API, where also reading costs work."""
    return scope["method"] not in _READING or scope["path"].startswith("/api/")


def _is_same(headers: Headers) -> bool:
    origin = headers.get("origin")
    if origin is not None:
        scheme = origin.partition("://")[0]
        return _place(origin) == _place(f"{scheme}://{headers.get('host', '')}") is not None
    return headers.get("sec-fetch-site", "none") in ("same-origin", "none")


def _place(origin: str) -> tuple[str, int | None] | None:
    """Host and port; the scheme, which a proxy may change, is that of the origin on both sides."""
    try:
        parts = urlsplit(origin)
        return (parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme])
    except (KeyError, ValueError):
        return None
