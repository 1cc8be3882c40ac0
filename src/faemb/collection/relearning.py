"""Learning the model of a collection again, after the collection has grown, from the local features that it keeps.

A new model is fitted and saved under a name of its own. Batch by batch it encodes all images into the vector file of
the next generation, and the catalogue notes them as staged. When all are staged, one transaction puts the new model and
its vectors in the place of the old ones. Until then readers use the old ones. A process that is killed has lost one
batch at most: the next one continues, and encodes again what has been changed meanwhile.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from typing import NamedTuple

from faemb.collection.catalogue import Catalogue, Entry
from faemb.collection.description import FACT, Description
from faemb.collection.encoding import encoded, portion_size
from faemb.collection.facts import Relearning
from faemb.collection.layout import Layout, relearned_model, typed
from faemb.collection.model import Model
from faemb.collection.writing import LEARNING_IMAGES, Writer, writing_to
from faemb.errors import FormatError, InputError
from faemb.runtime.parallel import Jobs
from faemb.runtime.storage import sync_folder
from faemb.sets import PORTION_DESCRIPTORS

GROWTH = 2
"""A model is learned again when there are this many times as many images as it has learned from."""
Notice = Callable[[str], None]
"""Called with a sentence before long work that was not asked for begins, or about what should be done."""
_WITH_FEATURES = "features > 0"
_NOT_KEPT = "features > 0 and offset is null"


def no_notice(sentence: str) -> None:
    """A notice function that does nothing."""


class Relearned(NamedTuple):
    model: Model
    fingerprint: str
    learned_from: int


def is_outgrown(learned_from: int | None, images: int) -> bool:
    """Whether a model that was learned from so few images should learn again from this many."""
    return learned_from is not None and 0 < learned_from < LEARNING_IMAGES and images >= GROWTH * learned_from


def learnable(catalogue: Catalogue) -> int:
    """Number of images from which a model could learn."""
    return catalogue.count(_WITH_FEATURES)


def has_outgrown(catalogue: Catalogue) -> bool:
    """Whether the collection has outgrown its model; reads no more rows than that takes."""
    learned_from = catalogue.learned_from()
    enough = GROWTH * LEARNING_IMAGES
    return is_outgrown(learned_from, enough) and is_outgrown(learned_from, catalogue.count(_WITH_FEATURES, most=enough))


def is_due(catalogue: Catalogue) -> bool:
    """Whether the collection has outgrown its model, or learning again was interrupted."""
    return catalogue.relearning() is not None or has_outgrown(catalogue)


def obstacle(layout: Layout, catalogue: Catalogue) -> str | None:
    """Why the model cannot be learned again, with the cure; None if it can."""
    folder, lost = layout.folder, catalogue.count(_NOT_KEPT)
    if catalogue.about()["keep_features"] == "0":
        return (
            f"the model of {folder} cannot be learned again, because local features are not kept in it; "
            "index the images into a new collection, without --no-features"
        )
    if lost:
        return (
            f"the model of {folder} cannot be learned again, because {lost:,} of its images have lost their features; "
            f"restore their files and run: faemb check {typed(folder)} --repair, or take them out with: faemb remove"
        )
    return None


def announcement(writer: Writer) -> str:
    """What learning again is for, and what it costs."""
    images = learnable(writer.catalogue)
    if writer.catalogue.relearning() is not None:
        left = writer.catalogue.count_unstaged()
        return f"learning the model again was interrupted and continues: {left:,} of {images:,} images are not encoded"
    return (
        f"{history(writer.catalogue.learned_from(), images)}; it is learned again from "
        f"{min(images, LEARNING_IMAGES):,}, and {images:,} images are encoded again, which needs no image file"
    )


def history(learned_from: int | None, images: int) -> str:
    """From how many of the images the model has learned, in words."""
    if learned_from is None:
        return "it is not known from how many images the model has learned"
    if learned_from == 0:
        return "the model was given, and not learned from this collection"
    if learned_from > images:
        return f"the model has learned from {learned_from:,} images, some of which have been removed"
    return f"the model has learned from {learned_from:,} of {images:,} images"


def relearn(writer: Writer, model: Model, notice: Notice, jobs: Jobs = None) -> Relearned:
    """Learn with the settings of `model` and encode all images, or continue where another process has stopped."""
    hindrance = obstacle(writer.layout, writer.catalogue)
    if hindrance is not None:
        raise InputError(hindrance)
    notice(announcement(writer))
    coming, fresh = _continued(writer, model) or _begun(writer, model, jobs)
    _stage(writer, fresh, coming, jobs)
    _switch(writer, coming, fresh)
    return Relearned(fresh, coming.model, coming.learned_from)


def _continued(writer: Writer, model: Model) -> tuple[Relearning, Model] | None:
    """The interrupted relearning; None if there is none that is of use."""
    coming = writer.catalogue.relearning()
    if coming is None or is_outgrown(coming.learned_from, learnable(writer.catalogue)):
        return None
    try:
        fresh = Model.load(writer.layout.model(relearned_model(coming.generation)), device=model.encoder.device)
    except FormatError:
        return None  # it is learned anew
    return (coming, fresh) if fresh.fingerprint == coming.model else None


def _begun(writer: Writer, model: Model, jobs: Jobs) -> tuple[Relearning, Model]:
    fresh = model.clone()
    learned_from = writer.fit(fresh, jobs)
    writer.store.check_dimension(fresh.dimension)
    generation = writer.generation + 1
    with writer.catalogue.change():
        writer.store.drop(generation)  # of another model, whose learning was interrupted
        fingerprint = fresh.save(writer.layout.model(relearned_model(generation)), overwrite=True)
        coming = Relearning(generation, fingerprint, learned_from)
        writer.catalogue.begin_relearning(coming)
    return coming, fresh


def _stage(writer: Writer, fresh: Model, coming: Relearning, jobs: Jobs) -> None:
    """Encode every image that has no vector of the next generation yet."""
    catalogue, total = writer.catalogue, learnable(writer.catalogue)
    left = catalogue.count_unstaged()
    fresh.encoder_.prepare(left * fresh.vectors_per_image)
    writer.progress("encode", total - left, total)
    for batch, vectors in encoded(writer, fresh, _unstaged(catalogue, portion_size(jobs)), jobs):
        with catalogue.change(), writing_to(writer.layout.folder):
            first = catalogue.next_staged_slot()
            crcs = writer.store.table(coming.generation, fresh).write(first, vectors, batch)
            for slot, (entry, crc) in enumerate(zip(batch, crcs, strict=True), first):
                catalogue.stage(entry, slot, crc)
        left -= len(batch)
        writer.progress("encode", total - left, total)
    writer.progress("encode", total, total)


def _unstaged(catalogue: Catalogue, most: int) -> Iterator[list[Entry]]:
    last = 0
    while batch := catalogue.unstaged(last, most, PORTION_DESCRIPTORS):
        last = batch[-1].id
        yield batch


def _switch(writer: Writer, coming: Relearning, fresh: Model) -> None:
    with writer.catalogue.change(), writing_to(writer.layout.folder):
        _link_features(writer, coming)
        sync_folder(writer.layout.folder)
        writer.catalogue.end_relearning(coming)
        writer.catalogue.set(FACT, Description.of(fresh).as_text())
        if writer.store.address is not None:
            writer.catalogue.forget_freed_slots()  # of the old table, which is deleted
    writer.sweep()


def _link_features(writer: Writer, coming: Relearning) -> None:
    """The stored features under the name of the next generation, without a copy where the file system can do that."""
    old, new = writer.layout.features(writer.generation), writer.layout.features(coming.generation)
    new.unlink(missing_ok=True)
    if not old.exists():
        return  # there are no images
    try:
        os.link(old, new)
    except OSError:
        shutil.copyfile(old, new)
        with new.open("r+b") as file:
            os.fsync(file.fileno())
