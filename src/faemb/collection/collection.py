"""A searchable set of images in a folder, which can be changed at any time and survives crashes.

with Collection.create("photos.faemb", new_model()) as photos:
    photos.add("photos")
    photos.search("query.jpg", top=5)
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from faemb.collection.adding import Growth, adding, learn, learn_again, report_on
from faemb.collection.backends import BACKENDS
from faemb.collection.checking import all_faults, damaged_indexes, repair, repair_thumbnails
from faemb.collection.creating import create, settings
from faemb.collection.exclusions import exclude
from faemb.collection.gathering import gather
from faemb.collection.layout import Layout, typed
from faemb.collection.locking import only_writer
from faemb.collection.model import Model
from faemb.collection.relearning import Notice
from faemb.collection.relocation import relocate
from faemb.collection.removal import deleted, departure, doubts
from faemb.collection.searchable import SearchableCollection
from faemb.collection.sources import Images, as_list, images_in
from faemb.collection.store_transfer import clear_away, copy, forget_store
from faemb.collection.stores.milvus_server import StoreAwayError
from faemb.collection.writing import Report, Writer
from faemb.errors import TOO_FEW_FILES, FaembError, FormatError, InputError, is_lack_of_open_files
from faemb.features.folders import find_images, merged
from faemb.runtime import Progress
from faemb.runtime.parallel import Jobs
from faemb.runtime.paths_and_urls import absolute
from faemb.runtime.storage import AnyPath
from faemb.settings import require_choice


class Collection(SearchableCollection):
    """A searchable set of images in a folder.

    Images can be added, updated and removed at any time, by one process at a time; other processes may search
    meanwhile. A process may be killed at any time: everything reported as done is stored. Use it as a context manager,
    or call `close`.
    """

    make_thumbnails = True
    """Whether added images get thumbnails."""

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
            with adding(writer, self._current, sources.found, jobs, Growth(relearn, notice)) as report:
                pass
            return report

    def gather_and_learn(self, images: Images, *, jobs: Jobs = None, progress: Progress | None = None) -> Report:
        """Fit the model on images without encoding them."""
        start, found = time.monotonic(), images_in(images, kind=self._kind).found
        report = report_on(found)
        with self._changing(progress) as writer:
            gather(writer, found.images, self.model, jobs, report)
            learn(writer, self._current, report, jobs)
        report.seconds = time.monotonic() - start
        return report

    def relearn(self, *, jobs: Jobs = None, progress: Progress | None = None, notice: Notice | None = None) -> Report:
        """Learn the model again, with its settings, from the stored local features, and encode all images with it.

        Until that is complete, searches use the old model. After an interruption the next call, or `add`, continues.
        If `jobs` is a cluster, it computes the statistics and the vectors; otherwise this process does, on all cores.
        """
        start, report = time.monotonic(), Report()
        self._reader.require_fitted()
        with self._changing(progress) as writer:
            learn_again(writer, self._current, report, notice, jobs)
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
            with adding(writer, self._current, found, jobs, Growth(relearn, notice)) as report:
                if not found.unreadable:  # else an image that was not found may still exist
                    known = before & self._catalogue.hashes().keys()
                    gone = deleted(self.layout, self._catalogue, found, folders)
                    report.kept = [] if allow_removing else list(doubts(self.layout, known, gone, folders))
                    report.removed += 0 if report.kept else writer.remove_deleted(gone)
            self._compact_if_due(writer)
            return report

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
            images = all_faults(self._current, self._thumbnails)
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
                with suppress(StoreAwayError):  # the change is complete; the next writer removes unused rows
                    writer.hand_over(self._current.encoding())
        except FaembError:
            raise
        except Exception as error:  # libraries have errors of their own for it
            if not is_lack_of_open_files(error):
                raise
            raise FaembError(f"{self.layout.folder} cannot be changed: {TOO_FEW_FILES}") from error
