"""About the server: what it serves, whether it is there, its numbers, and its API as a page."""

import os

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

import faemb
from faemb.collection import Collection
from faemb.pages.document import render
from faemb.web import schema
from faemb.web.documentation import operations
from faemb.web.problems import sentence, text
from faemb.web.service import Shared

router = APIRouter(tags=["about"])


@router.get("/api/info")
async def info(service: Shared) -> schema.Info:
    """What the collection holds, how it was made, and what visitors may do."""
    settings = service.settings

    def read(photos: Collection) -> schema.Info:
        known = photos.info()
        return schema.Info(
            name=text(settings.collection.stem),
            images=known.images,
            searchable=known.searchable,
            without_features=known.without_features,
            waiting=known.waiting,
            unreadable=[schema.Unusable(name=text(path), reason=text(why)) for path, why in known.unreadable.items()],
            folders=[text(folder) for folder in known.folders],
            folders_to_add=[text(os.path.abspath(folder)) for folder in settings.folders],
            bytes=known.bytes,
            encoder=known.encoder,
            extractor=known.extractor,
            dimension=known.dimension,
            index=known.index,
            index_in_use=known.index_in_use,
            keeps_features=known.keeps_features,
            parts=known.parts,
            learned_from=known.learned_from,
            relearning_is_due=known.relearning_is_due,
            model_fault=None if known.model_fault is None else text(sentence(known.model_fault)),
            writable=settings.writable,
            most_bytes=settings.most_bytes,
            version=faemb.__version__,
        )

    return await service.looking.do(read)


@router.get("/healthz")
async def health() -> schema.Health:
    """Whether the server answers."""
    return schema.Health()


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request, service: Shared) -> Response:
    """Numbers for Prometheus."""
    numbers = request.app.state.metrics
    numbers.images.set(await service.looking.do(lambda photos: len(service.listing.images(photos))))
    return Response(numbers.page(), media_type=CONTENT_TYPE_LATEST)


@router.get("/api", include_in_schema=False)
async def api(request: Request) -> HTMLResponse:
    """The API, from its OpenAPI document."""
    document = request.app.openapi()
    return HTMLResponse(render("api.html", title=document["info"]["title"], operations=operations(document)))
