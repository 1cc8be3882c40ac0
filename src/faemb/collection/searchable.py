"""What can be asked of a collection without changing it: searches, duplicates, why an image is a result, export."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TypeVar, cast

from faemb.collection.backends import index_in_use
from faemb.collection.catalogue import Catalogue, Entry, Outline
from faemb.collection.current_model import CurrentModel
from faemb.collection.duplicates import DuplicateOptions
from faemb.collection.exclusions import excluded
from faemb.collection.explaining import Explainer, Explanation
from faemb.collection.export import FORMATS, export_vectors
from faemb.collection.file_state import note_on_files
from faemb.collection.layout import Layout, typed
from faemb.collection.locking import is_being_changed
from faemb.collection.migration import migrate, require_format
from faemb.collection.model import Model
from faemb.collection.queries import QueryFeatures, query_features
from faemb.collection.reading import Reader, View
from faemb.collection.relearning import is_due, obstacle
from faemb.collection.results import Answer, GroupedImage, Groups, Hit, Info
from faemb.collection.searching import Searcher, SearchOptions
from faemb.collection.store_transfer import left_stores
from faemb.collection.stores.attached import CurrentStore
from faemb.collection.thumbnails import Thumbnail, Thumbnails, make_thumbnail
from faemb.errors import FaembError, Fault, InputError
from faemb.features import LocalFeatures
from faemb.features.feature_files import kind_of
from faemb.features.folders import Kind
from faemb.features.image import ImageLike
from faemb.rerank import VERIFIED
from faemb.runtime import Progress, silent
from faemb.runtime.paths_and_urls import place
from faemb.runtime.storage import AnyPath
from faemb.settings import require_choice

Own = TypeVar("Own", bound="SearchableCollection")
"""The class itself; `typing.Self` cannot be checked by the decorators of single functions that tests use."""
DEFAULT_TOP = 10


class SearchableCollection:
    """A collection that is searched and read; `Collection` adds what changes it."""

    migrated: str | None
    """A sentence if opening the collection has converted it from an earlier format version."""

    def __init__(self, folder: AnyPath, *, device: str = "cpu", store: str | None = None) -> None:
        """The constructor opens an existing collection, as `open` does."""
        self.layout = Layout(folder)
        if not self.layout.catalogue.is_file():
            raise InputError(f"no collection at {folder}; make one with: faemb index IMAGES --out {typed(folder)}")
        self._catalogue = Catalogue(self.layout.catalogue)
        try:
            require_format(self.layout, self._catalogue)
            self.migrated = migrate(self.layout, self._catalogue)
            self._store = CurrentStore(self.layout, self._catalogue, store)
        except FaembError:
            self._catalogue.close()
            raise
        self._about = self._catalogue.about()
        self._current = CurrentModel(self.layout, self._catalogue, self._store, device)
        self._reader = Reader(self._current)
        self._thumbnails = Thumbnails(self.layout.thumbnails)
        self._searcher = Searcher(self._reader, self._about["index"])

    @classmethod
    def open(cls: type[Own], folder: AnyPath, *, device: str = "cpu", store: str | None = None) -> Own:
        """Open an existing collection; one of an older format is converted.

        device: where images are encoded: "cpu" or "cuda"
        store:  new address of the server with its vectors, if it has moved
        """
        return cls(folder, device=device, store=store)

    def close(self) -> None:
        """Close the catalogue, and the connection to a server with the vectors."""
        self._store.close()
        self._catalogue.close()

    def __enter__(self: Own) -> Own:
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
        return self._current.get()

    def search(
        self,
        queries: ImageLike | Sequence[ImageLike],
        *,
        top: int = DEFAULT_TOP,
        threshold: float | None = None,
        box: Sequence[float] | None = None,
        index: str | None = None,
        count_itself: bool = True,
        verify: int = VERIFIED,
        least_confidence: float | None = None,
        expand: str = "none",
        query_parts: int = 0,
        turned: bool = False,
    ) -> list[Answer]:
        """The images that show the same thing as each query: a path, a Pillow image, an array, or a list of them.

        The `verify` most similar images are verified by their local features, and ranked by the confidence that they
        show the same thing; 0 ranks by similarity alone.
        With `expand="results"`, results whose verdict is "same" are used as queries too; hits found so have `through`
        and a confidence of at most 0.6. If there is no such result, 100 more candidates are verified. With `verify=0`,
        "average" is query expansion, "augmented" database-side augmentation, "scaled" subtracts half the mean
        similarity of each image to its neighbours, and "reciprocal" re-ranks 100 images by their mutual neighbours.
        With `box` (x1, y1, x2, y2), only this region of each query is used; with `threshold` or `least_confidence`,
        only hits of at least this similarity or confidence are returned. A query that is in the collection is a hit
        like any other, marked `itself`; without `count_itself` it is returned in addition to `top` hits.
        With `query_parts`, n x n overlapping parts of each query are searched for as well, which finds images that
        show only a part of it. With `turned`, each query is also turned by 90, 180 and 270 degrees, which finds what
        lies on its side or upside down; the extractor must read pixels, and be upright.
        """
        several = queries if isinstance(queries, list | tuple) else [cast(ImageLike, queries)]
        answers, faults = self.search_many(
            several,
            top=top,
            threshold=threshold,
            box=box,
            index=index,
            count_itself=count_itself,
            verify=verify,
            least_confidence=least_confidence,
            expand=expand,
            query_parts=query_parts,
            turned=turned,
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
        verify: int = VERIFIED,
        least_confidence: float | None = None,
        expand: str = "none",
        query_parts: int = 0,
        turned: bool = False,
        progress: Progress | None = None,
    ) -> tuple[list[Answer], list[Fault]]:
        """As `search`, with a sentence for each query that cannot be read instead of an error."""
        wanted = SearchOptions(
            *(top, threshold, index, count_itself, verify, least_confidence, expand, query_parts), turned=turned
        )
        return self._searcher.images(queries, wanted, box=box, jobs=jobs, progress=progress)

    def search_features(
        self,
        queries: Sequence[LocalFeatures | QueryFeatures],
        *,
        names: Sequence[str] | None = None,
        top: int = DEFAULT_TOP,
        threshold: float | None = None,
        index: str | None = None,
        verify: int = VERIFIED,
        least_confidence: float | None = None,
        expand: str = "none",
        query_parts: int = 0,
        files: Sequence[Path | None] | None = None,
        contents: Sequence[str | None] | None = None,
        among: Iterable[int] | None = None,
    ) -> list[Answer]:
        """As `search`, for local features from the collection's own extractor.

        files:    the file of each query, by which the query itself and its copies are recognised
        contents: hash of each file (`Entry.hash`) when the features were extracted; if not given, that of the file now
        among:    ids of the images (`Entry.id`) that may be results
        """
        wanted = SearchOptions(
            *(top, threshold, index, True, verify, least_confidence, expand, query_parts),
            among=None if among is None else frozenset(among),
        )
        return self._searcher.features(
            [query_features(query) for query in queries], names or [""] * len(queries), wanted, files, contents
        )

    def duplicates(
        self,
        threshold: float | None = None,
        *,
        same_thing: bool = False,
        mirrored: bool = False,
        verify: bool = True,
        index: str | None = None,
        progress: Progress | None = None,
    ) -> Groups:
        """Groups of images that were made from one picture, in order of their smallest similarity.

        threshold:  smallest similarity of images that are compared; if not given, clearly above the similarity of
                    unrelated images
        same_thing: join different photographs of the same thing too; `Group.kind` tells such groups from copies
        mirrored:   find copies that are mirrored from left to right too
        verify:     compare local features; otherwise images of at least this similarity are joined (if not given:
                    `default_threshold`), and 0.75 of it on average where groups are joined
        """
        options = DuplicateOptions(threshold, same_thing=same_thing, mirrored=mirrored, verify=verify)
        return self._searcher.duplicates(options, index=index, progress=progress or silent)

    def explain(
        self, query: ImageLike, result: ImageLike, *, box: Sequence[float] | None = None, turned: bool = False
    ) -> Explanation:
        """Why `result` is a result of `query`: which regions match, and which transform they agree with.

        `result` is the path of an image of the collection, or another image, which is processed like a query. If local
        features cannot be compared: how much each feature of the query contributes to the similarity. `turned` as in
        `search`.
        """
        return Explainer(self._reader, self._thumbnails).explain(query, result, box, turned=turned)

    def explain_features(
        self,
        query: LocalFeatures | QueryFeatures,
        result: AnyPath,
        *,
        file: Path | None = None,
        content: str | None = None,
        box: Sequence[float] | None = None,
    ) -> Explanation:
        """As `explain`, for local features from the collection's own extractor, and without the pictures.

        `file` is the query's file, if it has one, and `content` its hash (`Entry.hash`) when the features were
        extracted; if not given, that of the file now. `box` is the region in which the features lie.
        """
        explainer = Explainer(self._reader, self._thumbnails)
        return explainer.explain_features(query_features(query), result, file, content, box)

    def note_on_files(self, results: Iterable[Hit | GroupedImage]) -> str:
        """A sentence, with the cure, if files of these results are not there or have changed; empty if all are.

        The file of each result is looked at.
        """
        others = (each for each in results if isinstance(each, GroupedImage) or not each.itself)
        return note_on_files(self.layout.folder, self._folders(), {each.path: each.state for each in others})

    # Reading.

    def view(self) -> View:
        """The current state; the same object if nothing has changed."""
        with self._reader.view() as view:
            return view

    def entries(self) -> Iterable[Entry]:
        """All images, in the order in which they were added."""
        return self._catalogue.entries()

    def entry(self, image: int | AnyPath) -> Entry | None:
        """An image by its id or its path; None if it is not in the collection."""
        if isinstance(image, int):
            return next(self._catalogue.entries("id = ?", image), None)
        return self._catalogue.entry(self.layout.name_of(image))

    def with_content(self, content: str) -> list[Entry]:
        """The images whose files have this hash (`Entry.hash`)."""
        return list(self._catalogue.entries("hash = ?", content))

    def outline(self) -> list[Outline]:
        """Id, path, hash and time of all images, read much faster than `entries`."""
        return self._catalogue.outline()

    def state(self) -> tuple[int, int]:
        """A value that is different after any change, by this process or another."""
        return self._catalogue.state()

    def features(self, image: AnyPath) -> LocalFeatures:
        """The stored local features of an image of the collection."""
        return self._reader.features(place(image))

    def thumbnail(self, image: AnyPath) -> Thumbnail:
        """A small JPEG of an image of the collection, which is stored: the image file need not exist.

        If none is stored, it is made from the image file.
        """
        entry = self._catalogue.entry(self.layout.name_of(image))
        if entry is None:
            raise InputError(f"{image} is not in the collection {self.layout.folder}")
        return self.stored_thumbnail(entry) or make_thumbnail(image)

    def stored_thumbnail(self, entry: Entry) -> Thumbnail | None:
        """The stored thumbnail of an image; None if there is none."""
        return self._thumbnails.get(entry.hash)

    def dates_taken(self, contents: Iterable[str] | None = None) -> dict[str, datetime | None]:
        """When photographs were taken, by content (`Entry.hash`): of all images, or of these; no image file is read.

        Local time without a time zone; None if the file has no date. An image without a thumbnail, or of a collection
        made by an earlier version, is left out.
        """
        with suppress(FaembError, OSError):  # it is derived data, as thumbnails are
            return self._thumbnails.dates(contents)
        return {}

    def info(self) -> Info:
        """A summary of the collection."""
        count, model = self._catalogue.count, self._current.summary()
        searchable, store = count("slot is not null"), (self._catalogue.store() or (None,))[0]
        return Info(
            images=count(),
            searchable=searchable,
            without_features=count("features = 0"),
            waiting=count("slot is null and features > 0"),
            unreadable={str(self.layout.path_of(name)): why for name, why in self._catalogue.unreadable().items()},
            folders=[str(folder) for folder in self._folders()],
            bytes=sum(map(_size, self.layout.folder.iterdir())),
            encoder=model.encoder,
            extractor=model.extractor,
            dimension=model.dimension,
            index=self._about["index"],
            index_in_use=index_in_use(self._about["index"], searchable, remote=store is not None),
            excluded={str(folder): patterns for folder, patterns in self.folders().items() if patterns},
            learned_from=self._catalogue.learned_from(),
            relearning_is_due=is_due(self._catalogue) and obstacle(self.layout, self._catalogue) is None,
            removed=len(self._catalogue.removed()),
            parts=model.parts,
            keeps_features=self._about["keep_features"] != "0",
            store=store,
            is_being_changed=is_being_changed(self.layout),
            model_fault=model.fault,
            left_stores=left_stores(self._catalogue),
        )

    def export(self, out: AnyPath, form: str, *, overwrite: bool = False) -> int:
        """Write the vectors of all encoded images as npz, fvecs, faiss, hloc-h5 or parquet; returns their number.

        Existing files that are not recognised as written by this method are replaced only with `overwrite`.
        """
        require_choice("format", form, FORMATS)
        with self._reader.rows() as rows:
            paths = self._reader.paths(rows)
        export_vectors(rows, paths, self._folders(), Path(out), form, overwrite=overwrite)
        return len(paths)

    def kept_out(self) -> list[Path]:
        """Images that were removed, and are skipped when folders are searched."""
        return sorted(map(self.layout.path_of, self._catalogue.removed()))

    def folders(self) -> dict[Path, list[str]]:
        """The remembered folders, each with the patterns of files that are left out."""
        patterns = excluded(self._catalogue)
        return {self.layout.path_of(name): patterns.get(name, []) for name in self._catalogue.folders()}

    @property
    def _kind(self) -> Kind:
        """Kind of the files that its images are read from: images, or files of local features."""
        return kind_of(self.model.extractor)

    def _folders(self) -> list[Path]:
        return [self.layout.path_of(name) for name in self._catalogue.folders()]


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):  # another process may have just deleted it
        return path.stat().st_size if path.is_file() else 0
    return 0
