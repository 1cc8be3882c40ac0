"""The files of a new collection, in a folder of its own."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from faemb.collection.catalogue import Catalogue
from faemb.collection.description import FACT, Description
from faemb.collection.layout import MODEL, Layout, typed
from faemb.collection.locking import only_writer
from faemb.collection.migration import fingerprint_in
from faemb.collection.model import Model
from faemb.collection.schema import FORMAT, VERSION
from faemb.collection.stores.attached import made_store, new_identity
from faemb.collection.writing import LearningError
from faemb.errors import FaembError, FormatError, InputError
from faemb.runtime.storage import make_folder, require_outside_collections


def settings(fingerprint: str, *, keep_features: bool, index: str) -> dict[str, str]:
    """What a collection was asked for, as its catalogue holds it; the fingerprint is the model's as it was given."""
    return {"asked": fingerprint, "keep_features": str(int(keep_features)), "index": index}


def create(layout: Layout, model: Model, *, keep_features: bool, index: str, store: str | None = None) -> None:
    """Write the model and an empty catalogue; continues a creation with the same model that was interrupted.

    `store` is the address of a server for the vectors, which gets its first table with the first vectors.
    """
    attached = _attached(layout, model, store)
    require_outside_collections(layout.folder.parent)
    if not layout.catalogue.exists():
        if strangers := layout.strangers():
            raise InputError(_not_its_own(layout, strangers))
        make_folder(layout.folder)
    with only_writer(layout):
        if layout.catalogue.exists():
            raise InputError(
                f"there is a collection at {layout.folder} already; add to it with: "
                f"faemb add {typed(layout.folder)} IMAGES"
            )
        if layout.model().exists() and not _holds(layout.model(), model):
            raise InputError(_not_its_own(layout, [MODEL]))
        known = Description.of(model, model.save(layout.model()))
        about = {
            "format": FORMAT,
            "version": str(VERSION),
            "generation": "1",
            "model": known.fingerprint if model.is_fitted else "",
            "learned_from": "0" if model.is_fitted else "",
            FACT: known.as_text(),
            **settings(known.fingerprint, keep_features=keep_features, index=index),
            **attached,
        }
        Catalogue.create(layout.catalogue, about).close()


@contextmanager
def removed_if_useless(layout: Layout) -> Iterator[None]:
    """Removes the collection that is made in this block if none of its images can be used; earlier ones are kept."""
    is_new, has_folder = not layout.catalogue.exists(), layout.folder.exists()
    try:
        yield
    except LearningError:
        if is_new:
            with suppress(FaembError, OSError):  # another process uses it
                _remove(layout)
                if not has_folder:
                    layout.folder.rmdir()  # an error if it holds anything
        raise


def _remove(layout: Layout) -> None:
    """Delete the files of a collection in which no image has local features."""
    with only_writer(layout):
        with closing(Catalogue(layout.catalogue)) as catalogue:
            if catalogue.count("features > 0"):
                return
            generation = catalogue.generation()
        for file in (layout.catalogue, layout.thumbnails):
            for end in ("", "-wal", "-shm"):
                file.with_name(file.name + end).unlink(missing_ok=True)
        for file in (layout.features(generation), layout.model()):
            file.unlink(missing_ok=True)
    layout.lock.unlink(missing_ok=True)


def _attached(layout: Layout, model: Model, address: str | None) -> dict[str, str]:
    """What the catalogue holds about a store that can be used for vectors of this model."""
    if address is None:
        return {}
    identity = new_identity()
    with closing(made_store(layout, address, identity)) as store:
        dimension = model.dimension if model.is_fitted else model.encoder.largest_dimension
        if dimension is not None:
            store.check_dimension(dimension)
        store.require_free()
    return {"store": str(store.address), "store_id": identity, "table": "1"}


def _holds(file: Path, model: Model) -> bool:
    """Whether a file holds this model, as an interrupted creation of the same collection has saved it."""
    try:
        return fingerprint_in(file) == model.fingerprint
    except FormatError:
        return False


def _not_its_own(layout: Layout, names: Sequence[str]) -> str:
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return (
        f"the folder {layout.folder} holds files that do not belong to a collection: {shown}; "
        f"give a new folder, such as {typed(layout.folder)}.faemb"
    )
