"""Why an image is a result of a query: the regions that match, or how much each contributes to the similarity."""

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float
from PIL import Image as Pillow

from faemb.collection.catalogue import Entry
from faemb.collection.checked_reads import KeptFeatures, KeptVectors
from faemb.collection.file_state import content_now
from faemb.collection.layout import repair_command, typed
from faemb.collection.queries import QueryFeatures, described
from faemb.collection.reading import DECIMALS, Reader, View
from faemb.collection.results import shown_by_both, verdict
from faemb.collection.thumbnails import Thumbnails
from faemb.errors import FaembError, InputError
from faemb.features import LocalFeatures
from faemb.features.feature_files import picture_of
from faemb.features.image import Image, ImageLike, as_image, name_of
from faemb.features.job import content_hash
from faemb.features.region import Box, checked_box
from faemb.rerank import Judge, Polygon, Verification
from faemb.runtime.paths_and_urls import absolute, place
from faemb.runtime.storage import AnyPath
from faemb.shares import shares

LARGEST_PICTURE = 1600
"""Longer side of the pictures of an explanation."""
_SAME_BYTES = "both files have the same bytes"
_SAME_CONTENT = "the query has the same bytes as the file of the result had when it was indexed"


@dataclass(frozen=True, eq=False)
class Compared:
    """One of the two images of an explanation."""

    name: str
    features: LocalFeatures | None
    """None if they are not stored, or damaged."""
    size: tuple[int, int]
    """Width and height in the pixels in which all coordinates are given; (0, 0) if unknown."""
    picture: Image | None
    """Its pixels, perhaps at reduced size; None if there are none, as for a file of features."""
    file: Path | None = None
    """None if it was given as pixels."""
    in_collection: bool = False
    content: str | None = None
    """Hash of the file when its features were extracted; None if it is not known."""

    def __repr__(self) -> str:
        return f"Compared({self.name!r}, {self.features!r}, {self.picture!r})"


@dataclass(frozen=True, eq=False)
class Explanation:
    """Comparison of a query with one result."""

    query: Compared
    result: Compared
    similarity: float
    """Inner product of the vectors, from -1 to 1."""
    confidence: float
    """Probability that the images show the same thing, as in a search."""
    verification: Verification | None
    """How the local features agree; None if they cannot be compared: then `confidence` comes from the vectors alone."""
    shares: Float[np.ndarray, " n"] | None
    """Without verification: first-order contribution of each feature of the query to the similarity (shares.py)."""
    box: Box | None
    """The region of the query that was used."""
    notes: tuple[str, ...]
    """Sentences on what could not be done, and on pictures that are not those of the files."""

    def __repr__(self) -> str:
        return f"Explanation({self.query.name!r}, {self.result.name!r}, confidence {self.confidence:.3f})"

    @property
    def verdict(self) -> str:
        """same (confidence from 0.9), maybe (from 0.5) or unsure."""
        return verdict(self.confidence)

    @property
    def overlap(self) -> tuple[Polygon, Polygon] | None:
        """Corners of the region that both images show, in pixels of the query and of the result; None if unknown."""
        return shown_by_both(self.verification, self.query.size, self.result.size)


class Explainer:
    def __init__(self, reader: Reader, thumbnails: Thumbnails) -> None:
        self._reader, self._thumbnails = reader, thumbnails

    def explain(
        self, query: ImageLike, result: ImageLike, box: Sequence[float] | None, *, turned: bool = False
    ) -> Explanation:
        self._reader.require_fitted()
        local = self._features_of(query, box, turned=turned)
        features = local.features
        _require_features(features, name_of(query), box)
        notes: list[str] = []
        picture, size = self._picture(query, features, "query", notes)
        asked = Compared(name_of(query), local.all_verified, size, picture, _file(query))
        region = None if box is None else checked_box(box, size) if all(size) else Box(*box)
        return self._explained(asked, local, result, region, notes)

    def explain_features(
        self,
        query: QueryFeatures,
        result: AnyPath,
        file: Path | None,
        content: str | None,
        box: Sequence[float] | None,
    ) -> Explanation:
        """An explanation from given features, without pictures."""
        self._reader.require_fitted()
        if self._entry(result) is None:
            raise InputError(f"{result} is not in the collection {self._reader.layout.folder}")
        features = query.features
        _require_features(features, "the query" if file is None else str(file), box)
        asked = Compared(
            "" if file is None else str(file), query.all_verified, features.image_size, None, file, content=content
        )
        return self._explained(asked, query, result, None if box is None else Box(*box), [], pictures=False)

    def _explained(
        self,
        asked: Compared,
        local: QueryFeatures,
        result: ImageLike,
        box: Box | None,
        notes: list[str],
        *,
        pictures: bool = True,
    ) -> Explanation:
        task = partial(self._in_view, asked=asked, local=local, result=result, box=box, notes=notes, pictures=pictures)
        return self._reader.read_past_damage(task)

    def _in_view(
        self,
        view: View,
        tolerant: bool,
        *,
        asked: Compared,
        local: QueryFeatures,
        result: ImageLike,
        box: Box | None,
        notes: list[str],
        pictures: bool,
    ) -> Explanation:
        notes = [*notes]
        entry = self._entry(result)
        if entry is None:
            found, stored = self._outside(view, result, notes)
        else:
            found, stored = self._inside(view, entry, notes, tolerant, pictures)
        vectors = view.model.encode([features.descriptors for features in local.sets])
        similarity, nearest, vector = _nearest(vectors, local.sets, stored)
        turn, keeps = view.model.extractor.largest_turn, entry is not None and view.keeps_features
        judge = Judge(view.unrelated_to(vectors), turn, view.model.confidence, keeps=keeps)
        judgement = judge.judge(local.features, np.array([similarity]), [lambda: found.features], local.turned)[0]
        confidence = judgement.confidence
        if entry is not None and _is_copy(asked, entry):
            confidence = 1.0
            notes.append(_SAME_BYTES if asked.content is None else _SAME_CONTENT)
        parts = None
        if judgement.verification is None:
            asked = replace(asked, features=nearest)
            parts = shares(view.model.encoder_, nearest.descriptors, vector)
            if found.features is not None and turn is None:
                notes.append("features of this extractor have no geometry to verify")
            elif found.features is not None:
                notes.append("descriptors without geometry cannot be compared")
            notes.append("confidence is that of the vectors alone")
        return Explanation(asked, found, similarity, confidence, judgement.verification, parts, box, tuple(notes))

    def _entry(self, result: ImageLike) -> Entry | None:
        if not isinstance(result, str | os.PathLike):
            return None
        return self._reader.catalogue.entry(self._reader.layout.name_of(result))

    def _inside(
        self, view: View, entry: Entry, notes: list[str], tolerant: bool, pictures: bool
    ) -> tuple[Compared, Float[np.ndarray, "V D"]]:
        """An image of the collection, by what is stored of it, and its vectors."""
        path = self._reader.layout.path_of(entry.path)
        if not entry.features:
            raise InputError(f"{path} has no local features, so nothing can be compared with it")
        features = self._stored(view, entry, notes, tolerant)
        vectors = self._stored_vectors(view, entry, features, notes, tolerant)
        size = (entry.width, entry.height)
        picture = self._stored_picture(entry, path, notes) if pictures else None
        return Compared(str(path), features, size if all(size) else _size_of(picture), picture, path, True), vectors

    def _stored_vectors(
        self, view: View, entry: Entry, features: LocalFeatures | None, notes: list[str], tolerant: bool
    ) -> Float[np.ndarray, "V D"]:
        """The image's vectors; computed from its features if it waits to be encoded, or if its vectors are damaged."""
        kept, path, folder = KeptVectors(view, tolerant=tolerant), view.layout.path_of(entry.path), view.layout.folder
        damaged = bool(kept.damaged([entry]))
        if entry.slot is not None and not damaged:
            return np.asarray(view.stored[entry.slot])
        if features is None and damaged:
            raise InputError(f"the stored vector of {path} is damaged; run: {repair_command(view.layout.catalogue)}")
        if features is None:
            raise InputError(f"{path} is not encoded yet; run: faemb update {typed(folder)}")
        if damaged:
            cure = repair_command(view.layout.catalogue)
            notes.append(
                f"the stored vector of the result is damaged, and computed again from its features; run: {cure}"
            )
        return view.model.encode_with_parts([features], view.model.parts)[0]

    def _stored(self, view: View, entry: Entry, notes: list[str], tolerant: bool) -> LocalFeatures | None:
        kept = KeptFeatures(view, tolerant=tolerant)
        features = kept.load(entry)
        if features is None:
            notes.append(f"only the query is explained, because the local features of the result {kept.fault}")
        return features

    def _stored_picture(self, entry: Entry, path: Path, notes: list[str]) -> Image | None:
        """The pixels of the file, if it still is the one that was indexed; else the stored thumbnail."""
        folder = typed(self._reader.layout.folder)
        try:
            shown = picture_of(path)
            if shown is not None and (shown != path or content_hash(path) == entry.hash):
                return as_image(shown, LARGEST_PICTURE)
            why = f"has changed since it was indexed; run: faemb update {folder}"
            if shown is None:
                why = "is a file of features without an image"
        except FaembError:
            why = f"cannot be read; run: faemb update {folder}, or if it was moved: faemb relocate {folder} OLD NEW"
        thumbnail = self._thumbnails.get(entry.hash)
        if thumbnail is None:
            notes.append(f"the result is shown without its pixels, since no thumbnail is stored: {path} {why}")
            return None
        notes.append(f"the result is shown by its stored thumbnail: {path} {why}")
        with Pillow.open(io.BytesIO(thumbnail.jpeg)) as small:
            return Image(np.asarray(small.convert("RGB")), (thumbnail.width, thumbnail.height), str(path))

    def _outside(self, view: View, result: ImageLike, notes: list[str]) -> tuple[Compared, Float[np.ndarray, "V D"]]:
        """An image that is not in the collection, described as a query is, and the vectors that it would have there."""
        name, folder = name_of(result), self._reader.layout.folder
        try:
            features = self._features_of(result, None).plain
        except FaembError as error:
            raise InputError(f"{name} is not in the collection {folder}, nor can it be read: {error}") from error
        if not len(features):
            raise InputError(f"{name} has no local features, so nothing can be compared with it")
        notes.append("the result is not in the collection: its features were extracted like those of a query")
        picture, size = self._picture(result, features, "result", notes)
        vectors = view.model.encode_with_parts([features], view.model.parts)[0]
        return Compared(name, features, size, picture, _file(result)), vectors

    def _features_of(self, image: ImageLike, box: Sequence[float] | None, *, turned: bool = False) -> QueryFeatures:
        ((_, outcome),) = described([image], self._reader.model.extractor, box, turned=turned)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _picture(
        self, image: ImageLike, features: LocalFeatures, what: str, notes: list[str]
    ) -> tuple[Image | None, tuple[int, int]]:
        """The pixels of an image that was given, if it has any, and the size that its coordinates refer to."""
        shown: ImageLike | None = picture_of(place(image)) if isinstance(image, str | os.PathLike) else image
        if shown is None:
            notes.append(f"the {what} is shown without its pixels: no image is beside {name_of(image)}")
            return None, features.image_size
        picture = as_image(shown, LARGEST_PICTURE)
        return picture, features.image_size if any(features.image_size) else picture.size


def _require_features(features: LocalFeatures, name: str, box: Sequence[float] | None) -> None:
    if len(features):
        return
    where, cure = ("", "") if box is None else (" in the box", " or another box")
    raise InputError(
        f"{name} has no local features{where}, so there is nothing to explain; give a larger or more detailed "
        f"picture{cure}"
    )


def _nearest(
    vectors: Float[np.ndarray, "W D"], sets: Sequence[LocalFeatures], stored: Float[np.ndarray, "V D"]
) -> tuple[float, LocalFeatures, Float[np.ndarray, " D"]]:
    """The similarity of the nearest vectors of a query and of an image, the features of the one, and the other."""
    similarities = vectors @ stored.T
    own, other = divmod(int(np.argmax(similarities)), len(stored))
    return round(float(similarities[own, other]), DECIMALS), sets[own], stored[other]


def _file(image: ImageLike) -> Path | None:
    return absolute(image) if isinstance(image, str | os.PathLike) else None


def _is_copy(asked: Compared, entry: Entry) -> bool:
    if asked.content is not None or asked.file is None:
        return asked.content == entry.hash
    return content_now(asked.file) == entry.hash


def _size_of(picture: Image | None) -> tuple[int, int]:
    return (0, 0) if picture is None else picture.size
