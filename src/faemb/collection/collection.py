"""A searchable set of images in a folder, which can be changed at any time and survives crashes.

with Collection.create("photos.faemb", new_model()) as photos:
    photos.add("photos")
    photos.search("query.jpg", top=5)
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import cast

from faemb.collection.backends import BACKENDS
from faemb.collection.catalogue import FORMAT, VERSION, Catalogue, Entry
from faemb.collection.checking import damaged_indexes, faults, repair
from faemb.collection.duplicates import DEFAULT_THRESHOLD
from faemb.collection.export import FORMATS, export_vectors
from faemb.collection.gathering import gather
from faemb.collection.layout import Layout
from faemb.collection.migration import layout_of, migrate, require_format, wrong_model
from faemb.collection.model import Model
from faemb.collection.packing import rounded
from faemb.collection.reading import Reader, View
from faemb.collection.results import Answer, Group, Info
from faemb.collection.searching import Searcher, Wanted
from faemb.collection.sources import Images, as_list, images_in, is_below, is_gone
from faemb.collection.writing import Report, Writer, only_writer
from faemb.errors import FaembError, FormatError, InputError
from faemb.features import LocalFeatures
from faemb.features.folders import Found, find_images
from faemb.features.image import ImageLike
from faemb.runtime import Progress
from faemb.runtime.storage import AnyPath, make_folder
from faemb.settings import require_choice

DEFAULT_TOP = 10


class Collection:
    migrated: str | None
    """A sentence if opening the collection has converted it from an earlier format version."""

    def __init__(self, folder: AnyPath, *, device: str = "cpu") -> None:
        """Open an existing collection; `device` is where images are encoded: "cpu" or "cuda"."""
        layout = Layout(folder)
        if not layout.catalogue.is_file():
            raise InputError(f"no collection at {folder}; make one with: faemb index IMAGES --out {folder}")
        self._catalogue = Catalogue(layout.catalogue)
        try:
            require_format(layout, self._catalogue)
            self.migrated = migrate(layout, self._catalogue)
            self.layout = layout_of(layout, self._catalogue)
        except FaembError:
            self._catalogue.close()
            raise
        self._about = self._catalogue.about()
        self._device = device
        self._model: Model | None = None
        self._reader = Reader(self.layout, self._catalogue, lambda: self.model)
        self._searcher = Searcher(self._reader, self._about["index"])

    @classmethod
    def open(cls, folder: AnyPath, *, device: str = "cpu") -> "Collection":
        return cls(folder, device=device)

    @classmethod
    def create(
        cls, folder: AnyPath, model: Model, *, keep_features: bool = True, index: str = "auto", device: str = "cpu"
    ) -> "Collection":
        """A new collection; a model that is not fitted learns from the first images that are added."""
        require_choice("index", index, BACKENDS)
        model.extractor.check_settings()
        layout = Layout(folder)
        make_folder(layout.folder)
        with only_writer(layout):
            if layout.catalogue.exists():
                raise InputError(
                    f"there is a collection at {folder} already; add to it with: faemb add {folder} IMAGES"
                )
            fingerprint = model.save(layout.model)
            about = {
                "format": FORMAT,
                "version": str(VERSION),
                "generation": "1",
                "model": fingerprint if model.is_fitted else "",
                "asked": fingerprint,
                "keep_features": str(int(keep_features)),
                "index": index,
            }
            Catalogue.create(layout.catalogue, about).close()
        return cls(folder, device=device)

    @classmethod
    def resume(
        cls, folder: AnyPath, model: Model, *, keep_features: bool = True, index: str = "auto", device: str = "cpu"
    ) -> "Collection":
        """The collection that an earlier call with the same arguments has created, or a new one."""
        if not Layout(folder).catalogue.exists():
            return cls.create(folder, model, keep_features=keep_features, index=index, device=device)
        collection = cls(folder, device=device)
        asked = {"asked": model.fingerprint, "keep_features": str(int(keep_features)), "index": index}
        if any(collection._about[name] != value for name, value in asked.items()):
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
        """The model, read when it is first needed; an error if it is not the one that encoded the images."""
        expected = self._catalogue.about()["model"]
        if self._model is None or (expected and not self._model.is_fitted):
            model = Model.load(self.layout.model, device=self._device)
            if expected and model.fingerprint != expected:
                raise FormatError(wrong_model(self.layout))
            self._model = model
        return self._model

    # Changing.

    def add(self, images: Images, *, jobs: int | None = None, progress: Progress | None = None) -> Report:
        """Add files and folders; folders are remembered for `update`. Unchanged images are skipped."""
        sources = images_in(images)
        with self._changing(progress) as writer:
            with self._catalogue.change():
                for folder in sources.folders:
                    self._catalogue.add_folder(self.layout.name_of(folder))
            return self._added(writer, sources.found, jobs)

    def gather_and_learn(self, images: Images, *, jobs: int | None = None, progress: Progress | None = None) -> Report:
        """Fit the model on images without encoding them."""
        start, found = time.monotonic(), images_in(images).found
        report = Report(failed=list(found.unreadable))
        with self._changing(progress) as writer:
            gather(writer, found.images, self.model.extractor, jobs, report)
            self._learn(writer)
        report.seconds = time.monotonic() - start
        return report

    def update(self, *, jobs: int | None = None, progress: Progress | None = None) -> Report:
        """Search the remembered folders again: new, changed and deleted images."""
        folders = self._folders()
        missing = [str(folder) for folder in folders if not folder.is_dir()]
        if missing:
            raise InputError(
                f"the folder {', '.join(missing)} is not there, and its images were not touched; connect its drive, "
                f"or remove them with: faemb remove {self.layout.folder.name} {missing[0]}"
            )
        found = find_images(folders)
        with self._changing(progress) as writer:
            report = self._added(writer, found, jobs)
            if not found.unreadable:  # else an image that was not found may still exist
                report.removed += writer.remove(self._deleted(found, folders))
                self._compact_if_due(writer)
            return report

    def remove(self, images: AnyPath | Iterable[AnyPath]) -> int:
        """Remove images by path, or all images below a folder; returns their number."""
        places = as_list(images)
        with self._changing(None) as writer:
            names = [name for place in places for name in self._names_below(place)]
            removed = writer.remove(dict.fromkeys(names), folders=map(self.layout.name_of, places))
            self._compact_if_due(writer)
        return removed

    def _names_below(self, place: AnyPath) -> list[str]:
        root = os.path.abspath(place)
        inside = [name for name in self._catalogue.seen() if is_below(self.layout.path_of(name), root)]
        if not inside and self.layout.name_of(place) not in self._catalogue.folders():
            raise InputError(f"{place} is not in the collection {self.layout.folder}")
        return inside

    def _deleted(self, found: Found, folders: Sequence[Path]) -> list[str]:
        """Images of the collection below the folders whose files do not exist any more."""
        here = {self.layout.name_of(path) for path in found.images}
        missing = {name: self.layout.path_of(name) for name in self._catalogue.seen() if name not in here}
        return [
            name
            for name, path in missing.items()
            if any(is_below(path, str(folder)) for folder in folders) and is_gone(path)
        ]

    def _added(self, writer: Writer, found: Found, jobs: int | None) -> Report:
        start, report = time.monotonic(), Report(failed=list(found.unreadable))
        gather(writer, found.images, self.model.extractor, jobs, report)
        if not self.model.is_fitted:
            self._learn(writer)
        writer.encode_waiting(self.model)
        report.seconds = time.monotonic() - start
        return report

    def _learn(self, writer: Writer) -> None:
        model, self._model = self.model, None  # read again if it fails, since it may be partly fitted
        writer.learn(model)
        self._model = model

    def _compact_if_due(self, writer: Writer) -> None:
        if writer.compaction_is_due():
            writer.compact(self.model)

    @contextmanager
    def _changing(self, progress: Progress | None) -> Iterator[Writer]:
        """A writer, with the lock of the one process that may change the collection."""
        with only_writer(self.layout):
            yield Writer(self.layout, self._catalogue, progress)

    # Searching.

    def search(
        self,
        queries: ImageLike | Sequence[ImageLike],
        *,
        top: int = DEFAULT_TOP,
        threshold: float | None = None,
        box: Sequence[float] | None = None,
        index: str | None = None,
        count_itself: bool = True,
    ) -> list[Answer]:
        """The most similar images to each query: a path, an array, or a list of them.

        With `box` (x1, y1, x2, y2), only this region of each query is used; with `threshold`, only hits of at least
        this similarity are returned. A query that is in the collection is a hit like any other, marked `itself`;
        without `count_itself`, it is not counted: there may be `top` hits and itself.
        """
        several = queries if isinstance(queries, list | tuple) else [cast(ImageLike, queries)]
        answers, faults = self.search_many(
            several, top=top, threshold=threshold, box=box, index=index, count_itself=count_itself
        )
        if faults:
            raise InputError(faults[0])
        return answers

    def search_many(
        self,
        queries: Sequence[ImageLike],
        *,
        top: int = DEFAULT_TOP,
        threshold: float | None = None,
        box: Sequence[float] | None = None,
        index: str | None = None,
        jobs: int | None = None,
        count_itself: bool = True,
    ) -> tuple[list[Answer], list[str]]:
        """As `search`, with a sentence for each query that cannot be read instead of an error."""
        wanted = Wanted(top, threshold, index, count_itself)
        return self._searcher.images(queries, wanted, box=box, jobs=jobs)

    def search_features(
        self,
        queries: Sequence[LocalFeatures],
        *,
        names: Sequence[str] | None = None,
        top: int = DEFAULT_TOP,
        threshold: float | None = None,
        index: str | None = None,
    ) -> list[Answer]:
        """As `search`, for local features from the collection's own extractor."""
        stored = [rounded(query) for query in queries]
        return self._searcher.features(stored, names or [""] * len(stored), Wanted(top, threshold, index))

    def duplicates(
        self, threshold: float = DEFAULT_THRESHOLD, *, index: str | None = None, progress: Progress | None = None
    ) -> list[Group]:
        """Groups of images that show the same, the surest first.

        Each image has at least this similarity to another one of its group, and 0.75 of it on average where groups
        were joined; `Group` says how similar all of its images are.
        """
        return self._searcher.duplicates(threshold, index=index, progress=progress)

    # Reading.

    def view(self) -> View:
        """The current state; the same object if nothing has changed."""
        with self._reader.view() as view:
            return view

    def entries(self) -> Iterable[Entry]:
        return self._catalogue.entries()

    def features(self, image: AnyPath) -> LocalFeatures:
        """The stored local features of an image of the collection."""
        return self._reader.features(Path(image))

    def info(self) -> Info:
        count, model = self._catalogue.count, self.model
        return Info(
            images=count(),
            searchable=count("slot is not null"),
            without_features=count("features = 0"),
            waiting=count("slot is null and features > 0"),
            unreadable={str(self.layout.path_of(name)): why for name, why in self._catalogue.unreadable().items()},
            folders=[str(folder) for folder in self._folders()],
            bytes=sum(map(_size, self.layout.folder.iterdir())),
            encoder=repr((model.encoder_ if model.is_fitted else model.encoder).embedding),
            extractor=repr(model.extractor),
            dimension=model.dimension if model.is_fitted else 0,
            index=self._about["index"],
        )

    def export(self, out: AnyPath, form: str) -> int:
        """Write the vectors of all encoded images as npz, fvecs, faiss or hloc-h5; returns their number."""
        require_choice("format", form, FORMATS)
        self._reader.require_fitted()
        with self._reader.view() as view:
            paths = self._reader.paths(view)
        export_vectors(view, paths, self._folders(), Path(out), form)
        return len(paths)

    def _folders(self) -> list[Path]:
        return [self.layout.path_of(name) for name in self._catalogue.folders()]

    # Checking.

    def check(self, *, repair: bool = False, jobs: int | None = None, progress: Progress | None = None) -> list[str]:
        """A sentence for each item that does not match its checksum; with `repair` it is computed again."""
        damage = self._catalogue.fault()
        if damage is not None:
            return [f"{self.layout.catalogue} is damaged ({damage}); restore it from a copy"]
        indexes = damaged_indexes(self.layout, self._catalogue)
        if repair:
            images = self._repair(jobs, progress)
            for path in indexes:
                path.unlink(missing_ok=True)
        else:
            images = [str(fault) for fault in faults(self.layout, self._catalogue, self.model)]
        return [*images, *(f"the index {path} is damaged" for path in indexes)]

    def _repair(self, jobs: int | None, progress: Progress | None) -> list[str]:
        model = self.model
        with self._changing(progress) as writer:
            return repair(writer, model, jobs)


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):  # another process may have just deleted it
        return path.stat().st_size if path.is_file() else 0
    return 0
