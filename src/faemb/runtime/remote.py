"""Files on servers, listed and fetched through fsspec: s3://, gs://, https:// and others that it opens.

Each process opens its own connections, when it first needs one. A missing file is a FileNotFoundError, as for local
files; any other failure is a RemoteError, since then it is not known whether the file exists. Passwords and signed
queries are used to connect, and appear in no message.
"""

import errno
import io
import math
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from html.parser import HTMLParser
from importlib.util import find_spec
from typing import Any, NamedTuple
from urllib.parse import urljoin

from faemb.errors import FaembError, InputError, LimitError, MissingExtraError, RefusedError, RemoteError, reason
from faemb.runtime.limits import MEMORY, SECONDS, in_words, item_memory, item_seconds

HTTP = ("http", "https")
_S3 = ("s3", "s3a")
CREDENTIALS = {
    **dict.fromkeys(_S3, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"),
    **dict.fromkeys(("gs", "gcs"), "GOOGLE_APPLICATION_CREDENTIALS"),
}
"""Object stores and the environment variables with their credentials, which their URLs do not contain."""
_IN_THE_EXTRA = (*_S3, *HTTP)
_PACKAGES = dict.fromkeys(("gs", "gcs"), "gcsfs") | dict.fromkeys(("az", "abfs", "abfss", "adl"), "adlfs")
_CONNECT_SECONDS, _ANSWER_SECONDS = 10, 30
_SHARE_OF_TIME = 0.75
"""Share of one item's time limit in which its file must have arrived, so that the error names the server."""
_PIECE = 1 << 24
"""Bytes that are requested at a time."""
_LARGEST_PAGE = 1 << 25
"""Largest page of links, in bytes: about 100,000 files."""
_LARGEST_NUMBER = 2**63 - 1
_LATEST = _LARGEST_NUMBER - 1_000_000_000
"""Larger numbers, and later times in nanoseconds, do not fit into a catalogue."""
_TIMES = ("LastModified", "Last-Modified", "last_modified", "updated", "mtime", "modified", "created")
_MARKS = ("ETag", "etag", "Content-MD5", "content_md5", "md5Hash", "generation")
"""What file systems of fsspec call the time of the last change, and a value that changes with the content (entity tag).
"""


class Address(NamedTuple):
    """Where a file or folder is."""

    shown: str
    """The address without secrets, for messages."""
    full: str
    """The address with the secrets needed to connect; never shown."""
    secrets: tuple[str, ...] = ()

    @property
    def scheme(self) -> str:
        return self.shown.partition("://")[0]

    @property
    def folder(self) -> "Address":
        """The address in the form that servers expect for a folder, with a slash at the end."""
        return self._replace(full=self.full.rstrip("/") + "/")


class Known(NamedTuple):
    """What a server has reported about a file or folder."""

    is_folder: bool
    size: int | None
    """None if the server does not report it."""
    changed: int
    """Nanoseconds since 1970: the second of the last change; below it, digits of a hash of the entity tag.

    The current time if the server reports neither: such a file always counts as changed, and is compared by content.
    """


def ask(address: Address) -> Known:
    with _explained(address):
        system, name = _system(address)
        info = system.info(name)
        if address.scheme in HTTP and info.get("mimetype") == "text/html" and any(_entries(address)):
            return Known(True, 0, time.time_ns())  # a page with links to what is below it
        return _known(info)


def fetch(address: Address, most: float = math.inf) -> bytes:
    """The content of a file; an error if it is larger than the memory limit of one item, or than `most` bytes."""
    allowed, seconds = int(min(item_memory(), most)), _SHARE_OF_TIME * (item_seconds() or math.inf)
    end = time.monotonic() + seconds
    content = io.BytesIO()  # its value is given without a copy
    with _explained(address):
        system, name = _system(address)
        how: dict[str, Any] = {"block_size": 0} if address.scheme in HTTP else {"cache_type": "none"}
        with system.open(name, "rb", **how) as file:
            while piece := file.read(_PIECE):
                content.write(piece)
                if content.tell() > allowed:
                    raise LimitError(
                        f"{address.shown} is a file of more than {in_words(allowed)}; give a smaller one, or allow "
                        f"more with the environment variable {MEMORY}"
                    )
                if time.monotonic() > end:
                    raise RemoteError(
                        f"{address.shown} arrives too slowly: {in_words(content.tell())} in {seconds:g} s; try "
                        f"again when the network is faster, or allow more with the environment variable {SECONDS}"
                    )
    return content.getvalue()


def listed(address: Address) -> Iterator[tuple[str, Known | None]]:
    """Names of what is in a folder, in any order; None where a server lists names only."""
    with _explained(address):
        yield from _entries(address)


def _entries(address: Address) -> Iterator[tuple[str, Known | None]]:
    if address.scheme in HTTP:
        yield from _linked(address)
        return
    system, name = _system(address.folder)
    above = name.rstrip("/") + "/"
    for info in _objects(system, name) if address.scheme in _S3 else system.ls(name, detail=True):
        known = _known(info)
        if known.is_folder or not info["name"].endswith("/"):  # else an empty object that marks a folder
            yield info["name"].removeprefix(above).removesuffix("/"), known


def _linked(address: Address) -> Iterator[tuple[str, Known | None]]:
    """What a page links to directly below itself."""
    links = _Links()
    links.feed(fetch(address.folder, _LARGEST_PAGE).decode(errors="replace"))
    above = address.shown + "/"
    for link in links.found:
        try:
            name = urljoin(above, link).removeprefix(above)
        except ValueError:
            continue  # not a valid URL
        if re.fullmatch("[^/?#]+/?", name):
            yield name.removesuffix("/"), Known(True, 0, time.time_ns()) if name.endswith("/") else None


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, None] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= dict.fromkeys(value for name, value in attrs if tag == "a" and name == "href" and value)


def _objects(system: Any, name: str) -> Iterator[dict[str, Any]]:
    """Like fsspec's `ls`, but one page of 1,000 objects at a time, instead of all metadata of all objects in memory."""
    bucket, prefix, _ = system.split_path(name.rstrip("/"))
    asked = {"Bucket": bucket, "Prefix": f"{prefix}/" if prefix else "", "Delimiter": "/"}
    while True:
        page = system.call_s3("list_objects_v2", **asked)
        for each in page.get("CommonPrefixes", ()):
            yield {"name": f"{bucket}/{each['Prefix']}", "type": "directory"}
        for each in page.get("Contents", ()):
            yield {**each, "name": f"{bucket}/{each['Key']}", "type": "file", "size": each["Size"]}
        if not page.get("IsTruncated"):
            return
        asked["ContinuationToken"] = page["NextContinuationToken"]


def _known(info: dict[str, Any]) -> Known:
    size = info.get("size")
    is_known = isinstance(size, int) and 0 <= size <= _LARGEST_NUMBER
    return Known(info.get("type") == "directory", size if is_known else None, _changed(info))


def _changed(info: dict[str, Any]) -> int:
    moment = next((info[key] for key in _TIMES if info.get(key)), None)
    mark = next((str(info[key]) for key in _MARKS if info.get(key)), None)
    if moment is None and mark is None:
        return time.time_ns()
    nanoseconds = _nanoseconds(moment)
    if mark is None:
        return nanoseconds
    tag = mark.removeprefix("W/").strip('"').encode(errors="surrogatepass")  # headers may hold bytes that are not text
    digits = int.from_bytes(blake2b(tag, digest_size=8).digest(), "big")
    second = 1_000_000_000
    return nanoseconds // second * second + digits % second


def _nanoseconds(moment: object) -> int:
    """0 for a time that cannot be parsed."""
    try:
        if isinstance(moment, str):
            moment = parsedate_to_datetime(moment) if "," in moment else datetime.fromisoformat(moment)
        if isinstance(moment, datetime):
            moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        nanoseconds = max(0, round(float(moment or 0) * 1e9))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return 0
    return nanoseconds if nanoseconds <= _LATEST else 0


def _system(address: Address) -> tuple[Any, str]:
    """The file system of fsspec, and the name of the file in it.

    Only that file system parses the address: fsspec's own functions take "::" in a name for a chain of addresses.
    """
    if find_spec("fsspec") is None:
        raise MissingExtraError(f"reading {address.shown}", "remote")
    import fsspec
    from fsspec.config import conf

    try:
        kind: Any = fsspec.get_filesystem_class(address.scheme)
    except ImportError as error:
        if address.scheme in _IN_THE_EXTRA:
            raise MissingExtraError(f"reading {address.shown}", "remote") from None
        package = _PACKAGES.get(address.scheme)
        cure = f"it needs the package {package}: pip install {package}" if package else reason(error)
        raise InputError(f"{address.shown} cannot be read: {cure}") from None
    except ValueError:
        raise InputError(
            f"{address.shown} begins with {address.scheme}://, which is unknown; expected a path, or a URL such as "
            "s3://bucket/folder or https://server/file.jpg"
        ) from None
    patience = {name: each for name, each in _patience(address).items() if name not in conf.get(address.scheme, {})}
    options = {"use_listings_cache": False, **patience, **kind._get_kwargs_from_urls(address.full)}
    return kind(**options), kind._strip_protocol(address.full)


def _patience(address: Address) -> dict[str, Any]:
    """Timeouts of a file system; users configure other options through fsspec."""
    if address.scheme in HTTP:
        from aiohttp import ClientTimeout

        wait = ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_ANSWER_SECONDS)
        return {"client_kwargs": {"timeout": wait, "trust_env": True}, "encoded": "%" in address.full}
    if address.scheme in _S3:
        wait_for = {"connect_timeout": _CONNECT_SECONDS, "read_timeout": _ANSWER_SECONDS}
        return {"config_kwargs": {**wait_for, "retries": {"max_attempts": 2}}}
    return {}


@contextmanager
def _explained(address: Address) -> Iterator[None]:
    """Converts every error of a file system to one of ours, or to a FileNotFoundError."""
    try:
        yield
    except (FaembError, MemoryError):
        raise
    except Exception as error:
        raise _explanation(address, error) from None


def _message(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error).strip() or type(error).__name__


def _masked(text: str, address: Address) -> str:
    """The text without secrets; called before it is shortened, since a part of a secret would not be recognised."""
    for secret in address.secrets:
        text = text.replace(secret, "...")
        text = text.replace(secret.strip() or secret, "...")
    return text


def _explanation(address: Address, error: Exception) -> Exception:
    cause = error.__cause__ if isinstance(error, FileNotFoundError) and error.__cause__ is not None else error
    status = getattr(cause, "status", None)  # of an HTTP response, whose text contains the full address
    is_gone = isinstance(cause, FileNotFoundError) or "(NoSuchBucket)" in str(cause)
    if status in (404, 410) or (is_gone and status is None):
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), address.shown)
    message = f"the server answers {status} {getattr(cause, 'message', '')}" if status else _message(cause)
    why = reason(Exception(_masked(message, address)))
    variables = CREDENTIALS.get(address.scheme)
    if isinstance(cause, PermissionError) or status in (401, 403) or "redential" in type(cause).__name__:
        how = f", by {variables}" if variables else ""
        return RefusedError(f"{address.shown} may not be read: {why}; give credentials that may read it{how}")
    return RemoteError(f"{address.shown} cannot be reached: {why}; check the address and the network, and try again")
