"""Vectors of images whose features are stored: computed in this process, or by the workers of a cluster.

On a cluster with GPUs, workers that have one encode stored images while the others extract further ones.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from copy import deepcopy
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from faemb.arrays import has_cuda
from faemb.collection.catalogue import Entry
from faemb.collection.model import Model
from faemb.collection.packing import unpack
from faemb.collection.stored import encoded_rows, sound_features
from faemb.collection.writing import Writer
from faemb.encoder import IMAGES_PER_GPU, IMAGES_PER_TASK
from faemb.errors import FaembError
from faemb.runtime.limits import NO_LIMITS
from faemb.runtime.parallel import Flow, Jobs, Machines, Pool
from faemb.sets import PORTION, PORTION_DESCRIPTORS

Vectors = Float[np.ndarray, "B w"]


class Portion(NamedTuple):
    """Images for a worker, with their packed features."""

    entries: tuple[Entry, ...]
    packed: tuple[bytes, ...]


class Encode:
    """The task of the workers: the table rows of a portion of images."""

    def __init__(self, model: Model, *, gpu: bool) -> None:
        self._model, self._gpu = model, gpu

    def __call__(self, portion: Portion) -> Vectors:
        if self._gpu and has_cuda():
            self._model.to("cuda").encoder_.prepare(IMAGES_PER_GPU)
        self._gpu = False
        return encoded_rows(self._model, [unpack(content) for content in portion.packed])


def portion_size(jobs: Jobs) -> int:
    """Number of images that are encoded together."""
    return IMAGES_PER_TASK if isinstance(jobs, Machines) else PORTION


def encoded(
    writer: Writer, model: Model, batches: Iterable[Sequence[Entry]], jobs: Jobs
) -> Iterator[tuple[Sequence[Entry], Vectors]]:
    """Each batch with the vectors of its images, in order of completion."""
    if not isinstance(jobs, Machines):
        for batch in batches:
            yield batch, encoded_rows(model, [writer.features(entry) for entry in batch])
        return
    with closing(_pool(model, jobs)) as pool:
        flow: Flow[Portion, Vectors] = Flow(pool, map(partial(_portion, writer), batches))
        for portion, outcome in flow:
            yield portion.entries, _vectors(outcome)


def encode_elsewhere(writer: Writer, model: Model, machines: Machines) -> None:
    """Encode all images that have no vector yet."""
    writer.claim(model)
    total, done = writer.waiting(), 0
    if not total:
        return
    model.encoder_.prepare(total * model.vectors_per_image, progress=writer.progress)
    writer.progress("encode", 0, total)
    for entries, vectors in encoded(writer, model, _Waiting(writer), machines):
        writer.place(entries, vectors, model)
        done += len(entries)
        writer.progress("encode", done, total)


@contextmanager
def encoding_beside(writer: Writer, model: Model, jobs: Jobs) -> Iterator[Callable[[], None]]:
    """A function to call regularly while images are stored: it lets workers with a GPU encode these.

    An incomplete portion at the end of the block is encoded later.
    """
    if not isinstance(jobs, Machines) or not jobs.have_gpus() or not model.is_fitted:
        yield lambda: None
        return
    writer.claim(model)
    with closing(_pool(model, jobs)) as pool:
        waiting = _Waiting(writer, least=IMAGES_PER_TASK)
        flow: Flow[Portion, Vectors] = Flow(pool, map(partial(_portion, writer), waiting))

        def place(done: Iterable[tuple[Portion, Vectors | Exception]]) -> None:
            for portion, outcome in done:
                _place_unchanged(writer, portion.entries, _vectors(outcome), model)

        yield lambda: place(flow.ready())
        place(flow)


def _place_unchanged(writer: Writer, entries: Sequence[Entry], vectors: Vectors, model: Model) -> None:
    """Store vectors, except of images that were removed or replaced meanwhile, whose features have another offset."""
    marks = ", ".join("?" * len(entries))
    now = {entry.id: entry.offset for entry in writer.catalogue.entries(f"id in ({marks})", *(e.id for e in entries))}
    kept = [number for number, entry in enumerate(entries) if now.get(entry.id, -1) == entry.offset]
    if kept:
        writer.place([entries[number] for number in kept], vectors[kept], model)


def _pool(model: Model, machines: Machines) -> Pool[Portion, Vectors]:
    gpu = machines.have_gpus()
    sent = model if model.encoder.device == "cpu" else deepcopy(model).to("cpu")
    return machines.pool(Encode(sent, gpu=gpu), limits=NO_LIMITS, gpu=gpu)


def _portion(writer: Writer, batch: Sequence[Entry]) -> Portion:
    file = writer.layout.features(writer.generation)
    return Portion(tuple(batch), tuple(sound_features(file, entry) for entry in batch))


def _vectors(outcome: Vectors | Exception) -> Vectors:
    if isinstance(outcome, Exception):
        raise FaembError(f"images cannot be encoded on the cluster: {outcome}") from outcome
    return outcome


class _Waiting:
    """Images without a vector, in portions, each once; after this iterator has ended it may have more."""

    def __init__(self, writer: Writer, least: int = 1) -> None:
        self._writer, self._least, self._last = writer, least, 0

    def __iter__(self) -> "_Waiting":
        return self

    def __next__(self) -> list[Entry]:
        batch = self._writer.catalogue.waiting(IMAGES_PER_TASK, PORTION_DESCRIPTORS, after=self._last)
        if len(batch) < self._least:
            raise StopIteration
        self._last = batch[-1].id
        return batch
