"""What the API answers with."""

import re
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field


def _day(value: object) -> object:
    """Other forms, such as seconds since 1970, are not meant."""
    if isinstance(value, str) and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value, re.ASCII):
        raise ValueError("a day such as 2024-12-31")
    return value


def _number(value: object) -> object:
    """Other forms that Python reads, such as 1_0 or 1.0, would be further addresses of one image."""
    if isinstance(value, str) and not re.fullmatch(r"[0-9]{1,19}", value, re.ASCII):
        raise ValueError("the number of an image")
    return value


Number = Annotated[int, Field(ge=0, le=2**63 - 1), BeforeValidator(_number)]
Day = Annotated[date, BeforeValidator(_day)]
Expansion = Literal["none", "results", "average", "augmented", "scaled", "reciprocal"]
"""`faemb.rerank.EXPANSIONS`, as the type that the OpenAPI document needs."""


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str = Field(description="A sentence that a person can act on.")


AWAY: dict[int | str, dict[str, Any]] = {
    503: {
        "model": Problem,
        "description": "A server with images or vectors does not answer, or the process that read an image was killed.",
    }
}
"""Answer of routes that may succeed when they are asked again."""


class Image(BaseModel):
    """An image of the collection."""

    id: int
    name: str
    folder: str
    content: str = Field(description="Hash of the file's content; as `?v=` in a URL it lets browsers cache the answer.")
    width: int
    height: int
    changed: str = Field(description="When the file was last changed, in UTC (ISO 8601).")
    date: str = Field(description="When it was made, in local time without a time zone (ISO 8601).")
    taken: bool = Field(
        description="Whether `date` is when the photograph was taken, by its EXIF data; else the file's last change."
    )


class ImageFacts(Image):
    bytes: int
    features: int = Field(description="Number of local features.")
    available: bool = Field(description="Whether the file is still there; of one on a server, it is not asked.")


class Page(BaseModel):
    images: list[Image]
    total: int
    """Of all that fit the filter."""


class Hit(Image):
    similarity: float | None = Field(description="From -1 to 1; null if it has no local features.")
    confidence: float | None = Field(description="Probability that it shows the same thing; null if not judged.")
    verdict: str = Field(description="same, maybe, unsure; empty if not judged.")
    itself: bool = Field(description="It is the image that was searched with.")
    copy_of_query: bool = Field(description="Another file, which had the same bytes when it was indexed.")
    state: str | None = Field(
        description="Whether its file is the one that was indexed: unchanged, changed, missing; null if unknown."
    )
    agreeing: int | None = Field(description="Matched regions that agree with one transform; null if not compared.")
    through: int | None = Field(description="Image through which it was found, by expansion.")


class Asked(BaseModel):
    """A query, as it can be named in later requests."""

    key: str = Field(description="`image-ID` for an image of the collection, `upload-HASH` for a file that was sent.")
    name: str
    width: int
    height: int
    features: int = Field(description="Number of local features, in the box if there is one.")
    box: list[float] | None


class Answer(BaseModel):
    query: Asked
    hits: list[Hit]
    total: int = Field(description="Number of hits that can be asked for, page by page.")
    note: str = Field(description="What could not be verified, and how it can be; mostly empty.")
    seconds: float = Field(description="Time that the server has worked on this answer.")


class Side(BaseModel):
    name: str
    width: int
    height: int
    picture: str = Field(description="Address of the picture.")


class Pair(BaseModel):
    """Centres of two matched regions, in pixels of each image."""

    query: tuple[float, float]
    result: tuple[float, float]
    agrees: bool


class Explanation(BaseModel):
    query: Side
    result: Side
    similarity: float
    confidence: float
    verdict: str
    reasons: list[str] = Field(description="Sentences.")
    transform: list[list[float]] | None = Field(description="3 x 3, from pixels of the query to pixels of the result.")
    overlap: list[list[tuple[float, float]]] | None = Field(
        description="Corners of what both images show: in pixels of the query, and in pixels of the result."
    )
    pairs: list[Pair] | None
    box: list[float] | None


class Unusable(BaseModel):
    """A file that could not be used."""

    name: str
    reason: str = Field(description="A sentence.")


class Info(BaseModel):
    """The collection, and what visitors may do."""

    name: str
    images: int
    searchable: int
    without_features: int = Field(description="Images without local features, which are ranked last.")
    waiting: int = Field(description="Images that are stored but not encoded yet; an update encodes them.")
    unreadable: list[Unusable] = Field(description="Files in its folders that cannot be used.")
    folders: list[str]
    folders_to_add: list[str] = Field(description="Further folders of the server from which images may be added.")
    bytes: int = Field(description="Size of the collection, without the images.")
    encoder: str
    extractor: str
    dimension: int = Field(description="Length of the vectors.")
    index: str = Field(description="Kind of index that was asked for; auto chooses by the number of images.")
    index_in_use: str = Field(description="Kind that searches use now; exact compares with all images.")
    keeps_features: bool = Field(description="Local features are stored, so that answers can be verified.")
    parts: int = Field(description="Each image also has vectors of n x n parts; 0 if it has not.")
    learned_from: int | None = Field(description="Images from which the model was learned; null if not known.")
    relearning_is_due: bool = Field(description="The collection has outgrown its model.")
    model_fault: str | None = Field(description="Why the model cannot be used now, with the cure; null if it can.")
    writable: bool = Field(description="Images may be added and removed.")
    most_bytes: int = Field(description="Largest image that may be sent.")
    version: str


class Health(BaseModel):
    status: str = "ok"


class Folder(BaseModel):
    folder: str
    images: int = Field(description="Number of images in it and in the folders below.")


class Folders(BaseModel):
    folders: list[Folder]


class Added(BaseModel):
    added: list[Image] = Field(description="Stored, and found by searches from now on.")
    known: list[Image] = Field(description="Images with the same content, which the collection had already.")
    failed: list[Unusable]


class NotAdded(Problem, Added):
    """No file was added, and some cannot be used."""


class Removed(BaseModel):
    image: Image = Field(description="The image that is not in the collection any more; its file was not deleted.")
    undo: str = Field(description="For `POST /api/undo/{token}`; works once.")


class Restored(BaseModel):
    image: Image = Field(description="With the number that it had, unless it was added again meanwhile.")


class JobRequest(BaseModel):
    kind: Literal["update", "add", "relearn"] = Field(
        description="update: bring the collection up to date with its folders; add: the images of a folder; "
        "relearn: learn the model again."
    )
    folder: str | None = Field(
        default=None, description="For add: one of `folders` and `folders_to_add` of `GET /api/info`, or one below it."
    )


class Job(BaseModel):
    id: str
    kind: str
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    stage: str = Field(description="What is being done now.")
    done: int
    total: int | None = Field(description="Of `done`, in this stage; null if not known.")
    seconds: float = Field(description="Since the work began.")
    seconds_left: float | None = Field(description="Until the end of this stage; null if not known.")
    result: str | None = Field(description="A sentence, when it has ended.")
    failed: list[Unusable]


class JobList(BaseModel):
    jobs: list[Job]


class GroupedImage(Image):
    bytes: int
    state: str | None = Field(
        description="Whether its file is the one that was indexed: unchanged, changed, missing; null if unknown."
    )


class Group(BaseModel):
    """Images that belong together, the one to keep first."""

    kind: str = Field(description="copies: made from one picture; same thing; similar: features were not compared.")
    reason: str = Field(description="Why the first image is the one to keep.")
    similarity: str = Field(description="Smallest and largest similarity of two images, in words.")
    images: list[GroupedImage]


class GroupPage(BaseModel):
    groups: list[Group]
    total: int
    note: str = Field(description="What could not be verified, and how it can be; mostly empty.")
    outdated: bool = Field(description="The collection has changed since its images were compared.")
