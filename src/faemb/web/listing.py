"""Which images a collection has: names, folders and dates, for browsing and for filters."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path

from faemb.collection import Collection
from faemb.collection.catalogue import Outline
from faemb.runtime.paths_and_urls import Url, is_url
from faemb.web.problems import text


@dataclass(frozen=True)
class Dated:
    """When an image was made, in local time without a zone."""

    date: datetime
    taken: bool
    """Whether that is when the photograph was taken, by its EXIF data; else when the file was last changed."""


class Dates:
    """Dates of photographs by content, as they are stored; what was read once is kept. Used by several threads."""

    def __init__(self) -> None:
        self._known: dict[str, datetime | None] = {}

    def of(self, photos: Collection, content: str, changed: int) -> Dated:
        """`changed`: when the file was last changed, in nanoseconds since 1970."""
        if content not in self._known:
            self.read(photos, [content])
        taken = self._known[content]
        return Dated(taken or datetime.fromtimestamp(changed / 1e9), taken is not None)

    def read(self, photos: Collection, contents: Iterable[str]) -> None:
        missing = [content for content in contents if content not in self._known]
        if missing:
            stored = photos.dates_taken(missing)
            self._known.update({content: stored.get(content) for content in missing})


@dataclass(frozen=True)
class Listed:
    id: int
    folder: str
    name: str
    dated: Dated


@dataclass(frozen=True)
class Filter:
    """What a user restricts a search to; an empty field restricts nothing."""

    folder: str = ""
    """Images in it and in the folders below."""
    name: str = ""
    """Part of the file's name, in upper or lower case."""
    since: date | None = None
    until: date | None = None
    """The first and the last day."""

    def __bool__(self) -> bool:
        return self != Filter()

    def fits(self, image: Listed) -> bool:
        if self.folder and not is_inside(image.folder, self.folder):
            return False
        if self.since is not None and image.dated.date.date() < self.since:
            return False
        if self.until is not None and image.dated.date.date() > self.until:
            return False
        return self.name.casefold() in image.name.casefold()


@dataclass
class Listing:
    """The images by folder and name; what has changed is read again. Used by one thread."""

    dates: Dates
    _state: tuple[int, int] | None = None
    _known: dict[Outline, Listed] = field(default_factory=dict)
    _images: list[Listed] = field(default_factory=list)

    def images(self, photos: Collection) -> list[Listed]:
        state = photos.state()
        if state != self._state:
            outline = photos.outline()
            self.dates.read(photos, (image.hash for image in outline))
            self._known = {image: self._known.get(image) or self._listed(photos, image) for image in outline}
            self._images = sorted(self._known.values(), key=lambda each: (each.folder, each.name))
            self._state = state
        return self._images

    def fitting(self, photos: Collection, wanted: Filter, *, newest_first: bool = False) -> list[Listed]:
        images = [image for image in self.images(photos) if wanted.fits(image)]
        if newest_first:
            images.sort(key=lambda each: each.dated.date, reverse=True)
        return images

    def folders(self, photos: Collection) -> dict[str, int]:
        """The number of images in and below each folder that has some; of those that the collection remembers, and
        the folders in them, also where all images lie deeper."""
        roots = [text(folder) for folder in photos.folders()]
        counts: Counter[str] = Counter()
        for folder, count in (here := Counter(image.folder for image in self.images(photos))).items():
            for above in {folder, *map(str, (Url(folder) if is_url(folder) else Path(folder)).parents)}:
                if above in here or any(is_inside(above, root) for root in roots):
                    counts[above] += count
        return dict(sorted(counts.items()))

    def _listed(self, photos: Collection, image: Outline) -> Listed:
        path = photos.layout.path_of(image.path)
        dated = self.dates.of(photos, image.hash, image.changed)
        return Listed(image.id, text(path.parent), text(path.name), dated)


def is_inside(folder: str, place: str) -> bool:
    """Whether a folder is this place or lies in it."""
    place = place.rstrip("/") or "/"
    return folder == place or folder.startswith(f"{place.rstrip('/')}/")
