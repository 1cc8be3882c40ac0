"""Images are added and removed, and removals undone; on servers that may change their collection."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import APIRouter, File, Path, Response, UploadFile
from fastapi.responses import JSONResponse
from starlette.datastructures import UploadFile as Upload

from faemb.collection import Collection
from faemb.errors import Fault, about
from faemb.runtime.limits import in_words
from faemb.web import schema
from faemb.web.changing import Added
from faemb.web.problems import problem_response
from faemb.web.query_parsing import entry_of
from faemb.web.receiving import Coming, prepare, receive, safe_name
from faemb.web.routes.images import Id, image_of
from faemb.web.routes.jobs import unusable
from faemb.web.service import Service, Shared, Writable

_LATER = {
    "model": schema.Problem,
    "description": "Another change is running, this server is stopping, or the vector server does not answer.",
}
_NO_ROOM = {"model": schema.Problem, "description": "The files cannot be stored."}
router = APIRouter(prefix="/api", tags=["changes"], responses={503: _LATER})


_KNOWN = {"model": schema.Added, "description": "Nothing was added: the collection has all of these contents already."}
_NOT_ADDED = {
    "model": schema.NotAdded | schema.Problem,
    "description": "Nothing was added and some files cannot be used, or the request is malformed.",
}


@router.post(
    "/images",
    status_code=201,
    response_model=schema.Added,
    responses={200: _KNOWN, 422: _NOT_ADDED, 507: _NO_ROOM},
)
async def add(
    service: Shared,
    changes: Writable,
    response: Response,
    files: Annotated[list[UploadFile], File(min_length=1, description="Images to add.")],
) -> schema.Added | JSONResponse:
    """Add images. The answer is sent after they are stored; `failed` lists each file that cannot be used, with the
    reason.

    201 if at least one was added, 200 if the collection had all of them, 422 if none was added and some cannot be used.
    """
    most = service.settings.most_bytes
    large = [file for file in files if file.size is not None and file.size > most]
    async with _received(service, [file for file in files if file not in large]) as coming:
        found = await changes.add(coming)
    for file in large:
        reason = f"It has {in_words(file.size or 0)}; this server takes images of at most {in_words(most)}."
        found.failed.append(Fault(reason, safe_name(file.filename)))
    answer = await service.looking.do(lambda photos: _added(service, photos, found))
    if answer.failed and not answer.added:
        return problem_response(422, _why_nothing(answer.failed), more=answer)
    response.status_code = 201 if answer.added else 200
    return answer


@router.delete("/images/{id}")
async def remove(service: Shared, changes: Writable, id: Id) -> schema.Removed:
    """Remove an image from the collection. Its file is not deleted, and the removal can be undone."""

    def take_out(photos: Collection) -> schema.Removed:
        entry = entry_of(photos, id)
        image = image_of(photos, entry, service.listing.dates)
        path = photos.layout.path_of(entry.path)
        photos.remove([path])
        return schema.Removed(image=image, undo=changes.removals.remember(path, id))

    return await changes.do(take_out)


@router.post("/undo/{token}", status_code=201)
async def undo(
    service: Shared, changes: Writable, token: Annotated[str, Path(description="As a removal has given it.")]
) -> schema.Restored:
    """Bring an image back that was removed, with its number: addresses that name it are valid again."""

    def bring_back(photos: Collection) -> schema.Restored:
        return schema.Restored(image=image_of(photos, changes.removals.undo(photos, token), service.listing.dates))

    return await changes.do(bring_back)


@asynccontextmanager
async def _received(service: Service, files: Sequence[Upload]) -> AsyncIterator[list[Coming]]:
    """The files on the disk, under temporary names that are gone at the end."""
    folder = service.settings.upload_folder
    coming: list[Coming] = []
    try:
        await asyncio.to_thread(prepare, folder)
        for file in files:
            coming.append(await asyncio.to_thread(receive, file.file, safe_name(file.filename), folder))
        yield coming
    finally:
        for each in coming:
            each.file.unlink(missing_ok=True)


def _added(service: Service, photos: Collection, found: Added) -> schema.Added:
    dates = service.listing.dates
    return schema.Added(
        added=[image_of(photos, entry, dates) for entry in found.added],
        known=[image_of(photos, entry, dates) for entry in found.known],
        failed=unusable(found.failed),
    )


def _why_nothing(failed: Sequence[schema.Unusable]) -> str:
    first = about(failed[0].name, failed[0].reason)
    return first if len(failed) == 1 else f"None of the files was added, and {len(failed)} cannot be used. {first}"
