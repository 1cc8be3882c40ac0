"""Images of the collection: lists, facts, thumbnails, pictures, files, features."""

import asyncio
import os
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from io import BufferedIOBase
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response, StreamingResponse

from faemb.collection import Collection
from faemb.collection.catalogue import Entry
from faemb.collection.thumbnails import LARGEST_THUMBNAIL
from faemb.errors import FaembError
from faemb.features.files.npz import write_npz
from faemb.runtime.parallel import TaskFailed, WorkerDied
from faemb.runtime.paths_and_urls import Url
from faemb.web import schema
from faemb.web.documentation import DOWNLOAD, JPEG
from faemb.web.indexed_files import open_unchanged
from faemb.web.listing import Dates, Filter
from faemb.web.problems import Problem, later, text
from faemb.web.query_parsing import KEY, entry_of, question_of
from faemb.web.service import Service, Shared

router = APIRouter(prefix="/api", tags=["images"], responses=schema.AWAY)

_LARGEST_NUMBER = 2**63 - 1
_MOST = 500
SIDE = 1600
"""Longer side of the pictures that the page shows."""

Id = Annotated[schema.Number, Path(description="Number of the image.")]
_BLOCK = 1 << 20
_BYTES = "application/octet-stream"
_TO_BE_SAVED = {"Content-Disposition": "attachment"}
"""A file that was indexed is never shown as a page of this server."""
_FOR_A_DAY = {"Cache-Control": "private, max-age=86400"}
_NOT_KEPT = {"Cache-Control": "private, no-cache"}
Version = Annotated[
    str, Query(max_length=64, description="`content` of the image. With it, browsers keep the answer for a day.")
]
"""The number of an image stays the same when its file changes: only an address that names the content may be kept."""


@router.get("/images")
async def images(
    service: Shared,
    folder: Annotated[str, Query(description="Only images in this folder and below it.")] = "",
    name: Annotated[str, Query(description="Only images whose file name contains this.")] = "",
    since: Annotated[schema.Day | None, Query(description="Only images of this day and later.")] = None,
    until: Annotated[schema.Day | None, Query(description="Only images of this day and earlier.")] = None,
    order: Annotated[
        Literal["name", "date"], Query(description="By folder and name, or by date, the newest first.")
    ] = "name",
    offset: Annotated[int, Query(ge=0, le=_LARGEST_NUMBER)] = 0,
    limit: Annotated[int, Query(ge=1, le=_MOST)] = 60,
) -> schema.Page:
    """Images by folder and name, or by date."""

    def read(photos: Collection) -> schema.Page:
        filter = Filter(folder, name, since, until)
        fitting = service.listing.fitting(photos, filter, newest_first=order == "date")
        entries = [photos.entry(each.id) for each in fitting[offset : offset + limit]]
        shown = [image_of(photos, entry, service.listing.dates) for entry in entries if entry]
        return schema.Page(images=shown, total=len(fitting))

    return await service.looking.do(read)


@router.get("/folders")
async def folders(service: Shared) -> schema.Folders:
    """All folders with images, and how many."""
    found = await service.looking.do(service.listing.folders)
    return schema.Folders(folders=[schema.Folder(folder=name, images=count) for name, count in found.items()])


@router.get("/images/{id}")
async def image(service: Shared, id: Id) -> schema.ImageFacts:
    """Facts about an image."""

    def read(photos: Collection) -> schema.ImageFacts:
        entry = entry_of(photos, id)
        path = photos.layout.path_of(entry.path)
        return schema.ImageFacts(
            **facts_of(photos, entry, path, service.listing.dates),
            bytes=entry.bytes,
            features=entry.features,
            available=isinstance(path, Url) or path.is_file(),
        )

    return await service.looking.do(read)


@router.get("/images/{id}/thumbnail", response_class=Response, responses=JPEG)
async def thumbnail(service: Shared, id: Id, v: Version = "") -> Response:
    """A small JPEG, without metadata."""

    def read(photos: Collection) -> tuple[FilePath, str, bytes | None]:
        kept = photos.stored_thumbnail(entry_of(photos, id))
        return *place_of(photos, id), None if kept is None else kept.jpeg

    path, hash, jpeg = await service.looking.do(read)
    return _jpeg(jpeg or await _indexed_picture(service, path, hash, LARGEST_THUMBNAIL), is_kept=bool(v))


@router.get("/images/{id}/file", response_class=Response, responses=DOWNLOAD)
async def file(service: Shared, id: Id) -> Response:
    """The file itself, if it is still the one that was indexed."""
    path, hash = await service.looking.do(lambda photos: place_of(photos, id))
    content = await asyncio.to_thread(open_unchanged, path, hash)
    headers = _NOT_KEPT | _TO_BE_SAVED | {"Content-Length": str(content.seek(0, os.SEEK_END))}
    return StreamingResponse(_blocks(content), media_type=_BYTES, headers=headers)


@router.get("/images/{id}/features", response_class=Response, responses=DOWNLOAD)
async def features(service: Shared, id: Id) -> Response:
    """The stored local features, as the .npz file that `faemb features` writes."""

    def read(photos: Collection) -> bytes:
        path, hash = place_of(photos, id)
        with tempfile.TemporaryDirectory() as folder:
            out = FilePath(folder) / "features.npz"
            write_npz(out, photos.features(path), image_hash=hash)
            return out.read_bytes()

    content = await service.looking.do(read)
    return _download(content)


@router.get("/pictures/{query}", response_class=Response, responses=JPEG)
async def picture(
    service: Shared,
    query: Annotated[str, Path(description="image-ID, or the key of an earlier answer.", json_schema_extra=KEY)],
    v: Version = "",
) -> Response:
    """A JPEG of at most 1,600 pixels, upright and without metadata: of an image, or of a photograph that was sent.

    Of an image whose file is not there or has changed, it is the stored thumbnail, if there is one.
    """
    if query.startswith("image-"):
        id = query.removeprefix("image-")
        if not (id.isascii() and id.isdigit() and len(id) < 19):
            raise Problem(422, f"{query[:80]!r} is no image; expected image-NUMBER.")
        return await _picture_as_indexed(service, int(id), is_kept=bool(v))
    asked = await question_of(service, query)
    shown = await _picture(service, asked.source.file, asked.source.name, SIDE)
    return _jpeg(shown, is_kept=True)  # its key is a hash of its content


async def _picture_as_indexed(service: Service, id: int, *, is_kept: bool) -> Response:
    path, hash = await service.looking.do(lambda photos: place_of(photos, id))
    try:
        return _jpeg(await _indexed_picture(service, path, hash, SIDE), is_kept=is_kept)
    except Problem:
        kept = await service.looking.do(lambda photos: photos.stored_thumbnail(entry_of(photos, id)))
        if kept is None:
            raise
        return _jpeg(kept.jpeg, is_kept=False)  # the file may come back


def image_of(photos: Collection, entry: Entry, dates: Dates) -> schema.Image:
    return schema.Image(**facts_of(photos, entry, photos.layout.path_of(entry.path), dates))


def facts_of(photos: Collection, entry: Entry, path: FilePath, dates: Dates) -> dict[str, Any]:
    """The fields of an image, for the models that have more."""
    changed = datetime.fromtimestamp(entry.changed / 1e9, UTC)
    dated = dates.of(photos, entry.hash, entry.changed)
    return {
        "id": entry.id,
        "name": text(path.name),
        "folder": text(path.parent),
        "content": entry.hash[:16],
        "width": entry.width,
        "height": entry.height,
        "changed": changed.isoformat(timespec="seconds"),
        "date": dated.date.isoformat(timespec="seconds"),
        "taken": dated.taken,
    }


def place_of(photos: Collection, id: int) -> tuple[FilePath, str]:
    """The path of an image, and the hash that its file had when it was indexed."""
    entry = entry_of(photos, id)
    return photos.layout.path_of(entry.path), entry.hash


def _blocks(file: BufferedIOBase) -> Iterator[bytes]:
    with file:
        file.seek(0)
        while block := file.read(_BLOCK):
            yield block


async def _indexed_picture(service: Service, path: FilePath, hash: str, side: int) -> bytes:
    async with service.files.picture(path, hash) as copy:
        return await _picture(service, copy, path.name, side)


async def _picture(service: Service, file: FilePath, name: str, side: int) -> bytes:
    try:
        return await asyncio.wrap_future(service.describers.picture(file, side))
    except WorkerDied as error:
        raise later(f"The file {name} cannot be shown now: {error}; try again.") from error
    except (FaembError, TaskFailed) as error:
        raise Problem(404, f"The file {name} cannot be shown: {str(error).replace(str(file), name)}.") from error


def _jpeg(content: bytes, *, is_kept: bool) -> Response:
    return Response(content, media_type="image/jpeg", headers=_FOR_A_DAY if is_kept else _NOT_KEPT)


def _download(content: bytes) -> Response:
    return Response(content, media_type=_BYTES, headers=_TO_BE_SAVED)
