"""The query of a request: an image of the collection, or a photograph that was sent now or before."""

import asyncio
import hashlib
import os
import re
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from starlette.datastructures import UploadFile

from faemb.collection import Collection
from faemb.collection.catalogue import Entry
from faemb.collection.queries import QueryFeatures, is_enlarged, query_features
from faemb.errors import FormatError, InputError, LimitError, about
from faemb.features import LocalFeatures
from faemb.features.region import checked_box
from faemb.runtime.parallel import TaskFailed, WorkerDied
from faemb.web.describing import Region
from faemb.web.problems import Problem, sentence
from faemb.web.queries import Query, Question
from faemb.web.service import Service

KEY = {"pattern": "^(image-[0-9]{1,18}|upload-[0-9a-f]{1,64})$"}
"""Form of the key of a query, for the OpenAPI document; `question_of` explains what is wrong with others."""
_SUFFIX = re.compile(r"\.\w{1,8}", re.ASCII)
_BLOCK = 1 << 20


async def question_of(service: Service, key: str) -> Question:
    """The query that an earlier answer has named so."""
    kind, _, id = key.partition("-")
    if kind == "upload":
        query = service.queries.get(id)
        if query is None:
            raise Problem(404, "The server does not have this photograph any more; send it again.")
        return Question(key, query.name, query.file, query.features, query.features.plain.image_size)
    if kind == "image" and id.isascii() and id.isdigit() and len(id) < 19:
        return await _stored(service, int(id))
    raise Problem(422, f"query is {key[:80]!r}; expected image-NUMBER, or upload-HASH of an earlier answer.")


async def question_from(service: Service, upload: UploadFile) -> Question:
    """A photograph that was sent: stored, and described by a worker."""
    name = os.path.basename(upload.filename or "") or "photograph"
    file = service.queries.folder / (uuid.uuid4().hex + _suffix(upload))
    writing = asyncio.ensure_future(asyncio.to_thread(_write, upload, file))
    try:
        id, size = await asyncio.shield(writing)
        known = service.queries.get(id)
        if known is None:
            features = await described(service, file, name)
            known = service.queries.get(id) or Query(id, name, file, size, features)  # another visitor may have sent it
        service.queries.keep(replace(known, name=name))
    finally:
        if not service.queries.holds(file):
            writing.add_done_callback(lambda _: file.unlink(missing_ok=True))  # a thread may still write it
    return await question_of(service, f"upload-{id}")


async def boxed(service: Service, question: Question, box: Sequence[float]) -> Question:
    """The question for a region of the image alone; a region with few features is described at twice its size too."""
    region = tuple(checked_box(box, question.size))
    features = query_features(question.features.plain.inside(region))
    if is_enlarged(question.file, features.plain):
        with suppress(Problem):  # the file of a stored image may be away
            features = await described(service, question.file, question.name, region)
    return replace(question, features=features, box=region)


async def when_turned(service: Service, question: Question) -> Question:
    """The question with the image, or the region of it, also turned by 90, 180 and 270 degrees."""
    features = await described(service, question.file, question.name, question.box, turned=True)
    return replace(question, features=features)


async def described(
    service: Service, file: Path, name: str, box: Region = None, *, turned: bool = False
) -> QueryFeatures:
    try:
        return (await asyncio.wrap_future(service.describers.features(file, box, turned=turned))).features()
    except (TaskFailed, WorkerDied) as error:
        raise Problem(422, f"{name} cannot be used: {error}.") from error
    except (InputError, FormatError) as error:
        words = str(about(name, str(error).replace(str(file), name)))
        raise Problem(413 if isinstance(error, LimitError) else 422, sentence(words)) from error


async def _stored(service: Service, id: int) -> Question:
    """An image of the collection, by its stored features, or by its file where these are not kept or damaged."""

    def read(photos: Collection) -> tuple[Path, Entry, LocalFeatures | None]:
        entry = entry_of(photos, id)
        path = photos.layout.path_of(entry.path)
        try:
            return path, entry, photos.features(path)
        except (InputError, FormatError):
            return path, entry, None

    path, entry, stored = await service.looking.do(read)
    features = None if stored is None else query_features(stored)
    if features is None or is_enlarged(path, features.plain):
        try:
            features = await described(service, path, path.name)
        except Problem:  # the file may be away
            if features is None:
                raise
    size = (entry.width, entry.height) if entry.width and entry.height else features.plain.image_size
    return Question(f"image-{id}", path.name, path, features, size)


def entry_of(photos: Collection, id: int) -> Entry:
    entry = photos.entry(id)
    if entry is None:
        raise Problem(404, f"There is no image {id} in this collection; it may have been removed.")
    return entry


def _suffix(upload: UploadFile) -> str:
    found = _SUFFIX.fullmatch(os.path.splitext(upload.filename or "")[1])
    return found[0].lower() if found else ""


def _write(upload: UploadFile, path: Path) -> tuple[str, int]:
    """Copy a sent file; hash of its content, and its size."""
    hash, size = hashlib.blake2b(digest_size=16), 0
    with path.open("xb") as file:
        while block := upload.file.read(_BLOCK):
            hash.update(block)
            size += len(block)
            file.write(block)
    return hash.hexdigest(), size
