"""Names of the files in a collection's folder, and names of images in its catalogue.

catalogue.sqlite       the catalogue: images, and where their data lies
model.faemb            extractor and encoder
vectors-G.f32          vectors, one slot per image; G is the generation, the number of compactions plus 1
features-G.bin         packed local features, one image after the other
thumbnails.sqlite      small JPEGs, by the hash of the image file
KIND-G-N.faiss         an index of the first N slots, rebuilt when it is missing
writer.lock            locked by the one process that changes the collection
"""

import os
import re
from contextlib import suppress
from pathlib import Path

from faemb.runtime.storage import CATALOGUE

MODEL = "model.faemb"
THUMBNAILS = "thumbnails.sqlite"
LOCK = "writer.lock"

_GENERATION = re.compile(r"(?:vectors|features)-(\d+)\.(?:f32|bin)|[a-z-]+-(\d+)-\d+\.faiss")
_UNUSED = re.compile(r"\.[0-9a-f]{16}\.tmp|(?:short-\d+\.f32|codes-\d+\.u8)|thumbnails\.new(?:-wal|-shm)?")
"""Temporary files, and files of format version 1. Other files in the folder belong to the user and are kept."""
_NO_TEXT = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile("\0([0-9a-f]{4})")


class Layout:
    def __init__(self, folder: str | os.PathLike[str], model: str = MODEL) -> None:
        self.folder = _resolved(Path(os.path.abspath(folder)))
        self._model = model

    @property
    def catalogue(self) -> Path:
        return self.folder / CATALOGUE

    @property
    def model(self) -> Path:
        return self.folder / self._model

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
        return [
            path for path in sorted(self.folder.glob(f"*-{generation}-*.faiss")) if _GENERATION.fullmatch(path.name)
        ]

    def stale(self, generation: int) -> list[Path]:
        """Files left behind by an earlier generation or format version, or by a process that was killed."""
        return [path for path in self.folder.iterdir() if self._is_stale(path.name, generation)]

    def sweep(self, generation: int) -> None:
        """Delete stale files."""
        for leftover in self.stale(generation):
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

    def _is_stale(self, name: str, generation: int) -> bool:
        if name == MODEL:
            return self._model != MODEL
        of_generation = _GENERATION.fullmatch(name)
        if of_generation is not None:
            return str(generation) not in of_generation.groups()
        return _UNUSED.fullmatch(name) is not None


def _resolved(folder: Path) -> Path:
    """The folder as given, or the target of a link to another place: stored names are relative to where it lies."""
    real = Path(os.path.realpath(folder))
    return folder if real.parent == Path(os.path.realpath(folder.parent)) else real
