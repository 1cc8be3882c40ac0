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
from faemb.collection.checking import damaged_indexes, faults, repair, repair_thumbnails, thumbnail_faults
from faemb.collection.duplicates import DEFAULT_THRESHOLD
from faemb.collection.exclusions import exclude, excluded
from faemb.collection.export import FORMATS, export_vectors
from faemb.collection.gathering import gather
from faemb.collection.hints import typed
from faemb.collection.layout import Layout
from faemb.collection.migration import layout_of, migrate, require_format, wrong_model
from faemb.collection.model import Model
from faemb.collection.packing import rounded
from faemb.collection.reading import Reader, View
from faemb.collection.relocation import relocate
from faemb.collection.results import Answer, Group, Info
from faemb.collection.searching import Searcher
from faemb.collection.sources import Images, as_list, images_in, is_below, is_gone
from faemb.collection.thumbnails import Thumbnail, Thumbnails, make_thumbnail
from faemb.collection.writing import Report, Writer, only_writer
from faemb.errors import FaembError, Fault, FormatError, InputError
from faemb.features import LocalFeatures
from faemb.features.feature_files import kind_of
from faemb.features.folders import Found, Kind, by_suffix, find_images, merged
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
            raise InputError(f"no collection at {folder}; make one with: faemb index IMAGES --out {typed(folder)}")
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
        self._thumbnails = Thumbnails(self.layout.thumbnails)
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
                    f"there is a collection at {folder} already; add to it with: faemb add {typed(folder)} IMAGES"
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
                f"faemb add {typed(folder)} IMAGES, or give another name"
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
        """Add files and folders; folders are remembered for `update`. Unchanged images are skipped.

        `images_in(images, exclude)` leaves files out, here and in every `update`.
        """
        sources = images_in(images, kind=self._kind)
        with self._changing(progress) as writer:
            with self._catalogue.change():
                for folder in sources.folders:
                    self._catalogue.add_folder(self.layout.name_of(folder))
                    exclude(self._catalogue, self.layout.name_of(folder), sources.exclude)
            return self._added(writer, sources.found, jobs)

    def gather_and_learn(self, images: Images, *, jobs: int | None = None, progress: Progress | None = None) -> Report:
        """Fit the model on images without encoding them."""
        start, found = time.monotonic(), images_in(images, kind=self._kind).found
        report = _report_on(found)
        with self._changing(progress) as writer:
            gather(writer, found.images, self.model, jobs, report)
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
                f"or give its new place with: faemb relocate {typed(self.layout.folder)} {typed(missing[0])} "
                f"NEW_FOLDER, or remove its images with: faemb remove {typed(self.layout.folder)} {typed(missing[0])}"
            )
        kind = self._kind
        found = merged(find_images([folder], patterns, kind) for folder, patterns in self._excluded().items())
        with self._changing(progress) as writer:
            report = self._added(writer, found, jobs)
            if not found.unreadable:  # else an image that was not found may still exist
                report.removed += writer.remove(self._deleted(found, folders))
                self._compact_if_due(writer)
            return report

    def relocate(self, old: AnyPath, new: AnyPath) -> int:
        """Record that a folder or file of images has been moved, without reading it; returns the number of images."""
        places = Path(os.path.abspath(old)), Path(os.path.abspath(new))
        with self._changing(None):
            return relocate(self.layout, self._catalogue, *places)

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
        start, report = time.monotonic(), _report_on(found)
        gather(writer, found.images, self.model, jobs, report)
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
    ) -> list[Answer]:
        """The most similar images to each query: a path, a Pillow image, an array, or a list of them.

        With `box` (x1, y1, x2, y2), only this region of each query is used; with `threshold`, only hits of at least
        this similarity are returned.
        """
        several = queries if isinstance(queries, list | tuple) else [cast(ImageLike, queries)]
        answers, faults = self.search_many(several, top=top, threshold=threshold, box=box, index=index)
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
    ) -> tuple[list[Answer], list[Fault]]:
        """As `search`, with a sentence for each query that cannot be read instead of an error."""
        return self._searcher.images(queries, top=top, threshold=threshold, box=box, index=index, jobs=jobs)

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
        return self._searcher.features(stored, names or [""] * len(stored), top=top, threshold=threshold, index=index)

    def duplicates(
        self, threshold: float = DEFAULT_THRESHOLD, *, index: str | None = None, progress: Progress | None = None
    ) -> list[Group]:
        """Groups of images, each of which has at least this similarity to another image of its group."""
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

    def thumbnail(self, image: AnyPath) -> Thumbnail:
        """A small JPEG of an image of the collection: the stored one, also if the image file is away.

        If none is stored, it is made from the image file.
        """
        entry = self._catalogue.entry(self.layout.name_of(image))
        if entry is None:
            raise InputError(f"{image} is not in the collection {self.layout.folder}")
        return self._thumbnails.get(entry.hash) or make_thumbnail(image)

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
            excluded={str(folder): patterns for folder, patterns in self._excluded().items() if patterns},
        )

    def export(self, out: AnyPath, form: str, *, overwrite: bool = False) -> int:
        """Write the vectors of all encoded images as npz, fvecs, faiss or hloc-h5; returns their number.

        Existing files that are not recognised as written by this method are replaced only with `overwrite`.
        """
        require_choice("format", form, FORMATS)
        self._reader.require_fitted()
        with self._reader.view() as view:
            paths = self._reader.paths(view)
        export_vectors(view, paths, self._folders(), Path(out), form, overwrite=overwrite)
        return len(paths)

    @property
    def _kind(self) -> Kind:
        """What its images are read from."""
        return kind_of(self.model.extractor)

    def _folders(self) -> list[Path]:
        return [self.layout.path_of(name) for name in self._catalogue.folders()]

    def _excluded(self) -> dict[Path, list[str]]:
        """The remembered folders, each with the patterns of what it leaves out."""
        patterns = excluded(self._catalogue)
        return {self.layout.path_of(name): patterns.get(name, []) for name in self._catalogue.folders()}

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
            images += thumbnail_faults(self._thumbnails)
        return [*images, *(f"the index {path} is damaged" for path in indexes)]

    def _repair(self, jobs: int | None, progress: Progress | None) -> list[str]:
        model = self.model
        with self._changing(progress) as writer:
            return repair(writer, model, jobs) + repair_thumbnails(writer, jobs)


def _report_on(found: Found) -> Report:
    """The report of a change, as it begins: what the search has met."""
    return Report(failed=list(found.unreadable), passed_over=by_suffix(found.others))


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):  # another process may have just deleted it
        return path.stat().st_size if path.is_file() else 0
    return 0
