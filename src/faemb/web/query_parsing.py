"""The query of a request: an image of the collection, or a photograph that was sent now or before."""

import asyncio
import os
import re
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
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
from faemb.web.indexed_files import write_hashed
from faemb.web.problems import Problem, later, sentence
from faemb.web.queries import Query, Question, Source
from faemb.web.service import Service

KEY = {"pattern": "^(image-[0-9]{1,18}|upload-[0-9a-f]{1,64})$"}
"""Form of the key of a query, for the OpenAPI document; `question_of` explains what is wrong with others."""
_SUFFIX = re.compile(r"\.\w{1,8}", re.ASCII)


async def question_of(service: Service, key: str) -> Question:
    """The query that an earlier answer has named so."""
    kind, _, id = key.partition("-")
    if kind == "upload":
        query = service.queries.get(id)
        if query is None:
            raise Problem(404, "The server does not have this photograph any more; send it again.")
        source = Source(query.name, query.file, query.id, is_indexed=False)
        return Question(key, source, query.features, query.features.plain.image_size)
    if kind == "image" and id.isascii() and id.isdigit() and len(id) < 19:
        return await _stored(service, int(id))
    raise Problem(422, f"query is {key[:80]!r}; expected image-NUMBER, or upload-HASH of an earlier answer.")


async def question_from(service: Service, upload: UploadFile) -> Question:
    """A photograph that was sent: stored, and described by a worker."""
    name = os.path.basename(upload.filename or "") or "photograph"
    file = service.queries.folder / (uuid.uuid4().hex + _suffix(upload))
    writing = asyncio.ensure_future(asyncio.to_thread(write_hashed, upload.file, file))
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
    return await _enlarged(service, replace(question, features=features, box=region))


async def when_turned(service: Service, question: Question) -> Question:
    """The question with the image, or the region of it, also turned by 90, 180 and 270 degrees."""
    found = await _from_file(service, question.source, question.box, turned=True)
    return replace(question, features=question.features.and_turned(found.turned), turned=True)


async def described(
    service: Service, file: Path, name: str, box: Region = None, *, turned: bool = False
) -> QueryFeatures:
    try:
        return (await asyncio.wrap_future(service.describers.features(file, box, turned=turned))).features()
    except WorkerDied as error:
        raise later(f"{name} cannot be used now: {error}; try again.") from error
    except TaskFailed as error:
        raise Problem(422, f"{name} cannot be used: {error}.") from error
    except (InputError, FormatError) as error:
        words = str(about(name, str(error).replace(str(file), name)))
        raise Problem(413 if isinstance(error, LimitError) else 422, sentence(words)) from error


async def _from_file(service: Service, source: Source, box: Region = None, *, turned: bool = False) -> QueryFeatures:
    """Features of the content itself, extracted anew unless one of the last questions needed them too."""
    what = source.content, box, turned
    features = service.queries.described(what)
    if features is None:
        async with _file_of(service, source) as file:
            features = await described(service, file, source.name, box, turned=turned)
        service.queries.keep_described(what, features)
    return features


@asynccontextmanager
async def _file_of(service: Service, source: Source) -> AsyncIterator[Path]:
    """A file with this content; a Problem if that of an image has changed since it was indexed."""
    if source.is_indexed:
        async with service.files.copy(source.file, source.content) as copy:
            yield copy
    else:
        yield source.file


async def _enlarged(service: Service, question: Question) -> Question:
    """Described at twice its size too, if it has few features and its file can be used."""
    if not is_enlarged(question.source.file, question.features.plain):
        return question
    with suppress(Problem):
        return replace(question, features=await _from_file(service, question.source, question.box))
    return question


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
    source = Source(path.name, path, entry.hash, is_indexed=True)
    features = await _from_file(service, source) if stored is None else query_features(stored)
    size = (entry.width, entry.height) if entry.width and entry.height else features.plain.image_size
    return await _enlarged(service, Question(f"image-{id}", source, features, size))


def entry_of(photos: Collection, id: int) -> Entry:
    entry = photos.entry(id)
    if entry is None:
        raise Problem(404, f"There is no image {id} in this collection; it may have been removed.")
    return entry


def _suffix(upload: UploadFile) -> str:
    found = _SUFFIX.fullmatch(os.path.splitext(upload.filename or "")[1])
    return found[0].lower() if found else ""
