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
        given = dict(_fields_of(scope)).get("token")
        for_page = scope["method"] == "GET" and not scope["path"].startswith("/api/")
        if for_page and given is not None and self._is_right(given):
            response = self._enter(scope, headers)
        elif self._carries(headers):
            return await self._app(scope, receive, send)
        elif for_page and "text/html" in headers.get("accept", ""):
            response = self._ask(scope, wrong=given is not None)
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

    def _ask(self, scope: Scope, *, wrong: bool) -> Response:
        """A page whose form leads to the address that was asked for, so that one that was shared is not lost."""
        return HTMLResponse(render("token.html", wrong=wrong, path=_path_of(scope), fields=_other_fields(scope)), 401)

    def _enter(self, scope: Scope, headers: Headers) -> Response:
        """Lead on to the same address without the secret, which would stay in the history and in bookmarks."""
        others = _other_fields(scope)
        response = RedirectResponse(_path_of(scope) + ("?" + urlencode(others) if others else ""), 303)
        response.set_cookie(
            self._cookie,
            quote(self._secret, safe=""),
            max_age=_KEPT_SECONDS,
            httponly=True,
            samesite="strict",
            secure=headers.get("x-forwarded-proto") == "https",
        )
        return response


def _fields_of(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)


def _other_fields(scope: Scope) -> list[tuple[str, str]]:
    """Those beside the token."""
    return [(name, value) for name, value in _fields_of(scope) if name != "token"]


def _path_of(scope: Scope) -> str:
    """With one slash at its beginning: two would lead to another host."""
    return "/" + quote(scope["path"].strip("/"))
