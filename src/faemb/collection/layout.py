"""Where the parts of a collection lie in its folder, and how images are named in it.

catalogue.sqlite       the truth
model.faemb            extractor, encoder, short vectors, codes
vectors-G.f32          one slot per image; G counts compactions
short-G.f32            the same slots
codes-G.u8             the same slots
features-G.bin         packed local features, one after the other
KIND-G-N.faiss         an index of the first N slots: derived, and made again when it is missing
writer.lock            held by the one process that changes the collection
"""

import os
import re
from pathlib import Path

CATALOGUE = "catalogue.sqlite"
MODEL = "model.faemb"
LOCK = "writer.lock"

_GENERATION = re.compile(r"(?:vectors|short|codes|features)-(\d+)\.(?:f32|u8|bin)|[a-z-]+-(\d+)-\d+\.faiss")
_TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")
"""Names that this package gives; what else a user keeps in the folder is not ours to delete."""
_NO_TEXT = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile("\0([0-9a-f]{4})")


class Layout:
    def __init__(self, folder: Path) -> None:
        self.folder = _where_it_lies(Path(os.path.abspath(folder)))

    @property
    def catalogue(self) -> Path:
        return self.folder / CATALOGUE

    @property
    def model(self) -> Path:
        return self.folder / MODEL

    @property
    def lock(self) -> Path:
        return self.folder / LOCK

    def vectors(self, generation: int) -> Path:
        return self.folder / f"vectors-{generation}.f32"

    def short(self, generation: int) -> Path:
        return self.folder / f"short-{generation}.f32"

    def codes(self, generation: int) -> Path:
        return self.folder / f"codes-{generation}.u8"

    def features(self, generation: int) -> Path:
        return self.folder / f"features-{generation}.bin"

    def index(self, kind: str, generation: int, covered: int) -> Path:
        return self.folder / f"{kind}-{generation}-{covered}.faiss"

    def indexes(self, generation: int) -> list[Path]:
        return sorted(self.folder.glob(f"*-{generation}-*.faiss"))

    def stale(self, generation: int) -> list[Path]:
        """What an earlier generation, or a process that was killed, has left behind."""
        return [path for path in self.folder.iterdir() if _is_stale(path.name, generation)]

    def name_of(self, image: Path) -> str:
        """A path as it is stored: relative where image and collection lie under one folder, so that both can move."""
        path = Path(os.path.abspath(image))
        if path.is_relative_to(self.folder.parent):
            path = Path(os.path.relpath(path, self.folder))
        # Linux allows names that are no text, a database does not; no name has a NUL.
        return _NO_TEXT.sub(lambda part: f"\0{ord(part[0]):04x}", path.as_posix())

    def path_of(self, name: str) -> Path:
        """The file that a stored name means, now."""
        return Path(os.path.normpath(self.folder / _ESCAPED.sub(lambda part: chr(int(part[1], 16)), name)))


def _where_it_lies(folder: Path) -> Path:
    """The folder by the name that was used, unless that is a link from elsewhere: names are relative to its place."""
    real = Path(os.path.realpath(folder))
    return folder if real.parent == Path(os.path.realpath(folder.parent)) else real


def _is_stale(name: str, generation: int) -> bool:
    ours = _GENERATION.fullmatch(name)
    if ours is None:
        return _TEMPORARY.fullmatch(name) is not None
    return str(generation) not in ours.groups()
