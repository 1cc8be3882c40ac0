"""Search for image files: given files, and those in given folders."""

import os
import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from faemb.errors import Fault, InputError
from faemb.runtime.storage import AnyPath, is_collection

SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif", ".heic", ".heif", ".avif")
)
READ = "JPEG, PNG, WebP, TIFF, BMP, GIF, HEIC and AVIF"
RAW = frozenset(
    f".{name}"
    for name in (
        *("3fr", "arw", "cr2", "cr3", "crw", "dcr", "dng", "erf", "iiq", "kdc", "mef", "mos", "mrw", "nef", "nrw"),
        *("orf", "pef", "raf", "raw", "rw2", "rwl", "sr2", "srf", "srw", "x3f"),
    )
)
VIDEOS = frozenset(
    (".3gp", ".asf", ".avi", ".flv", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".webm", ".wmv")
)
SYSTEM = frozenset(
    ("@eadir", "#recycle", "$recycle.bin", "system volume information", "__macosx", "thumbs.db", "desktop.ini")
)
"""Lower-case names of files and folders that systems and network drives make for themselves: never photographs."""


class Kind(NamedTuple):
    """A kind of files, recognised by suffix."""

    name: str
    suffixes: frozenset[str]

    def includes(self, path: Path) -> bool:
        return path.suffix.lower() in self.suffixes


IMAGES = Kind("images", SUFFIXES)


class Found(NamedTuple):
    images: list[Path]
    unreadable: list[Fault]
    """One message per folder that could not be read."""
    others: list[Path]
    """Files in the folders that are of other kinds."""


def find_images(places: Iterable[AnyPath], exclude: Sequence[str] = (), kind: Kind = IMAGES) -> Found:
    """Every given file, and every image in the given folders and their subfolders, each once; or files of another kind.

    Images in folders are recognised by suffix and sorted by name. Hidden files and folders, those that systems make for
    themselves, and collections are skipped; links are followed, except to a folder that contains them. `exclude` are
    shell patterns: files and folders are left out if their name, or their path in the given folder, matches one.
    """
    patterns = [posixpath.normpath(pattern) for pattern in exclude]  # "./trip/" is meant as "trip"
    return merged(_found_in(place, patterns, kind) for place in map(Path, places))


def merged(parts: Iterable[Found]) -> Found:
    """The results of several searches, each file once."""
    images: dict[str, Path] = {}
    others: dict[str, Path] = {}
    unreadable: list[Fault] = []
    for part in parts:
        for image in part.images:
            images.setdefault(os.path.abspath(image), image)
        for other in part.others:
            others.setdefault(os.path.abspath(other), other)
        unreadable += part.unreadable
    return Found(list(images.values()), list(dict.fromkeys(unreadable)), list(others.values()))


def find_some(places: Sequence[AnyPath], exclude: Sequence[str] = (), kind: Kind = IMAGES) -> Found:
    """The same as `find_images`; an error if there are no images."""
    if not places:
        raise InputError("no files or folders are given; expected images")
    found = find_images(places, exclude, kind)
    if not found.images:
        reasons = [*found.unreadable, *passed_over_sentences(by_suffix(found.others))]
        raise InputError("; ".join([f"there are no {kind.name} in {', '.join(map(str, places))}", *reasons]))
    return found


def is_image(path: Path) -> bool:
    return IMAGES.includes(path)


def holds(place: AnyPath, kind: Kind) -> bool:
    """Whether a folder and its subfolders hold a file of this kind; of a file, whether it is one."""
    folder = Path(place)
    return any(_Search(kind.includes).below(folder)) if folder.is_dir() else kind.includes(folder)


def by_suffix(files: Iterable[Path]) -> dict[str, int]:
    """The number of files of each suffix, in lower case."""
    return dict(sorted(Counter(path.suffix.lower() for path in files).items()))


def passed_over_sentences(counts: dict[str, int]) -> list[str]:
    """What is said about files that are not images, given their number by suffix: one sentence, or none."""
    kinds = (("RAW file", RAW), ("video", VIDEOS), ("other file", counts.keys() - RAW - VIDEOS))
    parts = [_counted(name, {end: counts[end] for end in sorted(ends & counts.keys())}) for name, ends in kinds]
    *first, last = [part for part in parts if part] or [""]
    listed = f"{', '.join(first)} and {last}" if first else last
    return [f"passed over {listed}: faemb reads {READ}"] if listed else []


def _counted(name: str, counts: dict[str, int]) -> str:
    total = sum(counts.values())
    ends = ", ".join(end or "no suffix" for end in counts)
    return f"{total:,} {name}{'' if total == 1 else 's'} ({ends})" if total else ""


def files_below(folder: Path, wanted: Callable[[Path], bool] = is_image) -> Iterator[Path]:
    """Wanted files of a folder and its subfolders, as `find_images` finds them, one at a time: there may be millions.

    A folder that cannot be read raises an error after the files before it.
    """
    unreadable: list[Fault] = []
    for path in _Search(wanted, unreadable=unreadable).below(folder):
        if unreadable:
            break
        yield path
    if unreadable:
        raise InputError(f"{unreadable[0]}; change its permissions")


def common_folder(places: Iterable[AnyPath]) -> Path:
    """The folder that contains all these files and folders; images are named relative to it."""
    folders = [
        os.path.abspath(place if os.path.isdir(place) else os.path.dirname(os.path.abspath(place))) for place in places
    ]
    try:
        return Path(os.path.commonpath(folders))
    except ValueError:
        raise InputError("the images lie on several drives; give those of one drive at a time") from None


def _found_in(place: Path, exclude: Sequence[str], kind: Kind) -> Found:
    if place.is_dir():
        others: list[Path] = []
        search = _Search(kind.includes, exclude, others=others.append if kind is IMAGES else _ignore)
        return Found(list(search.below(place)), search.unreadable, others)
    if place.is_file():
        return Found([] if _matches(place.name, str(place), exclude) else [place], [], [])
    if place.exists():
        raise InputError(f"{place} is a pipe, a socket or a device; expected an image file or a folder")
    raise InputError(f"there is no file or folder {place}")


def _matches(name: str, path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) or fnmatch(path, pattern) for pattern in patterns)


def _ignore(path: Path) -> None:
    pass


@dataclass(frozen=True)
class _Search:
    """A search of one folder; what it meets beside the wanted files is collected."""

    wanted: Callable[[Path], bool]
    exclude: Sequence[str] = ()
    unreadable: list[Fault] = field(default_factory=list)
    others: Callable[[Path], None] = _ignore
    """Called with each file that is not wanted."""

    def below(self, folder: Path, inside: str = "", above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[Path]:
        """`inside` is the folder's path in the searched folder; `above` are the folders that contain it."""
        try:
            status = folder.stat()
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            self.unreadable.append(Fault(f"the folder {folder} cannot be read: {error.strerror}", folder))
            return
        here = (status.st_dev, status.st_ino)
        if here in above:
            return
        for entry in entries:
            path, name = Path(entry.path), f"{inside}{entry.name}"
            if self._skips(entry.name, name):
                continue
            if os.path.isdir(path):  # unlike an entry's methods it does not raise, as on a link to itself
                if not is_collection(path):
                    yield from self.below(path, f"{name}/", above | {here})
            elif os.path.isfile(path):
                if self.wanted(path):
                    yield path
                else:
                    self.others(path)

    def _skips(self, name: str, path: str) -> bool:
        return name.startswith(".") or name.lower() in SYSTEM or _matches(name, path, self.exclude)
