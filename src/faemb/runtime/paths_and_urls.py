"""Paths of local files, and URLs of files elsewhere, which are used as paths are.

A `Url` has the name, the suffix and the parents of its text. `stat` asks the server; `open` and `read_bytes` fetch the
whole file into memory, within the limits of one item. Passwords and signed queries are kept apart from the text:

    file:///data/a.jpg              the local path /data/a.jpg
    https://me:secret@host/a.jpg    shown and stored as https://host/a.jpg
"""

import io
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PosixPath
from typing import Any, overload
from urllib.parse import unquote

from faemb.errors import InputError
from faemb.runtime.limits import require_input_file
from faemb.runtime.remote import CREDENTIALS, HTTP, Address, Known, ask, fetch, listed
from faemb.runtime.storage import AnyPath

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
"""At least two letters: C:// is a drive."""
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]*\]|[^:\[\]]*)(:[0-9]*)?")


class Url(PosixPath):
    """A file or folder elsewhere; `place` makes them of texts. Two are equal if their texts are."""

    _user = _query = ""
    _known: Known | None = None
    _content: bytes | None = None

    def __str__(self) -> str:
        scheme, *rest = self.parts or ("",)
        return f"{scheme}//{'/'.join(rest)}" if scheme else "."

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to worker processes without the content."""
        return _url, (str(self), self._user, self._query, self._known)

    # What is known from the text.

    def as_uri(self) -> str:
        """A link on a page: to the file, if it is one that a browser can follow."""
        return str(self) if self.is_on_the_web else "#"

    def is_absolute(self) -> bool:
        return True

    def absolute(self) -> "Url":
        return self

    def is_relative_to(self, *other: Any) -> bool:
        above = place(other[0]).parts
        return self.parts[: len(above)] == above

    def relative_to(self, *other: Any, **options: Any) -> Path:  # type: ignore[override]
        """The rest after a folder above it, as a path that can be local."""
        if not self.is_relative_to(*other):
            raise ValueError(f"{str(self)!r} is not in {str(other[0])!r}")
        return Path(*self.parts[len(place(other[0]).parts) :])

    @property
    def address(self) -> Address:
        scheme, _, rest = str(self).partition("://")
        full = f"{scheme}://{self._user}{rest}{self._query}"
        password = self._user.rstrip("@").partition(":")[2]
        secrets = (self._user, self._query, self._query[1:], password, unquote(password))
        return Address(str(self), full, tuple(filter(None, secrets)))

    @property
    def signed(self) -> bool:
        """Whether it has a query, which is not part of its text: without it, it may be another file, or none."""
        return bool(self._query)

    @property
    def is_on_the_web(self) -> bool:
        """Whether it lies on a web server, whose pages can link to each other without end."""
        return self.address.scheme in HTTP

    @property
    def listed_as_folder(self) -> bool:
        """Whether the listing from which it comes says so."""
        return self._known is not None and self._known.is_folder

    # What the server knows.

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        known = self._asked()
        mode = stat.S_IFDIR if known.is_folder else stat.S_IFREG
        seconds = known.changed // 1_000_000_000
        exact = {f"st_{which}time_ns": known.changed for which in "amc"}
        return os.stat_result((mode, 0, 0, 1, 0, 0, known.size or 0, seconds, seconds, seconds), exact)

    def exists(self, **options: Any) -> bool:
        try:
            self._asked()
        except FileNotFoundError:
            return False
        return True

    def is_file(self, **options: Any) -> bool:
        return self.exists() and not self._asked().is_folder

    def is_dir(self, **options: Any) -> bool:
        return self.exists() and self._asked().is_folder

    def open(self, mode: str = "r", *more: Any, **options: Any) -> Any:
        if mode != "rb":
            raise InputError(f"{self} is not a local file; expected the name of a local one")
        return io.BytesIO(self.read_bytes())

    def read_bytes(self) -> bytes:
        return fetch(self.address) if self._content is None else self._content

    def entries(self, refuse: Callable[[str], None]) -> Iterator[tuple[str, "Url"]]:
        """What is in this folder: name and URL. `refuse` gets a sentence on each name that no path can have."""
        for name, known in listed(self.address):
            if _is_lost(name):
                refuse(f"the folder {self} holds the name {name!r}, which no path can have; rename it")
            else:
                yield name, _url(f"{self}/{name}", self._user, "", known)

    def _asked(self) -> Known:
        if self._known is None:
            self._known = ask(self.address)
        return self._known


def place(given: AnyPath) -> Path:
    """The path of a local file or folder, or a URL."""
    if isinstance(given, Path):
        return given
    text = os.fspath(given)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Path(text)
    name = scheme[1].lower()
    return _local(text) if name in ("file", "local") else _parsed(name, text[scheme.end() :])


def is_url(text: str) -> bool:
    """Whether a text that faemb has written is a URL: no path has two slashes in it."""
    return "://" in text


def absolute(given: AnyPath) -> Path:
    """The place, so that it does not depend on the current folder."""
    path = place(given)
    return path if isinstance(path, Url) else Path(os.path.abspath(path))


def absolute_text(path: Path) -> str:
    """The same as text: for many paths, of which no new ones are made."""
    return str(path) if isinstance(path, Url) else os.path.abspath(path)


def shown(given: AnyPath) -> str:
    """For messages: a path as it was given, or a URL without secrets."""
    text = os.fspath(given)
    return str(place(given)) if _SCHEME.match(text) else text


@overload
def fetched(given: Path) -> Path: ...
@overload
def fetched(given: AnyPath) -> AnyPath: ...
def fetched(given: AnyPath) -> AnyPath:
    """A file that is about to be read: that of a URL is fetched, at once and once, and held for as long as the result.

    What is known of it was known before: a file that changes meanwhile counts as changed the next time.
    """
    path = place(given) if _SCHEME.match(os.fspath(given)) else given
    if not isinstance(path, Url) or path._content is not None:
        return path
    require_input_file(path, "an image file")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} is not there any more; it was deleted meanwhile") from None
    held = _url(str(path), path._user, path._query, path._asked()._replace(size=len(content)))
    held._content = content
    return held


def is_folder(path: Path) -> bool:
    """Unlike the method of local paths it raises no error of the system."""
    return path.is_dir() if isinstance(path, Url) else os.path.isdir(path)


def common_parent(folders: Sequence[Path]) -> Path:
    """The folder that contains all these absolute ones; a ValueError if none does."""
    if not any(isinstance(folder, Url) for folder in folders):
        return Path(os.path.commonpath(folders))
    for above in (folders[0], *folders[0].parents):
        if len(above.parts) > 1 and all(folder.is_relative_to(above) for folder in folders):
            return above
    raise ValueError("no folder contains them all")


def _local(text: str) -> Path:
    """file:///a%20b and local:///a b; a server's name is not understood."""
    rest = text.partition("://")[2]
    server = rest.partition("/")[0]
    if server not in ("", "localhost"):
        host = server.rpartition("@")[2]  # without a password
        raise InputError(f"a URL of a file names the server {host!r}; expected file:/// and a path of this machine")
    return Path(unquote(rest.removeprefix(server)))


def _parsed(scheme: str, rest: str) -> Url:
    rest, mark, query = rest.partition("#")[0].partition("?") if scheme in HTTP else (rest, "", "")
    authority, _, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    if at and scheme not in HTTP and ":" not in user:  # a container of Azure, or a name alone: no secret
        user, at, host = "", "", authority
    text = f"{scheme}://{host}/{path}".removesuffix("/")
    if scheme in CREDENTIALS and at:
        raise InputError(
            f"a URL of {scheme} has credentials in it; leave them out, and set {CREDENTIALS[scheme]} in the environment"
        )
    if scheme in HTTP and not _HOST.fullmatch(host):  # which may be a part of a password
        raise InputError(
            f"a URL of {scheme} has no server and port that can be read; expected {scheme}://SERVER:PORT/PATH, and %2F "
            "in place of each slash in a password"
        )
    if not host:
        raise InputError(f"{text} names no server or bucket; expected a URL such as s3://bucket/folder")
    if path and any(map(_is_lost, path.removesuffix("/").split("/"))):
        raise InputError(f"{text} has an empty part, or one of dots, in its path; expected the URL without it")
    return _url(text, f"{user}{at}", f"{mark}{query}", None)


def _is_lost(name: str) -> bool:
    """Whether a name would not survive in a path: paths have no empty parts and none of a dot, names hold no slash."""
    return name in ("", ".", "..") or "/" in name or "\0" in name


def _url(text: str, user: str, query: str, known: Known | None) -> Url:
    url = Url(text)
    for name, each in (("_user", user), ("_query", query), ("_known", known)):
        if each:  # there may be millions
            setattr(url, name, each)
    return url
