"""Search for image files: given files, and those in given folders."""

import os
import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import count
from pathlib import Path
from typing import NamedTuple

from faemb.errors import Fault, InputError, RefusedError, RemoteError, about
from faemb.runtime.paths_and_urls import Url, absolute, absolute_text, common_parent, is_folder, place, shown
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
"""Lower-case names of files and folders that operating systems and network drives create; they are skipped."""

_DEEPEST = 100
"""Largest depth of folders on a server, whose listings can contain cycles; a file system has its own limit."""
_MOST_PAGES = 10_000
"""Largest number of pages of web servers that one search reads: each can link to folders without end."""


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
    """Every given file, and every image (or file of another kind) in the given folders and subfolders, each once.

    Images in folders are recognised by suffix and sorted by name. Hidden and system files and folders, and collections
    are skipped; links are followed, except to a folder that contains them. `exclude` are shell patterns: files and
    folders are left out if their name, or their path in the given folder, matches one.
    """
    patterns = [posixpath.normpath(pattern) for pattern in exclude]  # "./trip/" means "trip"
    return merged(_found_in(given, patterns, kind) for given in as_places(places))


def as_places(given: Iterable[AnyPath]) -> list[Path]:
    """Paths and URLs; a URL with a query is an error, since it would be stored without the query and may then fail."""
    places = list(map(place, given))
    for each in places:
        if isinstance(each, Url) and each.signed:
            raise InputError(
                f"{each} is given with a query, which is not kept; download the file, or give a URL without a query"
            )
    return places


def merged(parts: Iterable[Found]) -> Found:
    """The results of several searches, each file once."""
    images: dict[str, Path] = {}
    others: dict[str, Path] = {}
    unreadable: list[Fault] = []
    for part in parts:
        for image in part.images:
            images.setdefault(absolute_text(image), image)
        for other in part.others:
            others.setdefault(absolute_text(other), other)
        unreadable += part.unreadable
    return Found(list(images.values()), list(dict.fromkeys(unreadable)), list(others.values()))


def find_some(places: Sequence[AnyPath], exclude: Sequence[str] = (), kind: Kind = IMAGES) -> Found:
    """The same as `find_images`; raises an error if there are no images."""
    if not places:
        raise InputError("no files or folders are given; expected images")
    found = find_images(places, exclude, kind)
    if not found.images:
        reasons = [*found.unreadable, *passed_over_sentences(by_suffix(found.others))]
        raise InputError("; ".join([f"there are no {kind.name} in {', '.join(map(shown, places))}", *reasons]))
    return found


def is_image(path: Path) -> bool:
    return IMAGES.includes(path)


def holds(given: AnyPath, kind: Kind) -> bool:
    """Whether a folder or its subfolders contain a file of this kind; for a file, whether it is of this kind."""
    folder = place(given)
    return any(_Search(kind.includes).below(folder)) if folder.is_dir() else kind.includes(folder)


def by_suffix(files: Iterable[Path]) -> dict[str, int]:
    """The number of files of each suffix, in lower case."""
    return dict(sorted(Counter(path.suffix.lower() for path in files).items()))


def passed_over_sentences(counts: dict[str, int]) -> list[str]:
    """A sentence about skipped files that are not images, given their number by suffix; [] if there are none."""
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
    """Wanted files of a folder and its subfolders, as in `find_images`, but lazily: there may be millions.

    A folder that cannot be read raises an error, after the files found before it.
    """
    unreadable: list[Fault] = []
    for path in _Search(wanted, unreadable=unreadable).below(folder):
        if unreadable:
            break
        yield path
    if unreadable:
        raise InputError(f"{unreadable[0]}; change its permissions")


def common_folder(places: Iterable[AnyPath]) -> Path:
    """The deepest folder that contains all these files and folders; images are named relative to it."""
    paths = [absolute(given) for given in places]
    try:
        return common_parent([path if is_folder(path) else path.parent for path in paths])
    except ValueError:
        raise InputError("the images lie on several drives or servers; give those of one at a time") from None


def _found_in(given: Path, exclude: Sequence[str], kind: Kind) -> Found:
    if given.is_dir():
        others: list[Path] = []
        search = _Search(kind.includes, exclude, others=others.append if kind is IMAGES else _ignore)
        return Found(list(search.below(given)), search.unreadable, others)
    if given.is_file():
        return Found([] if _matches(given.name, str(given), exclude) else [given], [], [])
    if given.exists():
        raise InputError(f"{given} is a pipe, a socket or a device; expected an image file or a folder")
    raise InputError(f"there is no file or folder {given}")


def _matches(name: str, path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) or fnmatch(path, pattern) for pattern in patterns)


def _ignore(path: Path) -> None:
    pass


def _answer(question: Callable[[], bool]) -> bool:
    """The answer, or False if the system raises an error, such as for a link to itself."""
    try:
        return question()
    except OSError:
        return False


@dataclass(frozen=True)
class _Search:
    """A recursive search of a folder; collects unreadable folders, and passes unwanted files to `others`."""

    wanted: Callable[[Path], bool]
    exclude: Sequence[str] = ()
    unreadable: list[Fault] = field(default_factory=list)
    others: Callable[[Path], None] = _ignore
    """Called with each file that is not wanted."""
    pages: Iterator[int] = field(default_factory=count)
    """Numbers of the pages of web servers that are read."""

    def below(self, folder: Path, inside: str = "", above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[Path]:
        """Wanted files below `folder`; `inside`: its path in the searched folder; `above`: folders that contain it."""
        if isinstance(folder, Url):
            yield from self._elsewhere(folder, inside)
            return
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
            if _answer(entry.is_dir):
                if not is_collection(path):
                    yield from self.below(path, f"{name}/", above | {here})
            elif _answer(entry.is_file):
                if self.wanted(path):
                    yield path
                else:
                    self.others(path)

    def _elsewhere(self, folder: Url, inside: str) -> Iterator[Path]:
        """The same for a folder on a server; denied access is collected, an unavailable server raises an error."""

        def refuse(sentence: object) -> None:
            self.unreadable.append(about(folder, str(sentence)))

        if inside.count("/") > _DEEPEST:
            refuse(f"the folder {folder} lies too deep: in {_DEEPEST} others, which may contain each other")
            return
        if folder.is_on_the_web and next(self.pages) >= _MOST_PAGES:
            raise RemoteError(
                f"{folder} is one of more than {_MOST_PAGES:,} folders of a web server, which may have no end; "
                "give folders that lie deeper, or leave some out with exclude"
            )
        try:
            entries = sorted(folder.entries(refuse))
        except FileNotFoundError:
            refuse(f"the folder {folder} is not there any more")
            return
        except RefusedError as error:
            refuse(error)
            return
        for entry, path in entries:
            name = f"{inside}{entry}"
            if self._skips(entry, name):
                continue
            if path.listed_as_folder:
                yield from self._elsewhere(path, f"{name}/")
            elif self.wanted(path):
                yield path
            else:
                self.others(path)

    def _skips(self, name: str, path: str) -> bool:
        return name.startswith(".") or name.lower() in SYSTEM or _matches(name, path, self.exclude)
