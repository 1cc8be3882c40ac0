"""A live set of searchable pictures in a folder: open it, add, remove, search; it stays right whatever happens.

with Collection.create("photos.faemb", new_model(HessianAffine())) as photos:
    photos.add("photos")
    photos.search("query.jpg", top=5)
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from faemb.collection.backends import BACKENDS, backend_for
from faemb.collection.catalogue import FORMAT, VERSION, Catalogue, Entry
from faemb.collection.checking import damaged_indexes, faults, mend
from faemb.collection.duplicates import DEFAULT_THRESHOLD, FEW_FEATURES, connected, linked
from faemb.collection.export import FORMATS, export_vectors
from faemb.collection.layout import Layout
from faemb.collection.model import Model
from faemb.collection.queries import described
from faemb.collection.reading import View
from faemb.collection.results import Answer, Group, Hit, Info
from faemb.collection.sources import images_in, is_below, is_gone
from faemb.collection.writing import Report, Writer, only_writer, stored_features
from faemb.errors import FaembError, FormatError, InputError
from faemb.features import LocalFeatures
from faemb.features.folders import Found, find_images
from faemb.runtime import Progress, silent
from faemb.sets import PORTION
from faemb.settings import require_choice, require_number, require_whole

DEFAULT_TOP = 10
_NEEDED = {"generation", "model", "asked", "keep_features", "index"}
_COMPACT_SHARE = 0.25
"""Compaction is due when so large a share of the slots is dead."""


class Collection:
    def __init__(self, folder: Any, *, device: str = "cpu") -> None:
        """Open what `create` has made; `device` is where vectors are computed, "cpu" or one of PyTorch's."""
        self._device = device
        self.layout = Layout(Path(folder))
        if not self.layout.catalogue.is_file():
            raise InputError(f"no collection at {folder}; make one with: faemb index IMAGES --out {folder}")
        self._catalogue = Catalogue(self.layout.catalogue)
        try:
            self._about = self._catalogue.about()
            _require_format(self._about, self.layout)
        except FaembError:
            self._catalogue.close()
            raise
        self._model: Model | None = None
        self._view: tuple[Any, View] | None = None

    @classmethod
    def open(cls, folder: Any, *, device: str = "cpu") -> "Collection":
        return cls(folder, device=device)

    @classmethod
    def create(
        cls, folder: Any, model: Model, *, keep_features: bool = True, index: str = "auto", device: str = "cpu"
    ) -> "Collection":
        """A new collection; a model that has learned nothing yet learns from the first images that are added."""
        require_choice("index", index, BACKENDS)
        model.extractor.check_settings()
        layout = Layout(Path(folder))
        _make_folder(layout.folder)
        about = {
            "format": FORMAT,
            "version": str(VERSION),
            "generation": "1",
            "model": model.fingerprint if model.is_fitted else "",
            "asked": model.fingerprint,
            "keep_features": str(int(keep_features)),
            "index": index,
        }
        with only_writer(layout):
            if layout.catalogue.exists():
                raise InputError(
                    f"there is a collection at {folder} already; add to it with: faemb add {folder} IMAGES"
                )
            model.save(layout.model)
            Catalogue.create(layout.catalogue, about).close()
        return cls(folder, device=device)

    @classmethod
    def resume(cls, folder: Any, model: Model, *, device: str = "cpu", **options: Any) -> "Collection":
        """The collection that the same call has made before, or a new one."""
        if not Layout(Path(folder)).catalogue.exists():
            return cls.create(folder, model, device=device, **options)
        collection = cls(folder, device=device)
        asked = {"asked": model.fingerprint}
        asked |= {name: str(int(said) if name == "keep_features" else said) for name, said in options.items()}
        if any(collection._about.get(name) != said for name, said in asked.items()):
            collection.close()
            raise InputError(
                f"the collection {folder} was made with other settings; add images to it with: "
                f"faemb add {folder} IMAGES, or give another name"
            )
        return collection

    def close(self) -> None:
        self._catalogue.close()

    def __enter__(self) -> "Collection":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return self._catalogue.count()

    @property
    def model(self) -> Model:
        """Refused if it is not the one that encoded the images."""
        if self._model is None or (not self._model.is_fitted and self._catalogue.about()["model"]):
            model = Model.load(self.layout.model, device=self._device)
            expected = self._catalogue.about()["model"]
            if expected and model.fingerprint != expected:
                raise FormatError(
                    f"{self.layout.model} is not the model that encoded this collection; "
                    "restore the right file, or index the images again"
                )
            self._model = model
        return self._model

    # Changing.

    def add(self, images: Any, *, jobs: int | None = None, progress: Progress | None = None) -> Report:
        """Files and folders; folders are remembered for `update`. Images that have not changed are passed over."""
        places = images_in(images)
        with self._changing(progress) as writer:
            with self._catalogue.change():
                for folder in places.folders:
                    self._catalogue.add_folder(self.layout.name_of(folder))
            return self._brought_in(writer, places.found, jobs)

    def gather_and_learn(self, images: Any, *, jobs: int | None = None, progress: Progress | None = None) -> Report:
        """Only what a model needs: nothing is encoded."""
        start, report = time.monotonic(), Report()
        found = images_in(images).found
        with self._changing(progress) as writer:
            writer.gather(found.images, self.model.extractor, jobs, report)
            self._learn(writer, self.model)
        report.failed += found.unreadable
        report.seconds = time.monotonic() - start
        return report

    def update(self, *, jobs: int | None = None, progress: Progress | None = None) -> Report:
        """Look at the remembered folders again: new, changed and vanished images."""
        folders = [self.layout.path_of(name) for name in self._catalogue.folders()]
        missing = [str(folder) for folder in folders if not folder.is_dir()]
        if missing:
            raise InputError(
                f"the folder {', '.join(missing)} is not there, and its images were not touched; connect its drive, "
                f"or take them out with: faemb remove {self.layout.folder.name} {missing[0]}"
            )
        found = find_images(folders)
        with self._changing(progress) as writer:
            report = self._brought_in(writer, found, jobs)
            if not found.unreadable:  # else who knows what is still there
                report.removed += self._drop(self._vanished(found, folders))
                self._tidy(writer)
            return report

    def remove(self, images: Any) -> int:
        """Take out images by path, or all below a folder; how many there were."""
        places = [images] if isinstance(images, str | os.PathLike) else list(images)
        with self._changing(None) as writer:
            names = [name for place in places for name in self._named(Path(place))]
            removed = self._drop(dict.fromkeys(names), folders=[self.layout.name_of(Path(place)) for place in places])
            self._tidy(writer)
        return removed

    def _named(self, place: Path) -> list[str]:
        root = os.path.abspath(place)
        inside = [name for name in self._catalogue.seen() if is_below(self.layout.path_of(name), root)]
        if not inside and self.layout.name_of(place) not in self._catalogue.folders():
            raise InputError(f"{place} is not in the collection {self.layout.folder}")
        return inside

    def _drop(self, names: Iterable[str], folders: Iterable[str] = ()) -> int:
        removed = 0
        with self._catalogue.change():
            for name in names:
                removed += self._catalogue.remove(name)
                self._catalogue.forget_unreadable(name)
            for folder in folders:
                self._catalogue.remove_folder(folder)
        return removed

    def _vanished(self, found: Found, folders: Sequence[Path]) -> list[str]:
        """Known images below the folders that are not there any more; one that cannot be looked at may be."""
        here = {self.layout.name_of(path) for path in found.images}
        missing = {name: self.layout.path_of(name) for name in self._catalogue.seen() if name not in here}
        return [
            name
            for name, path in missing.items()
            if any(is_below(path, str(folder)) for folder in folders) and is_gone(path)
        ]

    def _brought_in(self, writer: Writer, found: Found, jobs: int | None) -> Report:
        start, report = time.monotonic(), Report(failed=list(found.unreadable))
        model = self.model
        writer.gather(found.images, model.extractor, jobs, report)
        if not model.is_fitted:
            self._learn(writer, model)
        self._encode_waiting(writer, model, report)
        report.seconds = time.monotonic() - start
        return report

    def _encode_waiting(self, writer: Writer, model: Model, report: Report) -> None:
        self._adopt(model)
        writer.encode(model, report)
        if self._about["keep_features"] == "0":
            with self._catalogue.change():
                done = [entry.id for entry in self._catalogue.entries("offset is not null and slot is not null")]
                self._catalogue.forget_features(done)
        self._tidy(writer)

    def _learn(self, writer: Writer, model: Model) -> None:
        try:
            writer.learn(model)
        except BaseException:
            self._model = None  # half a model
            raise
        model.save(self.layout.model)

    def _adopt(self, model: Model) -> None:
        """From now on no other model will do."""
        if not self._catalogue.about()["model"]:
            with self._catalogue.change():
                self._catalogue.say("model", model.fingerprint)

    def _tidy(self, writer: Writer) -> None:
        """Compact where much is dead."""
        slots = self._catalogue.free_slot()
        dead = slots - self._catalogue.count("slot is not null")
        kept = sum(entry.length or 0 for entry in self._catalogue.entries("offset is not null"))
        file = self.layout.features(writer.generation)
        held = file.stat().st_size if file.exists() else 0
        if dead > _COMPACT_SHARE * slots + 16 or held - kept > _COMPACT_SHARE * held + (1 << 20):
            writer.compact(self.model)

    def _changing(self, progress: Progress | None) -> "_Changing":
        return _Changing(self.layout, self._catalogue, progress)

    # Searching.

    def search(
        self,
        queries: Any,
        *,
        top: int = DEFAULT_TOP,
        threshold: float | None = None,
        box: Sequence[float] | None = None,
        index: str | None = None,
    ) -> list[Answer]:
        """The most similar images to each query (one, or a list): paths or arrays; `box` is x1, y1, x2, y2 in each."""
        asked = list(queries) if isinstance(queries, list | tuple) else [queries]
        answers, faults = self.search_many(asked, top=top, threshold=threshold, box=box, index=index)
        if faults:
            raise InputError(faults[0])
        return answers

    def search_many(
        self,
        queries: Sequence[Any],
        *,
        top: int = DEFAULT_TOP,
        threshold: float | None = None,
        box: Sequence[float] | None = None,
        index: str | None = None,
        jobs: int | None = None,
    ) -> tuple[list[Answer], list[str]]:
        """As `search`, but a query that cannot be read stops no other: a sentence for each comes second."""
        found: dict[int, LocalFeatures] = {}
        faults: list[str] = []
        for place, outcome in described(queries, self.model.extractor, box, jobs):
            if isinstance(outcome, LocalFeatures):
                found[place] = outcome
            else:
                text, name = str(outcome), _query_name(queries[place])
                faults.append(text if name in text else f"{name}: {text}")
        places = sorted(found)
        answers = self.search_features(
            [found[place] for place in places],
            names=[_query_name(queries[place]) for place in places],
            top=top,
            threshold=threshold,
            index=index,
        )
        return answers, faults

    def search_features(
        self,
        queries: Sequence[LocalFeatures],
        *,
        names: Sequence[str] | None = None,
        top: int = DEFAULT_TOP,
        threshold: float | None = None,
        index: str | None = None,
    ) -> list[Answer]:
        """As `search`, of local features that the collection's own extractor gave."""
        require_whole("top", top, 1)
        if threshold is not None:
            require_number("threshold", threshold, least=-1, most=1)
        self._require_searchable()
        names = names or [""] * len(queries)
        answers = []
        with self._looking() as view:
            kind = backend_for(index or self._about["index"], len(view.slots))
            for start in range(0, len(queries), PORTION):
                part = queries[start : start + PORTION]
                found = view.search(self.model.encode([query.descriptors for query in part]), top, kind)
                for k, query in enumerate(part):
                    hits = self._hits(view, found.scores[k], found.rows[k], threshold) if len(query) else []
                    if len(query) and threshold is None:
                        hits += self._blank(top - len(hits))
                    answers.append(Answer(names[start + k], len(query), hits))
        return answers

    def view(self) -> View:
        """The collection as it is now; the last one again if nothing has changed."""
        with self._looking() as view:
            return view

    @contextmanager
    def _looking(self) -> Iterator[View]:
        """The collection as it is now; until the end of the block it is so, whatever other processes do to it."""
        with ExitStack() as moment:
            while True:
                moment.enter_context(self._catalogue.snapshot())
                generation = self._catalogue.about()["generation"]
                try:
                    view = self._view_of(self._catalogue.state())
                    break
                except FormatError:
                    moment.close()
                    if self._catalogue.about()["generation"] == generation:
                        raise  # else compaction has just replaced the files
            yield view

    def _view_of(self, state: Any) -> View:
        if self._view is None or self._view[0] != state:
            self._view = state, View.of(self.layout, self._catalogue, self.model)
        return self._view[1]

    def _require_searchable(self) -> None:
        if not self.model.is_fitted:
            raise InputError(
                f"{self.layout.folder} holds no encoded images yet; run: faemb add {self.layout.folder} IMAGES"
            )

    def _hits(self, view: View, scores: np.ndarray, rows: np.ndarray, threshold: float | None) -> list[Hit]:
        return [
            Hit(self.layout.path_of(self._path(int(view.ids[row]))), float(score))
            for score, row in zip(scores, rows, strict=True)
            if row >= 0 and (threshold is None or score >= threshold)
        ]

    def _path(self, image: int) -> str:
        for entry in self._catalogue.entries("id = ?", image):
            return entry.path
        raise FormatError(f"{self.layout.catalogue} is damaged: the image {image} is not in it; restore it from a copy")

    def _blank(self, room: int) -> list[Hit]:
        """Images without local features come last, if there is room for them."""
        if room <= 0:
            return []
        entries = self._catalogue.entries(
            "features = 0 and id in (select id from images where features = 0 limit ?)", room
        )
        return [Hit(self.layout.path_of(entry.path), None) for entry in entries]

    def duplicates(
        self, threshold: float = DEFAULT_THRESHOLD, *, index: str | None = None, progress: Progress | None = None
    ) -> list[Group]:
        """Groups of images of which each is at least so similar to another one of its group."""
        require_number("threshold", threshold, least=-1, most=1)
        self._require_searchable()
        with self._looking() as view:
            kind = backend_for(index or self._about["index"], len(view.slots))
            few = np.isin(view.ids, self._catalogue.ids(f"features < {FEW_FEATURES}"))
            pairs = linked(view, few, threshold, kind, progress or silent)
            return [
                Group([self.layout.path_of(self._path(int(view.ids[place]))) for place in places], score)
                for places, score in connected(pairs)
            ]

    # Looking.

    def entries(self) -> Iterable[Entry]:
        return self._catalogue.entries()

    def features(self, image: Any) -> LocalFeatures:
        """The kept local features of an image of the collection."""
        while True:
            with self._catalogue.snapshot():
                entry = self._catalogue.entry(self.layout.name_of(Path(image)))
                generation = self._catalogue.about()["generation"]
            if entry is None:
                raise InputError(f"{image} is not in the collection {self.layout.folder}")
            try:
                return stored_features(self.layout.features(int(generation)), entry)
            except FormatError:
                if self._catalogue.about()["generation"] == generation:
                    raise  # else compaction has just replaced the file

    def info(self) -> Info:
        count = self._catalogue.count
        fitted = self.model.is_fitted
        return Info(
            images=count(),
            searchable=count("slot is not null"),
            without_features=count("features = 0"),
            waiting=count("slot is null and features > 0"),
            unreadable={str(self.layout.path_of(name)): why for name, why in self._catalogue.unreadable().items()},
            folders=[str(self.layout.path_of(name)) for name in self._catalogue.folders()],
            bytes=sum(map(_size, self.layout.folder.iterdir())),
            model=repr(self.model.encoder.embedding),
            extractor=repr(self.model.extractor),
            dimension=self.model.width if fitted else 0,
            short=self.model.short_width if fitted else 0,
            bits=8 * self.model.code_bytes if fitted else 0,
            index=self._about["index"],
        )

    def export(self, out: Any, form: str) -> int:
        """Vectors of all searchable images as npz, fvecs, faiss or hloc-h5; how many."""
        require_choice("format", form, FORMATS)
        self._require_searchable()
        with self._looking() as view:
            paths = [self.layout.path_of(self._path(int(image))) for image in view.ids]
        export_vectors(view, paths, self.layout.folder.parent, Path(out), form)
        return len(paths)

    # Checking.

    def check(self, *, repair: bool = False, jobs: int | None = None, progress: Progress | None = None) -> list[str]:
        """A sentence for everything that is not as it was written; with `repair` it is derived again from the rest."""
        told = self._catalogue.fault()
        if told is not None:
            return [f"{self.layout.catalogue} is damaged ({told}); restore it from a copy"]
        indexes = damaged_indexes(self.layout, self._catalogue)
        if repair:
            told_of_images = self._repair(jobs, progress)
            for path in indexes:
                path.unlink(missing_ok=True)
        else:
            told_of_images = [str(fault) for fault in faults(self.layout, self._catalogue, self.model)]
        return [*told_of_images, *(f"the index {path} is damaged" for path in indexes)]

    def _repair(self, jobs: int | None, progress: Progress | None) -> list[str]:
        model, report = self.model, Report()
        with self._changing(progress) as writer:
            found = list(faults(self.layout, self._catalogue, model))
            if found:
                mend(writer, model, found, jobs, report)
            if model.is_fitted:
                self._encode_waiting(writer, model, report)
        gone = {fault.entry.path for fault in found if self._catalogue.entry(fault.entry.path) is None}
        end = "; nothing is left to derive it from, so it was taken out"
        return [f"{fault}{end if fault.entry.path in gone else ''}" for fault in found]


class _Changing:
    """The lock, and a writer under it."""

    def __init__(self, layout: Layout, catalogue: Catalogue, progress: Progress | None) -> None:
        self._make: Callable[[], Writer] = lambda: Writer(layout, catalogue, progress)
        self._lock = only_writer(layout)

    def __enter__(self) -> Writer:
        self._lock.__enter__()
        return self._make()

    def __exit__(self, *failure: Any) -> None:
        self._lock.__exit__(*failure)


def _query_name(query: Any) -> str:
    return os.fspath(query) if isinstance(query, str | os.PathLike) else "the array"


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):  # another process may have just deleted it
        return path.stat().st_size if path.is_file() else 0
    return 0


def _require_format(about: dict[str, str], layout: Layout) -> None:
    if about.get("format") != FORMAT:
        raise FormatError(f"{layout.catalogue} is the catalogue of something else, not of a faemb collection")
    if about.get("version") != str(VERSION):
        raise FormatError(
            f"{layout.folder} has format version {about.get('version')}; this faemb reads up to {VERSION}: "
            "pip install --upgrade faemb"
        )
    if not about.keys() >= _NEEDED or not about["generation"].isdecimal():
        raise FormatError(f"{layout.catalogue} is damaged; restore it from a copy")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FaembError(f"the folder {folder} cannot be made: {error.strerror}") from error
