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
from pathlib import Path

CATALOGUE = "catalogue.sqlite"
MODEL = "model.faemb"
LOCK = "writer.lock"


class Layout:
    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.abspath(folder))

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

    def stale(self, generation: int) -> list[Path]:
        """What an earlier generation, or a process that was killed, has left behind."""
        kept = {path.name for path in (self.vectors(generation), self.short(generation), self.codes(generation))}
        kept |= {self.features(generation).name}
        data = [path for end in ("f32", "u8", "bin") for path in self.folder.glob(f"*-*.{end}")]
        old = [path for path in self.folder.glob("*-*-*.faiss") if path.stem.split("-")[-2] != str(generation)]
        return [path for path in data if path.name not in kept] + old + list(self.folder.glob(".*.tmp"))

    def name_of(self, image: Path) -> str:
        """A path as it is stored: relative where image and collection lie under one folder, so that both can move."""
        path = Path(os.path.abspath(image))
        if path.is_relative_to(self.folder.parent):
            return Path(os.path.relpath(path, self.folder)).as_posix()
        return path.as_posix()

    def path_of(self, name: str) -> Path:
        """The file that a stored name means, now."""
        return Path(os.path.normpath(self.folder / name))
