"""The page: its HTML, and the style sheets, scripts and icons that it loads."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

import faemb.pages
import faemb.web
from faemb.pages.document import render
from faemb.pages.reasons import CLAIMS
from faemb.pages.side_by_side import COLOURS, MOST_LINES
from faemb.web.service import Shared

router = APIRouter(include_in_schema=False)

_OWN = Path(str(files(faemb.web))) / "static"
_SHARED = Path(str(files(faemb.pages))) / "templates"
SHARED_STYLES = ("base.css", "contact_sheet.css", "joined.css")
"""Style sheets of the pages that are written as files: both look the same."""
_ASK_AGAIN = {"Cache-Control": "no-cache"}
"""Kept by browsers, and used if the server says that it has not changed."""


@router.get("/")
async def page(service: Shared) -> HTMLResponse:
    """Every view: scripts show the one that the address names."""
    settings = service.settings
    html = render(
        "page.html",
        collection=settings.collection.stem,
        writable=settings.writable,
        upright=service.describers.upright,
        most_bytes=settings.most_bytes,
        **_same_for_all(),
    )
    return HTMLResponse(html, headers=_ASK_AGAIN)


@router.get("/static/{path:path}")
async def static(request: Request, path: str) -> Response:
    folder = _SHARED if path in SHARED_STYLES else _OWN
    response = await StaticFiles(directory=folder).get_response(path, request.scope)
    response.headers.update(_ASK_AGAIN)
    return response


@router.get("/favicon.ico")
async def favicon(request: Request) -> Response:
    """Asked for by browsers that do not read the link in the page."""
    return await static(request, "favicon.svg")


@cache
def _same_for_all() -> Mapping[str, object]:
    return {
        "styles": [*SHARED_STYLES, *(f"css/{style.name}" for style in sorted((_OWN / "css").glob("*.css")))],
        "modules": [f"js/{module.name}" for module in sorted((_OWN / "js").glob("*.js"))],
        "colours": COLOURS,
        "most_lines": MOST_LINES,
        "claims": CLAIMS,
    }
