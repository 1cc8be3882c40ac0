"""Groups of copies, and of images that show the same thing."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from faemb.collection import Collection
from faemb.collection.file_state import state_at_a_glance
from faemb.web import schema
from faemb.web.comparing import ComparisonOptions
from faemb.web.found_groups import Together
from faemb.web.jobs import DONE, FAILED
from faemb.web.problems import Problem, later
from faemb.web.routes.images import facts_of
from faemb.web.routes.jobs import address, job_answer
from faemb.web.service import Service, Shared

router = APIRouter(prefix="/api", tags=["duplicates"])

_LARGEST_NUMBER = 2**63 - 1
_STARTED = {"model": schema.Job, "description": "The job that looks for them; ask again when it has ended."}


@router.get("/duplicates", responses={202: _STARTED, **schema.AWAY}, response_model=schema.GroupPage)
async def duplicates(
    service: Shared,
    same_thing: Annotated[bool, Query(description="Also join different photographs of the same thing.")] = False,
    mirrored: Annotated[bool, Query(description="Also find copies that are mirrored from left to right.")] = False,
    again: Annotated[bool, Query(description="Compare the images again if the collection has changed since.")] = False,
    offset: Annotated[int, Query(ge=0, le=_LARGEST_NUMBER)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 30,
) -> schema.GroupPage | JSONResponse:
    """Groups of images that were made from one picture, the surest first.

    Where they are not known yet, this starts a job. They are kept when the collection changes: without the images that
    have left or changed since, and without new ones, until a request asks for a comparison `again`. A job that has
    failed is answered once with its error; the next request starts another.
    """
    state = await service.looking.do(lambda photos: photos.state())
    comparison = await service.comparisons.get(ComparisonOptions(same_thing, mirrored), state, again=again)
    job = comparison.job
    if job.state == FAILED and job.outcome is not None:
        raise later(job.outcome.result) if job.outcome.passes else Problem(409, job.outcome.result)
    if job.state != DONE:
        return JSONResponse(job_answer(job).model_dump(), 202, {"Location": address(job)})
    (found,) = comparison.found

    def read(photos: Collection) -> schema.GroupPage:
        groups = found.remaining(photos)
        shown = [_shown(service, photos, together) for together in groups[offset : offset + limit]]
        return schema.GroupPage(
            groups=shown, total=len(groups), note=found.note, outdated=photos.state() != comparison.state
        )

    return await service.looking.do(read)


def _shown(service: Service, photos: Collection, together: Together) -> schema.Group:
    dates, group = service.listing.dates, together.group
    images = []
    for entry in together.entries:
        path = photos.layout.path_of(entry.path)
        images.append(
            schema.GroupedImage(
                **facts_of(photos, entry, path, dates), bytes=entry.bytes, state=state_at_a_glance(path, entry)
            )
        )
    return schema.Group(kind=group.kind, reason=group.reason, similarity=group.similarity, images=images)
