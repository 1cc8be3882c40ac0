"""Groups of copies, and of images that show the same thing."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from faemb.collection import Collection, Group
from faemb.collection.file_state import state_at_a_glance
from faemb.web import schema
from faemb.web.comparing import Asked
from faemb.web.jobs import DONE, FAILED
from faemb.web.problems import Problem
from faemb.web.routes.images import facts_of
from faemb.web.routes.jobs import address, told
from faemb.web.service import Service, Shared

router = APIRouter(prefix="/api", tags=["duplicates"])

_LARGEST_NUMBER = 2**63 - 1
_STARTED = {"model": schema.Job, "description": "The job that looks for them; ask again when it has ended."}


@router.get("/duplicates", responses={202: _STARTED}, response_model=schema.GroupPage)
async def duplicates(
    service: Shared,
    same_thing: Annotated[bool, Query(description="Also join different photographs of the same thing.")] = False,
    mirrored: Annotated[bool, Query(description="Also find copies that are mirrored from left to right.")] = False,
    offset: Annotated[int, Query(ge=0, le=_LARGEST_NUMBER)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 30,
) -> schema.GroupPage | JSONResponse:
    """Groups of images that were made from one picture, the surest first.

    They are kept while the collection stays the same. Where they are not known yet, this starts a job.
    """
    state = await service.looking.do(lambda photos: photos.state())
    comparison = await service.comparisons.get(Asked(same_thing, mirrored), state)
    job = comparison.job
    if job.state == FAILED and job.outcome is not None:
        raise Problem(409, job.outcome.result)
    if job.state != DONE:
        return JSONResponse(told(job).model_dump(), 202, {"Location": address(job)})
    (groups,) = comparison.found
    page = groups[offset : offset + limit]
    shown = await service.looking.do(lambda photos: [_shown(service, photos, group) for group in page])
    return schema.GroupPage(groups=shown, total=len(groups), note=groups.note)


def _shown(service: Service, photos: Collection, group: Group) -> schema.Group:
    dates = service.listing.dates
    images = [
        schema.GroupedImage(
            **facts_of(photos, entry, path, dates), bytes=entry.bytes, state=state_at_a_glance(path, entry)
        )
        for path in group.paths
        if (entry := photos.entry(path)) is not None  # some may have been removed just now
    ]
    return schema.Group(kind=group.kind, reason=group.reason, similarity=group.similarity, images=images)
