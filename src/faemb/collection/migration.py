"""Conversion of collections of earlier format versions, in place, when they are opened.

All steps run in one transaction, under the writer's lock. A step writes and syncs new files under new names; the
catalogue names them when the transaction commits, and only then are the old files deleted. A process that is killed
leaves the old collection or the new one.

    1 -> 2    short vectors and binary codes are part of an index and are not stored for each image
    2 -> 3    the model can be learned again; images that were removed are remembered
    3 -> 4    every row of the catalogue has a checksum
    4 -> 5    vectors may lie in a server, which the catalogue names; here they lie in the folder
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from safetensors import SafetensorError, safe_open

from faemb import persistence
from faemb.collection.catalogue import Catalogue
from faemb.collection.current_model import settings_of, wrong_model
from faemb.collection.description import FACT, Description, description_in
from faemb.collection.layout import MODEL, Layout
from faemb.collection.locking import only_writer
from faemb.collection.model import Model
from faemb.collection.schema import ADDED_IN_VERSION_3, FORMAT, VERSION
from faemb.errors import DamagedModelError, FaembError, FormatError, OtherNumbersError

_NEEDED = {"generation", "model", "asked", "keep_features", "index"}


def require_format(layout: Layout, catalogue: Catalogue) -> None:
    """An error if this is not a collection, or one of a newer version."""
    about = catalogue.about()
    if about.get("format") != FORMAT:
        raise FormatError(f"{layout.catalogue} is the catalogue of something else, not of a faemb collection")
    version = about.get("version", "")
    if version not in map(str, range(1, VERSION + 1)):
        raise FormatError(
            f"{layout.folder} has format version {version}; this faemb reads up to {VERSION}: "
            "pip install --upgrade faemb"
        )
    if not about.keys() >= _NEEDED or not about["generation"].isdecimal():
        raise FormatError(f"{layout.catalogue} is damaged; restore it from a copy")


def migrate(layout: Layout, catalogue: Catalogue) -> str | None:
    """Convert a collection to the current version; a sentence about it, or None if there was nothing to do."""
    version = _version(catalogue)
    if version == VERSION:
        return None
    try:
        with only_writer(layout, catalogue):
            _require_usable(layout, catalogue)
            with catalogue.change():
                version = _version(catalogue)  # another process may have converted it meanwhile
                for step in range(version, VERSION):
                    STEPS[step](layout, catalogue)
                _describe(layout, catalogue)
            with catalogue.change():
                layout.sweep(catalogue.in_use())
    except FormatError:
        raise
    except FaembError as error:
        raise FaembError(
            f"{layout.folder} has format version {version} and must be converted to version {VERSION} "
            f"before it can be used: {error}"
        ) from error
    return f"{layout.folder} was converted from format version {version} to {VERSION}" if version < VERSION else None


def _require_usable(layout: Layout, catalogue: Catalogue) -> None:
    """An error, before anything is changed, if this version cannot use the model: the one that wrote it still can.

    A damaged model is no reason, if it can be learned again.
    """
    file, about = layout.model(catalogue.in_use().model), catalogue.about()
    try:
        model = Model.load(file)
    except OtherNumbersError as error:
        known = description_in(about)
        use = persistence.install_command(error.made_by if known is None else known.written_by)
        raise FormatError(
            f"{error.fault}; {layout.folder} was left in format version {about['version']}: use it with: {use}, "
            "or index the images again into a new collection"
        ) from error
    except DamagedModelError:
        settings_of(layout, catalogue)
        return
    if about["version"] != "1" and about["model"] not in ("", model.fingerprint):
        raise FormatError(wrong_model(file))


def _describe(layout: Layout, catalogue: Catalogue) -> None:
    """Record the model and this version, which reads it in the new format."""
    with suppress(DamagedModelError):
        catalogue.set(FACT, Description.of(Model.load(layout.model(catalogue.in_use().model))).as_text())


def _version(catalogue: Catalogue) -> int:
    return int(catalogue.about()["version"])


def _from_1_to_2(layout: Layout, catalogue: Catalogue) -> None:
    about = catalogue.about()
    source, name = layout.model(MODEL), "model-format-2.faemb"
    before = fingerprint_in(source)
    if about["model"] not in ("", before):
        raise FormatError(wrong_model(source))
    after = Model.load(source).save(layout.folder / name, overwrite=True)
    for index in layout.indexes(int(about["generation"])):
        with suppress(OSError):  # an index of stored short vectors or codes; a reader recognises and replaces it
            index.unlink()
    catalogue.run("alter table images drop column short_crc")
    catalogue.run("alter table images drop column code_crc")
    catalogue.set("model_file", name)
    for fact in ("model", "asked"):
        if about[fact] == before:
            catalogue.set(fact, after)
    catalogue.set("version", "2")


def _from_2_to_3(layout: Layout, catalogue: Catalogue) -> None:
    for statement in ADDED_IN_VERSION_3:
        catalogue.run(statement)
    about = catalogue.about()
    given = about["model"] == about["asked"]
    catalogue.set("learned_from", "0" if given else "")  # of how many images was not recorded
    catalogue.set("version", "3")


def _from_3_to_4(layout: Layout, catalogue: Catalogue) -> None:
    catalogue.add_checksums()
    catalogue.set("version", "4")


def _from_4_to_5(layout: Layout, catalogue: Catalogue) -> None:
    catalogue.set("version", "5")


STEPS: dict[int, Callable[[Layout, Catalogue], None]] = {
    1: _from_1_to_2,
    2: _from_2_to_3,
    3: _from_3_to_4,
    4: _from_4_to_5,
}
"""Each converts a collection of its version to the next one, inside a transaction."""


def fingerprint_in(path: Path) -> str:
    """The fingerprint that the file states; `Model.load` verifies the content."""
    try:
        with safe_open(path, framework="numpy") as file:
            return str((file.metadata() or {}).get("fingerprint"))
    except (OSError, SafetensorError) as error:
        raise FormatError(f"{path} cannot be read ({error}); restore it from a copy") from error
