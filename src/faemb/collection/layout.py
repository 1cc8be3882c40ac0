"""Names of the files in a collection's folder, and names of images in its catalogue.

catalogue.sqlite       the catalogue: images, and where their data lies
model.faemb            extractor and encoder; model-generation-G.faemb if it was learned again
vectors-G.f32          vectors, one slot per image; G is the generation: it counts compactions and relearnings
features-G.bin         packed local features, one image after the other
thumbnails.sqlite      small JPEGs, by the hash of the image file
KIND-G-N.faiss         an index of the first N vectors, rebuilt when it is missing
writer.lock            locked by the one process that changes the collection
"""

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from faemb.runtime.storage import CATALOGUE

MODEL = "model.faemb"
THUMBNAILS = "thumbnails.sqlite"
LOCK = "writer.lock"

INDEX_KINDS = ("hnsw", "ivf-pq", "binary")
_NUMBER = "([1-9][0-9]*)"
_GENERATION = re.compile(
    rf"vectors-{_NUMBER}\.f32|features-{_NUMBER}\.bin|model-generation-{_NUMBER}\.faemb"
    rf"|(?:{'|'.join(INDEX_KINDS)})-{_NUMBER}-[0-9]+\.faiss|short-{_NUMBER}\.f32|codes-{_NUMBER}\.u8"
)
"""Files of a generation. Those of format version 1, `short` and `codes`, are never in use."""
_MODELS = re.compile(rf"model(?:-format-2|-generation-{_NUMBER})?\.faemb")
_UNUSED = re.compile(r"\.[0-9a-f]{16}\.tmp|thumbnails\.new(?:-wal|-shm)?")
"""Temporary files. Other files in the folder belong to the user and are kept."""
_BEFORE_ITS_CATALOGUE = re.compile(rf"{re.escape(LOCK)}|catalogue\.new.*|\..*")
"""Files of a creation that was interrupted, beside the model; hidden files, which are no images, do not matter."""
_NO_TEXT = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile("\0([0-9a-f]{4})")


@dataclass(frozen=True)
class InUse:
    """The files that a catalogue names: those of a generation, and of the next one while the model is learned again."""

    generation: int
    model: str
    next_generation: int | None = None
    next_model: str | None = None


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
        """Plain files alone; a link or a folder of such a name is none of ours."""
        named = (
            path for path in sorted(self.folder.glob(f"*-{generation}-*.faiss")) if _GENERATION.fullmatch(path.name)
        )
        return [path for path in named if path.is_file() and not path.is_symlink()]

    def strangers(self) -> list[str]:
        """Names of files, before there is a catalogue, that no interrupted creation can have left."""
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
            with suppress(OSError):  # some systems refuse to delete a file that is being read: next time
                leftover.unlink()

    def name_of(self, image: str | os.PathLike[str]) -> str:
        """The name under which an image is stored.

        Relative to the collection if both lie in the folder that holds the collection, so that they can move together.
        """
        path = Path(os.path.abspath(image))
        if path.is_relative_to(self.folder.parent):
            path = Path(os.path.relpath(path, self.folder))
        # Linux allows file names that are not valid text; SQLite does not. No file name contains NUL.
        return _NO_TEXT.sub(lambda part: f"\0{ord(part[0]):04x}", path.as_posix())

    def path_of(self, name: str) -> Path:
        """The file that has this stored name."""
        return Path(os.path.normpath(self.folder / _ESCAPED.sub(lambda part: chr(int(part[1], 16)), name)))


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
    return generation <= used.generation + 1 and not in_use


def _resolved(folder: Path) -> Path:
    """The folder as given, or the target of a link to another place: stored names are relative to where it lies."""
    real = Path(os.path.realpath(folder))
    return folder if real.parent == Path(os.path.realpath(folder.parent)) else real
