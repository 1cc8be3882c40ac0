"""Search, and why an image is a result."""

import time
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Path, Query, UploadFile

from faemb.collection import Collection, Explanation, Hit
from faemb.collection.file_state import state_at_a_glance
from faemb.collection.searching import SearchOptions
from faemb.features import parse_box
from faemb.pages.evidence import reasons
from faemb.runtime.paths_and_urls import Url
from faemb.web import schema
from faemb.web.answer_cache import MOST_HITS, AnswerOptions
from faemb.web.listing import Dates, Filter
from faemb.web.problems import Problem, sentence, text
from faemb.web.queries import Question
from faemb.web.query_parsing import KEY, boxed, entry_of, question_from, question_of, when_turned
from faemb.web.routes.images import facts_of, place_of
from faemb.web.service import Service, Shared

router = APIRouter(prefix="/api", tags=["search"], responses=schema.AWAY)

_PAGE = 60
"""Hits of an answer, if nothing else is asked for."""
_MOST_VERIFIED = 1000
_BOX = "Region of the query in pixels: x1,y1,x2,y2."
_EXPAND = (
    "results: also search with each result whose verdict is same; if there is none, verify 100 more candidates. "
    "With verify=0 and without turned: average (query expansion), augmented (database-side augmentation), scaled "
    "(similarity minus half the mean similarity of a result to its neighbours) or reciprocal (re-ranking of 100 "
    "results by their mutual neighbours)."
)
_TURNED = "Also use the query turned by 90, 180 and 270 degrees: finds what lies on its side."


@router.post("/search")
async def search(
    service: Shared,
    file: Annotated[UploadFile | None, File(description="A photograph to search with.")] = None,
    query: Annotated[
        str | None,
        Form(description="Or the key of a query: image-ID, or that of an earlier answer.", json_schema_extra=KEY),
    ] = None,
    box: Annotated[str | None, Form(description=_BOX)] = None,
    top: Annotated[int, Form(ge=1, le=MOST_HITS, description="Number of hits.")] = _PAGE,
    offset: Annotated[int, Form(ge=0, le=MOST_HITS, description="Number of hits before the first one.")] = 0,
    least_confidence: Annotated[
        float | None, Form(ge=0, le=1, allow_inf_nan=False, description="Omit hits of lower confidence.")
    ] = None,
    verify: Annotated[
        int, Form(ge=0, le=_MOST_VERIFIED, description="Number of images whose features are compared; 0 for none.")
    ] = 100,
    expand: Annotated[schema.Expansion, Form(description=_EXPAND)] = "none",
    turned: Annotated[bool, Form(description=_TURNED)] = False,
    folder: Annotated[str, Form(description="Only images in this folder and below it.")] = "",
    name: Annotated[str, Form(description="Only images whose file name contains this.")] = "",
    since: Annotated[schema.Day | None, Form(description="Only images of this day and later.")] = None,
    until: Annotated[schema.Day | None, Form(description="Only images of this day and earlier.")] = None,
) -> schema.Answer:
    """Find the images that show the same thing as a photograph, or as a region of it.

    The photograph is sent, or it is an image of the collection, or one that was sent before.
    """
    begun = time.perf_counter()
    _require_possible(verify, least_confidence, expand, turned=turned)
    if file is not None and query is None:
        question = await question_from(service, file)
    elif query is not None and file is None:
        question = await question_of(service, query)
    else:
        raise Problem(422, "Give either a file or a query, as a field of a form (multipart/form-data).")
    question = await _as_asked(service, question, box, turned=turned)
    wanted = AnswerOptions(verify, least_confidence, expand, await _among(service, Filter(folder, name, since, until)))

    def find(photos: Collection) -> schema.Answer:
        answer = service.answers.get(photos, question, wanted)
        return schema.Answer(
            query=_asked(question),
            hits=_shown(photos, answer.hits, slice(offset, offset + top), service.listing.dates),
            total=len(answer.hits),
            note=text(sentence(answer.note)) if answer.note else "",
            seconds=round(time.perf_counter() - begun, 4),
        )

    return await service.searching.do(find)


def _require_possible(verify: int, least_confidence: float | None, expand: str, *, turned: bool) -> None:
    """An error for options that exclude each other, before the query is described."""
    if least_confidence is not None and not verify:
        raise Problem(422, "least_confidence needs results with a confidence, and verify is 0; leave one of them out.")
    SearchOptions(MOST_HITS, verify=verify, expand=expand, turned=turned)


@router.get("/explain/{query}/{id}")
async def explain(
    service: Shared,
    query: Annotated[
        str, Path(description="Key of a query: image-ID, or that of an earlier answer.", json_schema_extra=KEY)
    ],
    id: Annotated[schema.Number, Path(description="Number of the image.")],
    box: Annotated[str | None, Query(description=_BOX)] = None,
    turned: Annotated[bool, Query(description=_TURNED)] = False,
) -> schema.Explanation:
    """Why an image is a result of a query: the regions that match, and the transform that they agree with."""
    question = await _as_asked(service, await question_of(service, query), box, turned=turned)

    notes = await _notes_on_picture(service, id)

    def compare(photos: Collection) -> schema.Explanation:
        path, source = place_of(photos, id)[0], question.source
        found = photos.explain_features(
            question.features, path, file=source.file, content=source.content, box=question.box
        )
        return _explained(question, id, found, notes)

    return await service.searching.do(compare)


async def _notes_on_picture(service: Service, id: int) -> list[str]:
    """What is shown in place of the result's file, if that cannot be; of one on another server, nobody asks."""

    def read(photos: Collection) -> tuple[FilePath, str, bool]:
        return *place_of(photos, id), photos.stored_thumbnail(entry_of(photos, id)) is not None

    path, hash, has_thumbnail = await service.looking.do(read)
    if isinstance(path, Url):
        return []
    try:
        async with service.files.picture(path, hash):
            return []
    except Problem as fault:
        shown = "by its stored thumbnail" if has_thumbnail else "without its picture"
        return [f"the result is shown {shown}. {fault.detail}"]


async def _as_asked(service: Service, question: Question, box: str | None, *, turned: bool) -> Question:
    if box:
        question = await boxed(service, question, parse_box(box))
    return await when_turned(service, question) if turned else question


async def _among(service: Service, wanted: Filter) -> frozenset[int] | None:
    if not wanted:
        return None
    images = await service.looking.do(lambda photos: service.listing.fitting(photos, wanted))
    return frozenset(image.id for image in images)


def _asked(question: Question) -> schema.Asked:
    width, height = question.size
    box = None if question.box is None else list(question.box)
    return schema.Asked(
        key=question.key,
        name=text(question.source.name),
        width=width,
        height=height,
        features=len(question.features.features),
        box=box,
    )


def _shown(photos: Collection, hits: Sequence[Hit], part: slice, dates: Dates) -> list[schema.Hit]:
    """One page of an answer's hits."""
    found = [(hit, hit.entry) for hit in hits[part] if hit.entry is not None]
    dates.read(photos, (entry.hash for _, entry in found))  # all at once
    bridges = {hit.through for hit, _ in found if hit.through is not None}
    ids = {hit.path: hit.entry.id for hit in hits if hit.entry is not None and hit.path in bridges} if bridges else {}
    return [
        _hit(facts_of(photos, entry, hit.path, dates), hit, None if hit.through is None else ids.get(hit.through))
        for hit, entry in found
    ]


def _hit(image: dict[str, Any], hit: Hit, through: int | None) -> schema.Hit:
    return schema.Hit(
        **image,
        similarity=hit.similarity,
        confidence=None if hit.confidence is None else round(hit.confidence, 4),
        verdict=hit.verdict,
        itself=hit.itself,
        copy_of_query=hit.copy_of_query,
        state=None if hit.entry is None else state_at_a_glance(hit.path, hit.entry),  # answers are kept
        agreeing=None if hit.verification is None else int(hit.verification.agreeing.sum()),
        through=through,
    )


def _explained(question: Question, id: int, found: Explanation, notes: Sequence[str]) -> schema.Explanation:
    verification, overlap, file = found.verification, found.overlap, found.result.file
    transform = None if verification is None else verification.transform
    return schema.Explanation(
        query=_side(question.source.name, question.size, f"/api/pictures/{question.key}"),
        result=_side("" if file is None else file.name, found.result.size, f"/api/pictures/image-{id}"),
        similarity=found.similarity,
        confidence=round(found.confidence, 4),
        verdict=found.verdict,
        reasons=[text(sentence(reason)) for reason in [*reasons(found), *notes]],
        transform=None if transform is None else transform.tolist(),
        overlap=None if overlap is None else [region.tolist() for region in overlap],
        pairs=_pairs(found),
        box=None if question.box is None else list(question.box),
    )


def _side(name: str, size: tuple[int, int], picture: str) -> schema.Side:
    return schema.Side(name=text(name), width=size[0], height=size[1], picture=picture)


def _pairs(found: Explanation) -> list[schema.Pair] | None:
    if found.verification is None:
        return None
    ends = found.verification.points.tolist()
    agrees = found.verification.agreeing.tolist()
    return [schema.Pair(query=each[:2], result=each[2:], agrees=ok) for each, ok in zip(ends, agrees, strict=True)]
