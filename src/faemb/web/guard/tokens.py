"""The secret that every request must carry, where the server has one: `Authorization: Bearer SECRET`, or a cookie.

Opening `/?token=SECRET` sets the cookie and leads on to the address without the secret.
"""

import hmac
from urllib.parse import parse_qsl, quote, unquote, urlencode

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from faemb.pages.document import render
from faemb.web.problems import problem_response
from faemb.web.settings import ServerSettings

_OPEN = ("/healthz", "/static/")
"""What holds nothing of the collection: the second one is the style of the page that asks for the secret."""
_ASKED = "This server needs a token: send it as the header Authorization: Bearer TOKEN."
_KEPT_SECONDS = 30 * 24 * 3600


class CheckToken:
    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app, self._secret = app, (settings.token or "").encode()
        self._cookie = f"faemb-{settings.port}"  # cookies are shared by all ports of a host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._secret or scope["path"].startswith(_OPEN):
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        given = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token")
        for_page = scope["method"] == "GET" and not scope["path"].startswith("/api/")
        if for_page and given is not None and self._is_right(given):
            response = self._enter(scope, headers)
        elif self._carries(headers):
            return await self._app(scope, receive, send)
        elif for_page and "text/html" in headers.get("accept", ""):
            response = HTMLResponse(render("token.html", wrong=given is not None), 401)
        else:
            response = problem_response(401, _ASKED, {"WWW-Authenticate": "Bearer"})
        await response(scope, receive, send)

    def _carries(self, headers: Headers) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._is_right(given.strip()):
            return True
        kept = cookie_parser(headers.get("cookie", "")).get(self._cookie)
        return kept is not None and self._is_right(unquote(kept))

    def _is_right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._secret)

    def _enter(self, scope: Scope, headers: Headers) -> Response:
        """Lead on to the same address without the secret, which would stay in the history and in bookmarks."""
        given = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        others = [(name, value) for name, value in given if name != "token"]
        address = "/" + quote(scope["path"].strip("/")) + ("?" + urlencode(others) if others else "")
        response = RedirectResponse(address, 303)
        response.set_cookie(
            self._cookie,
            quote(self._secret, safe=""),
            max_age=_KEPT_SECONDS,
            httponly=True,
            samesite="strict",
            secure=headers.get("x-forwarded-proto") == "https",
        )
        return response
