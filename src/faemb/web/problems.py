"""Errors as application/problem+json (RFC 9457): a sentence that a person can act on, never a trace."""

import re
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from faemb.collection.stores.milvus_server import StoreAwayError, StoreFullError
from faemb.errors import (
    FaembError,
    FormatError,
    InputError,
    LimitError,
    LockedError,
    MissingExtraError,
    RefusedError,
    RemoteError,
)
from faemb.web.invalid import in_words

MEDIA_TYPE = "application/problem+json"
_LATER = "10"
"""Seconds after which a server that was away may answer, or another process may have ended its change."""
_LOCKED = "The collection is being changed by another program on the server; try again when that has ended."


class Problem(Exception):
    """An answer other than success; `detail` is the sentence."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def problem_response(
    status: int, detail: str, headers: dict[str, str] | None = None, more: BaseModel | None = None
) -> JSONResponse:
    """`more` has further fields for programs."""
    content = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": text(detail)}
    return JSONResponse(content | (more.model_dump() if more else {}), status, headers, MEDIA_TYPE)


def explain_errors(app: FastAPI) -> None:
    """Answer every error of the routes in this form."""

    @app.exception_handler(Problem)
    async def problem(request: Request, error: Problem) -> JSONResponse:
        return problem_response(error.status, error.detail, error.headers)

    @app.exception_handler(FaembError)
    async def known(request: Request, error: FaembError) -> JSONResponse:
        return await problem(request, problem_of(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return problem_response(422, in_words(error.errors()[0]))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        headers = dict(error.headers or {}) | (_allowed(request) if error.status_code == 405 else {})
        return problem_response(error.status_code, _in_own_words(request, error, headers), headers)


def _in_own_words(request: Request, error: HTTPException, headers: dict[str, str]) -> str:
    if error.detail != HTTPStatus(error.status_code).phrase:
        return sentence(str(error.detail))
    if error.status_code == 404:
        return "There is nothing at this address; /api describes what can be asked for."
    if error.status_code == 405:
        known = headers.get("Allow", headers.get("allow", "other methods"))
        return f"{request.method[:20]} cannot be used at this address; it takes {known}."
    return sentence(error.detail)


def _allowed(request: Request) -> dict[str, str]:
    """All methods of a path of the API; the routes themselves know one of them each."""
    paths: dict[str, Any] = request.app.openapi()["paths"]
    fitting = [path for path in paths if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), request.url.path)]
    methods = sorted({method.upper() for path in fitting for method in paths[path]})
    return {"Allow": ", ".join(methods)} if methods else {}


def problem_of(error: FaembError) -> Problem:
    return later(for_visitors(error)) if passes(error) else Problem(_status(error), for_visitors(error))


def later(detail: str) -> Problem:
    """Of a request that may succeed when it is sent again."""
    return Problem(503, detail, Retry_After=_LATER)


def passes(error: FaembError) -> bool:
    """Whether what was asked for may be possible after a while, although nobody changes anything here."""
    return isinstance(error, StoreAwayError | LockedError | RemoteError) and not isinstance(error, RefusedError)


def _status(error: FaembError) -> int:
    if isinstance(error, LimitError):
        return 413
    if isinstance(error, InputError):
        return 422
    if isinstance(error, FormatError | MissingExtraError):
        return 500
    if isinstance(error, StoreFullError):
        return 507
    return 409


def for_visitors(error: FaembError) -> str:
    """A sentence for those who have no access to the server's folders and commands."""
    return _LOCKED if isinstance(error, LockedError) else sentence(str(error))


def text(name: str | Path) -> str:
    """Bytes of a file name that are not Unicode, which JSON cannot hold, become question marks."""
    return str(name).encode("utf-8", "replace").decode()


def sentence(words: str) -> str:
    """With a capital letter, unless it begins with a name, and a full stop."""
    first, _, rest = words.partition(" ")
    begin = first.capitalize() if first.isalpha() else first
    return f"{begin} {rest}".rstrip(" .") + "."
