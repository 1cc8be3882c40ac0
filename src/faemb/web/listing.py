"""Which images a collection has: names, folders and dates, for browsing and for filters."""

from dataclasses import dataclass, field
from pathlib import Path

from faemb.collection import Collection
from faemb.collection.catalogue import Entry


@dataclass(frozen=True)
class Listed:
    id: int
    path: Path
    width: int
    height: int
    changed: int
    """Nanoseconds since 1970: when the file was last changed."""

    @classmethod
    def of(cls, entry: Entry, photos: Collection) -> "Listed":
        return cls(entry.id, photos.layout.path_of(entry.path), entry.width, entry.height, entry.changed)


@dataclass(frozen=True)
class Filter:
    """What a user restricts a search to; an empty field restricts nothing."""

    folder: str = ""
    """Images in it and in the folders below."""
    name: str = ""
    """Part of the file's name, in upper or lower case."""

    def __bool__(self) -> bool:
        return bool(self.folder or self.name)

    def fits(self, image: Listed) -> bool:
        if self.folder and not image.path.is_relative_to(self.folder):
            return False
        return self.name.casefold() in image.path.name.casefold()


@dataclass
class Listing:
    """The images by path; read again after a change. Used by one thread."""

    _state: tuple[int, int] | None = None
    _images: list[Listed] = field(default_factory=list)

    def images(self, photos: Collection) -> list[Listed]:
        state = photos.state()
        if state != self._state:
            self._images = sorted((Listed.of(entry, photos) for entry in photos.entries()), key=lambda each: each.path)
            self._state = state
        return self._images

    def fitting(self, photos: Collection, wanted: Filter) -> list[Listed]:
        return [image for image in self.images(photos) if wanted.fits(image)]
