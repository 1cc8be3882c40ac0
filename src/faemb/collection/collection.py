"""A searchable set of images in a folder, which can be changed at any time and survives crashes.

with Collection.create("photos.faemb", new_model()) as photos:
    photos.add("photos")
    photos.search("query.jpg", top=5)
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, cast

from faemb.collection.backends import BACKENDS, index_in_use
from faemb.collection.catalogue import Catalogue, Entry, Outline
from faemb.collection.checking import damaged_indexes, faults, repair, repair_thumbnails, thumbnail_faults
from faemb.collection.copying import clear_away, copy, forget_store, left_stores
from faemb.collection.creating import create, settings
from faemb.collection.current_model import CurrentModel
from faemb.collection.departing import deleted, departure, doubts
from faemb.collection.duplicates import Asked
from faemb.collection.encoding import encode_elsewhere
from faemb.collection.exclusions import exclude, excluded
from faemb.collection.explaining import Explainer, Explanation
from faemb.collection.export import FORMATS, export_vectors
from faemb.collection.file_state import note_on_files
from faemb.collection.gathering import gather
from faemb.collection.layout import Layout, typed
from faemb.collection.locking import is_being_changed, only_writer
from faemb.collection.migration import migrate, require_format
from faemb.collection.model import Model
from faemb.collection.queries import QueryFeatures, query_features
from faemb.collection.reading import Reader, View
from faemb.collection.relearning import Notice, has_outgrown, is_due, obstacle, relearn
from faemb.collection.relocation import relocate
from faemb.collection.results import Answer, GroupedImage, Groups, Hit, Info
from faemb.collection.row_repair import row_faults
from faemb.collection.searching import Searcher, Wanted
from faemb.collection.sources import Images, as_list, images_in
from faemb.collection.stores.attached import CurrentStore
from faemb.collection.stores.milvus_server import StoreAwayError
from faemb.collection.thumbnails import Thumbnail, Thumbnails, make_thumbnail
from faemb.collection.writing import LearningError, Report, Writer
from faemb.errors import TOO_FEW_FILES, FaembError, Fault, FormatError, InputError, is_lack_of_open_files
from faemb.features import LocalFeatures
from faemb.features.feature_files import kind_of
from faemb.features.folders import Found, Kind, by_suffix, find_images, merged
from faemb.features.image import ImageLike
from faemb.rerank import VERIFIED
from faemb.runtime import Progress, silent
from faemb.runtime.parallel import Jobs, Machines
from faemb.runtime.paths_and_urls import absolute, place
from faemb.runtime.storage import AnyPath
from faemb.settings import require_choice

DEFAULT_TOP = 10


class Collection:
    """A searchable set of images in a folder.

    Images can be added, updated and removed at any time, by one process at a time; other processes may search
    meanwhile. A process may be killed at any time: everything reported as done is stored. Use it as a context manager,
    or call `close`.
    """

    migrated: str | None
    """A sentence if opening the collection has converted it from an earlier format version."""
    make_thumbnails = True
    """Whether added images get thumbnails."""

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
    def open(cls, folder: AnyPath, *, device: str = "cpu", store: str | None = None) -> "Collection":
        """Open an existing collection; one of an older format is converted.

        device: where images are encoded: "cpu" or "cuda"
        store:  new address of the server with its vectors, if it has moved
        """
        return cls(folder, device=device, store=store)

    @classmethod
    def create(
        cls,
        folder: AnyPath,
        model: Model,
        *,
        keep_features: bool = True,
        index: str = "auto",
        device: str = "cpu",
        store: str | None = None,
    ) -> "Collection":
        """A new collection in a new or empty folder; a model that is not fitted learns from the first images added.

        With `store`, such as "milvus://127.0.0.1:19530/photos", its vectors lie in that server.
        """
        require_choice("index", index, BACKENDS)
        model.check_settings()
        model.extractor.check_settings()
        create(Layout(folder), model, keep_features=keep_features, index=index, store=store)
        return cls(folder, device=device)

    @classmethod
    def resume(
        cls,
        folder: AnyPath,
        model: Model,
        *,
        keep_features: bool = True,
        index: str = "auto",
        device: str = "cpu",
        store: str | None = None,
        folders: Sequence[Path] = (),
    ) -> "Collection":
        """The collection that an earlier call with the same arguments created, or a new one.

        `folders` are those that will be added: a collection of other images is refused.
        """
        if not Layout(folder).catalogue.exists():
            return cls.create(folder, model, keep_features=keep_features, index=index, device=device, store=store)
        collection = cls(folder, device=device, store=store)
        asked = settings(model.fingerprint, keep_features=keep_features, index=index)
        if any(collection._about[name] != value for name, value in asked.items()):
            collection.close()
            raise InputError(
                f"the collection {folder} was made with other settings; add images to it with: "
                f"faemb add {typed(folder)} IMAGES, or give another name"
            )
        strange = [each for each in folders if not collection._knows(each)]
        if strange:
            collection.close()
            raise InputError(
                f"{typed(folder)} is a collection of other images; add the folder to it with: "
                f"faemb add {typed(folder)} {typed(strange[0])}, or give another name"
            )
        return collection

    def close(self) -> None:
        """Close the catalogue, and the connection to a server with the vectors."""
        self._store.close()
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
        return self._current.get()

    # Changing.

    def add(
        self,
        images: Images,
        *,
        relearn: bool = True,
        jobs: Jobs = None,
        progress: Progress | None = None,
        notice: Notice | None = None,
    ) -> Report:
        """Add files and folders; folders are remembered for `update`. Unchanged images are skipped.

        `images_in(images, exclude)` leaves files out, here and in every `update`. Images that were removed are skipped
        if they are found in a folder, and added again if their files themselves are given. If `relearn`, the model is
        learned again when the collection has outgrown it; `notice` is called with a sentence before that.
        """
        sources = images_in(images, kind=self._kind)
        with self._changing(progress) as writer:
            with self._catalogue.change():
                for folder in sources.folders:
                    self._catalogue.add_folder(self.layout.name_of(folder))
                    exclude(self._catalogue, self.layout.name_of(folder), sources.exclude)
                for file in sources.files:
                    self._catalogue.forget_removed(self.layout.name_of(file))
            with self._adding(writer, sources.found, jobs, _Growth(relearn, notice)) as report:
                pass
            return report

    def gather_and_learn(self, images: Images, *, jobs: Jobs = None, progress: Progress | None = None) -> Report:
        """Fit the model on images without encoding them."""
        start, found = time.monotonic(), images_in(images, kind=self._kind).found
        report = _report_on(found)
        with self._changing(progress) as writer:
            gather(writer, found.images, self.model, jobs, report)
            self._learn(writer, report, jobs)
        report.seconds = time.monotonic() - start
        return report

    def relearn(self, *, progress: Progress | None = None, notice: Notice | None = None) -> Report:
        """Learn the model again, with its settings, from the stored local features, and encode all images with it.

        Until that is complete, searches use the old model. After an interruption the next call, or `add`, continues.
        """
        start, report = time.monotonic(), Report()
        self._reader.require_fitted()
        with self._changing(progress) as writer:
            self._relearn(writer, report, notice or _unheard)
            self._compact_if_due(writer)
        report.seconds = time.monotonic() - start
        return report

    def update(
        self,
        *,
        allow_removing: bool = False,
        relearn: bool = True,
        jobs: Jobs = None,
        progress: Progress | None = None,
        notice: Notice | None = None,
    ) -> Report:
        """Search the remembered folders again: add new images, encode changed ones again, remove deleted ones.

        If so many files are missing that a drive may be disconnected, nothing is removed, unless `allow_removing`.
        """
        folders = self._folders()
        missing = [folder for folder in folders if not folder.is_dir()]
        if missing:
            raise InputError(self._without(missing))
        kind = self._kind
        found = merged(find_images([folder], patterns, kind) for folder, patterns in self.folders().items())
        with self._changing(progress) as writer:
            before = self._catalogue.hashes().keys()
            with self._adding(writer, found, jobs, _Growth(relearn, notice)) as report:
                if not found.unreadable:  # else an image that was not found may still exist
                    known = before & self._catalogue.hashes().keys()
                    gone = deleted(self.layout, self._catalogue, found, folders)
                    report.kept = [] if allow_removing else list(doubts(self.layout, known, gone, folders))
                    report.removed += 0 if report.kept else writer.remove_deleted(gone)
            self._compact_if_due(writer)
            return report

    def _without(self, missing: Sequence[Path]) -> str:
        """The sentence on remembered folders that are not there, with a command for each."""
        collection, names = typed(self.layout.folder), ", ".join(map(str, missing))
        several = len(missing) > 1
        fact = f"folders {names} are not there, and their" if several else f"folder {names} is not there, and its"
        places = "; ".join(f"faemb relocate {collection} {typed(folder)} NEW_FOLDER" for folder in missing)
        return (
            f"the {fact} images were not touched; connect the drive, or give the new place with: {places}, or remove "
            f"the images with: faemb remove {collection} {' '.join(map(typed, missing))}"
        )

    def _knows(self, folder: Path) -> bool:
        """Whether a folder is remembered, or holds any of the images; an empty collection takes every folder."""
        name, names = self.layout.name_of(folder), self._catalogue.hashes().keys()
        return not names or name in self._catalogue.folders() or any(each.startswith(f"{name}/") for each in names)

    def relocate(self, old: AnyPath, new: AnyPath) -> int:
        """Record that a folder or file of images has been moved, without reading it; returns the number of images."""
        places = absolute(old), absolute(new)
        with self._changing(None):
            return relocate(self.layout, self._catalogue, *places)

    def remove(self, images: AnyPath | Iterable[AnyPath]) -> int:
        """Remove images by path, or all images below a folder; returns their number.

        `update` does not add them again: a removed folder is no longer searched, and removed images are skipped. `add`
        does, if it is given the file of an image itself, or a removed folder.
        """
        with self._changing(None) as writer:
            removed = writer.take_out(departure(self.layout, self._catalogue, as_list(images)))
            self._compact_if_due(writer)
        return removed

    def bring_back(self, image: AnyPath, id: int) -> Report:
        """Add an image that was removed, under the id that it had (`Entry.id`): what names it by its id is valid again.

        If it was added again before, it keeps the id that it has now.
        """
        with self._catalogue.with_ids({self.layout.name_of(image): id}):
            return self.add([image], relearn=False)

    def copy(self, address: str, *, progress: Progress | None = None) -> int:
        """Copy all vectors to another store and use them there: "milvus://HOST:PORT/NAME", or "embedded".

        "embedded" is the collection's own folder. The copy is compared with the original, which is then deleted; local
        features, thumbnails and the catalogue stay in the folder. Returns the number of images that have vectors.
        """
        with self._changing(progress) as writer:
            return copy(writer, self.model, address)

    def forget_store(self, address: str) -> None:
        """Forget a store that was left and could not be deleted (`Info.left_stores`); its server is not asked."""
        with only_writer(self.layout, self._catalogue):
            forget_store(self.layout, self._catalogue, address)

    def forget_unusable(self, files: Iterable[AnyPath]) -> None:
        """Drop the records of files that could not be used, and that do not exist any more."""
        with self._changing(None), self._catalogue.change():
            for file in files:
                self._catalogue.forget_unreadable(self.layout.name_of(file))

    def kept_out(self) -> list[Path]:
        """Images that were removed, and are skipped when folders are searched."""
        return sorted(map(self.layout.path_of, self._catalogue.removed()))

    @contextmanager
    def _adding(self, writer: Writer, found: Found, jobs: Jobs, growth: "_Growth") -> Iterator[Report]:
        """Store images; after the block, which may remove others, learn if necessary and encode."""
        start, report = time.monotonic(), _report_on(found)
        outgrown = has_outgrown(self._catalogue)
        gather(writer, self._welcome(found.images, report), self.model, jobs, report)
        yield report
        if not self.model.is_fitted:
            self._learn(writer, report, jobs)
        elif growth.wanted and is_due(self._catalogue):
            self._grow(writer, report, growth.notice or _unheard, jobs, said=outgrown)
        if isinstance(jobs, Machines):
            encode_elsewhere(writer, self.model, jobs)
        writer.encode_waiting(self.model)
        report.seconds = time.monotonic() - start

    def _welcome(self, images: Sequence[Path], report: Report) -> list[Path]:
        """The images that were not removed by the user."""
        if not self._catalogue.has_removed():  # avoids building a name for every image
            return list(images)
        names = [self.layout.name_of(image) for image in images]
        removed = self._catalogue.removed_among(names)
        kept = [image for image, name in zip(images, names, strict=True) if name not in removed]
        report.kept_out = len(images) - len(kept)
        return kept

    def _learn(self, writer: Writer, report: Report, jobs: Jobs) -> None:
        model = self.model
        self._current.forget()  # read again if learning fails, since it may be partly fitted
        try:
            self._current.keep(model, writer.learn(model, jobs))
        except InputError as error:
            raise LearningError(str(error), report) from error

    def _grow(self, writer: Writer, report: Report, notice: Notice, jobs: Jobs, *, said: bool) -> None:
        """Learn the model again if possible; if not, say so, unless that was `said` by an earlier change."""
        hindrance = obstacle(self.layout, self._catalogue)
        if hindrance is not None:
            if not said:
                notice(f"the collection has outgrown its model; {hindrance}")
            return
        try:
            self._relearn(writer, report, notice, jobs)
        except (InputError, FormatError) as error:  # the images are added with the old model
            notice(f"the model was not learned again: {error}")

    def _relearn(self, writer: Writer, report: Report, notice: Notice, jobs: Jobs = None) -> None:
        done = relearn(writer, self._current.to_learn(), notice, jobs)
        self._current.keep(done.model, done.fingerprint)
        report.relearned_from = done.learned_from

    def _compact_if_due(self, writer: Writer) -> None:
        if writer.compaction_is_due():
            writer.compact(self._current.encoding())

    @contextmanager
    def _changing(self, progress: Progress | None, *, repairing: bool = False) -> Iterator[Writer]:
        """A writer, with the lock that allows only one process to change the collection."""
        try:
            with only_writer(self.layout, self._catalogue):
                writer = Writer(self.layout, self._catalogue, progress, self._store.get())
                writer.make_thumbnails = self.make_thumbnails
                clear_away(self.layout, self._catalogue)
                if writer.store.address is None:
                    yield writer
                    return
                writer.take_over(self._current.encoding(), repairing=repairing)
                self._store.remember()
                yield writer
                with suppress(
                    StoreAwayError
                ):  # the change is complete; the next writer removes unused rows from the server
                    writer.hand_over(self._current.encoding())
        except FaembError:
            raise
        except Exception as error:  # libraries have errors of their own for it
            if not is_lack_of_open_files(error):
                raise
            raise FaembError(f"{self.layout.folder} cannot be changed: {TOO_FEW_FILES}") from error

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
        verify: int = VERIFIED,
        least_confidence: float | None = None,
        expand: str = "none",
        query_parts: int = 0,
    ) -> list[Answer]:
        """The images that show the same thing as each query: a path, a Pillow image, an array, or a list of them.

        The `verify` most similar images are verified by their local features, and ranked by the confidence that they
        show the same thing; 0 ranks by similarity alone.
        With `expand="results"`, results whose verdict is "same" are used as queries too; hits found so have `through`
        and a confidence of at most 0.6. If there is no such result, 100 more candidates are verified. With `verify=0`,
        "average" is query expansion, "augmented" database-side augmentation, and "scaled" subtracts half the mean
        similarity of each image to its neighbours.
        With `box` (x1, y1, x2, y2), only this region of each query is used; with `threshold` or `least_confidence`,
        only hits of at least this similarity or confidence are returned. A query that is in the collection is a hit
        like any other, marked `itself`; without `count_itself` it is returned in addition to `top` hits.
        With `query_parts`, n x n overlapping parts of each query are searched for as well, which finds images that
        show only a part of it.
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
        progress: Progress | None = None,
    ) -> tuple[list[Answer], list[Fault]]:
        """As `search`, with a sentence for each query that cannot be read instead of an error."""
        wanted = Wanted(top, threshold, index, count_itself, verify, least_confidence, expand, query_parts)
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
        among: Iterable[int] | None = None,
    ) -> list[Answer]:
        """As `search`, for local features from the collection's own extractor.

        files: the file of each query, by which the query itself and its copies are recognised
        among: ids of the images (`Entry.id`) that may be results
        """
        wanted = Wanted(
            *(top, threshold, index, True, verify, least_confidence, expand, query_parts),
            among=None if among is None else frozenset(among),
        )
        return self._searcher.features(
            [query_features(query) for query in queries], names or [""] * len(queries), wanted, files
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
        asked = Asked(threshold, same_thing=same_thing, mirrored=mirrored, verify=verify)
        return self._searcher.duplicates(asked, index=index, progress=progress or silent)

    def explain(self, query: ImageLike, result: ImageLike, *, box: Sequence[float] | None = None) -> Explanation:
        """Why `result` is a result of `query`: which regions match, and which transform they agree with.

        `result` is the path of an image of the collection, or another image, which is processed like a query. If local
        features cannot be compared: how much each feature of the query contributes to the similarity.
        """
        return Explainer(self._reader, self._thumbnails).explain(query, result, box)

    def explain_features(
        self,
        query: LocalFeatures | QueryFeatures,
        result: AnyPath,
        *,
        file: Path | None = None,
        box: Sequence[float] | None = None,
    ) -> Explanation:
        """As `explain`, for local features from the collection's own extractor, and without the pictures.

        `file` is the query's file, if it has one; `box` the region in which the features lie.
        """
        return Explainer(self._reader, self._thumbnails).explain_features(query_features(query), result, file, box)

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

    @property
    def _kind(self) -> Kind:
        """Kind of the files that its images are read from: images, or files of local features."""
        return kind_of(self.model.extractor)

    def _folders(self) -> list[Path]:
        return [self.layout.path_of(name) for name in self._catalogue.folders()]

    def folders(self) -> dict[Path, list[str]]:
        """The remembered folders, each with the patterns of files that are left out."""
        patterns = excluded(self._catalogue)
        return {self.layout.path_of(name): patterns.get(name, []) for name in self._catalogue.folders()}

    # Checking.

    def check(self, *, repair: bool = False, jobs: int | None = None, progress: Progress | None = None) -> list[str]:
        """A sentence for each item that does not match its checksum; with `repair` it is computed again."""
        damage = self._repaired_catalogue() if repair else self._catalogue.fault()
        if damage is not None:
            return [f"{self.layout.catalogue} is damaged ({damage}); restore it from a copy"]
        indexes = damaged_indexes(self.layout, self._catalogue)
        if repair:
            images = self._repair(jobs, progress)
            for path in indexes:
                path.unlink(missing_ok=True)
        else:
            fault = self._current.summary().fault
            images = [] if fault is None else [fault]
            images += [row.sentence for row in row_faults(self._catalogue)]
            images += [str(fault) for fault in faults(self._current)]
            images += thumbnail_faults(self._thumbnails)
        return [*images, *(f"the index {path} is damaged" for path in indexes)]

    def _repaired_catalogue(self) -> str | None:
        """The damage that remains after SQLite's indexes were rebuilt; None if there is none."""
        damage = self._catalogue.fault()
        if damage is not None:
            with suppress(FormatError), self._changing(None), self._catalogue.change():
                self._catalogue.reindex()
            damage = self._catalogue.fault()
        return damage

    def _repair(self, jobs: int | None, progress: Progress | None) -> list[str]:
        with self._changing(progress, repairing=True) as writer:
            return repair(writer, self._current, jobs) + repair_thumbnails(writer, jobs)


class _Growth(NamedTuple):
    """Whether to learn an outgrown model again, and the function that is called before."""

    wanted: bool
    notice: Notice | None


def _unheard(sentence: str) -> None:
    pass


def _report_on(found: Found) -> Report:
    """A new report, with unreadable files and files of other kinds."""
    return Report(failed=list(found.unreadable), passed_over=by_suffix(found.others))


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):  # another process may have just deleted it
        return path.stat().st_size if path.is_file() else 0
    return 0
