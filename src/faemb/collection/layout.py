"""Names of the files in a collection's folder, and names of images in its catalogue.

catalogue.sqlite       the catalogue: images, and where their data lies
model.faemb            extractor and encoder; model-generation-G.faemb if it was learned again
vectors-G.f32          vectors, one slot per image; G is the generation: it counts compactions and relearnings
features-G.bin         packed local features, one image after the other
thumbnails.sqlite      small JPEGs, by the hash of the image file
KIND-G-N.faiss         an index of the first N vectors, rebuilt when it is missing
KIND-TABLE-COVERED.map if the vectors lie in a server: the linear map of an index there, which covers the first COVERED
                       slots of table TABLE
writer.lock            locked by the one process that changes the collection
"""

import os
import re
import shlex
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from faemb.runtime.paths_and_urls import Url, absolute, absolute_text, is_url, place
from faemb.runtime.storage import CATALOGUE

MODEL = "model.faemb"
THUMBNAILS = "thumbnails.sqlite"
LOCK = "writer.lock"

INDEX_KINDS = ("rabitq", "hnsw", "ivf-pq", "binary")
_NUMBER = "([1-9][0-9]*)"
_GENERATION = re.compile(
    rf"vectors-{_NUMBER}\.f32|features-{_NUMBER}\.bin|model-generation-{_NUMBER}\.faemb"
    rf"|(?:{'|'.join(INDEX_KINDS)})-{_NUMBER}-[0-9]+\.(?:faiss|map)|short-{_NUMBER}\.f32|codes-{_NUMBER}\.u8"
)
"""Files of a generation. Those of format version 1, `short` and `codes`, are never in use."""
_MODELS = re.compile(rf"model(?:-format-2|-generation-{_NUMBER})?\.faemb")
_UNUSED = re.compile(r"\.[0-9a-f]{16}\.tmp|thumbnails\.new(?:-wal|-shm)?")
"""Temporary files. Other files in the folder belong to the user and are kept."""
_BEFORE_ITS_CATALOGUE = re.compile(rf"{re.escape(LOCK)}|catalogue\.new.*|\..*")
"""Files, beside the model, that an interrupted creation leaves; hidden files may be there too."""
_NO_TEXT = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile("\0([0-9a-f]{4})")


@dataclass(frozen=True)
class InUse:
    """The files that a catalogue names: those of a generation, and of the next one while the model is learned again."""

    generation: int
    model: str
    next_generation: int | None = None
    next_model: str | None = None
    table: int | None = None
    """Number of the table of vectors in a server; None if they lie in the folder."""


class Layout:
    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = _resolved(Path(os.path.abspath(folder)))

    @property
    def catalogue(self) -> Path:
        return self.folder / CATALOGUE

    def model(self, name: str = MODEL) -> Path:
        return self.folder / name

    @property
    def lock(self) -> Path:
        return self.folder / LOCK

    @property
    def thumbnails(self) -> Path:
        return self.folder / THUMBNAILS

    def vectors(self, generation: int) -> Path:
        return self.folder / f"vectors-{generation}.f32"

    def features(self, generation: int) -> Path:
        return self.folder / f"features-{generation}.bin"

    def index(self, kind: str, generation: int, covered: int) -> Path:
        return self.folder / f"{kind}-{generation}-{covered}.faiss"

    def indexes(self, generation: int) -> list[Path]:
        """Index files of a generation; a link or a folder of such a name is not ours."""
        named = (
            path for path in sorted(self.folder.glob(f"*-{generation}-*.faiss")) if _GENERATION.fullmatch(path.name)
        )
        return [path for path in named if path.is_file() and not path.is_symlink()]

    def strangers(self) -> list[str]:
        """Files that do not belong to a collection, while there is no catalogue."""
        if not self.folder.is_dir():
            return []
        names = sorted(path.name for path in self.folder.iterdir())
        return [name for name in names if name != MODEL and not _BEFORE_ITS_CATALOGUE.fullmatch(name)]

    def stale(self, used: InUse) -> list[Path]:
        """Files left behind by an earlier generation or format version, or by a process that was killed."""
        return [path for path in self.folder.iterdir() if _is_stale(path.name, used)]

    def sweep(self, used: InUse) -> None:
        """Delete stale files."""
        for leftover in self.stale(used):
            with suppress(OSError):  # some systems refuse to delete an open file; deleted next time
                leftover.unlink()

    def name_of(self, image: str | os.PathLike[str]) -> str:
        """The name under which an image is stored.

        Relative to the collection if both lie in the folder that holds the collection, so that they can move together.
        A URL is stored as its text, without secrets; no name of a local file contains "://", since paths have no "//".
        """
        path = absolute_text(place(image))
        if is_url(path) or path in (str(self.folder), str(self.folder.parent)):
            return _as_text(_seen_from(self.folder, path))
        folder, name = os.path.split(path)
        return _start(self.folder, folder) + _as_text(name)

    def names_of(self, image: str | os.PathLike[str]) -> set[str]:
        """The names under which an image may be stored: its absolute path too, if the collection has been moved."""
        return {self.name_of(image), _as_text(absolute(image).as_posix())}

    def path_of(self, name: str) -> Path:
        """The file that has this stored name."""
        text = _ESCAPED.sub(lambda part: chr(int(part[1], 16)), name)
        return Url(text) if is_url(text) else Path(os.path.normpath(self.folder / text))


def typed(path: str | os.PathLike[str]) -> str:
    """A path for a command line in the current folder: relative if it lies below, quoted where a shell needs it."""
    full = absolute(path)
    here = Path(os.path.abspath(os.curdir))
    return shlex.quote(str(full.relative_to(here) if full.is_relative_to(here) else full))


def repair_command(file: Path) -> str:
    """The command that repairs the collection to which a file belongs."""
    return f"faemb check {typed(file.parent)} --repair"


@lru_cache(maxsize=64)
def _start(collection: Path, folder: str) -> str:
    """Prefix of the stored names of the files in a folder. Cached: files that are named together lie in few folders."""
    name = _as_text(_seen_from(collection, folder))
    return "" if name == "." else name if name.endswith("/") else f"{name}/"


def _seen_from(collection: Path, path: str) -> str:
    if not is_url(path) and Path(path).is_relative_to(collection.parent):
        path = os.path.relpath(path, collection)
    return path.replace(os.sep, "/")


def _as_text(name: str) -> str:
    # Linux allows file names that are not valid text; SQLite does not. No file name contains NUL.
    return _NO_TEXT.sub(lambda part: f"\0{ord(part[0]):04x}", name)


def is_model_name(name: str) -> bool:
    """Whether a collection may give this name to the file of its model."""
    return _MODELS.fullmatch(name) is not None


def relearned_model(generation: int) -> str:
    """Name of the file of a model that was learned for this generation."""
    return f"model-generation-{generation}.faemb"


def _is_stale(name: str, used: InUse) -> bool:
    """Whether a file was written by this package, and is not in use.

    No collection has files of a generation after the next one: such a name, vectors-2024.f32, was given by a user.
    """
    if name in (used.model, used.next_model):
        return False
    of_generation = _GENERATION.fullmatch(name)
    if of_generation is None:
        return _MODELS.fullmatch(name) is not None or _UNUSED.fullmatch(name) is not None
    generation = next(int(number) for number in of_generation.groups() if number)
    in_use = generation in (used.generation, used.next_generation) and not name.startswith(("model", "short", "codes"))
    if name.endswith(".map"):
        in_use = generation == used.table
    elif used.table is not None:
        in_use &= not name.endswith((".f32", ".faiss"))
    return generation <= used.generation + 1 and not in_use


def _resolved(folder: Path) -> Path:
    """The folder as given, or the target of a link to another place: stored names are relative to where it lies."""
    real = Path(os.path.realpath(folder))
    return folder if real.parent == Path(os.path.realpath(folder.parent)) else real
