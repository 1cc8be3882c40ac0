"""Texts of URLs, pages that list a folder by HTTP, and what servers tell about files. No server is asked."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import numpy as np
from tools.fuzz.kind import Damage, Kind, Way
from tools.fuzz.odd import json_changed

from elsewhere import SECRET
from faemb.collection.layout import Layout
from faemb.collection.stores import addresses
from faemb.errors import FaembError
from faemb.features.folders import find_images
from faemb.runtime import remote
from faemb.runtime.paths_and_urls import Url, absolute, place, shown

Rng = np.random.Generator
URLS = (
    *(f"https://me:{SECRET}@host:8080/trip/a%20b.jpg?signed={SECRET}#top", "http://[::1]:80/a.jpg"),
    *("s3://bucket/trip/a b.JPG", "gs://bucket/é/日.png", "memory://album/a::b.png", "abfs://box@account.net/a/b.tif"),
    *("file:///data/a%20b.jpg", "FILE://localhost/data/a.jpg", "local:///data/a b.jpg"),
    *("milvus://127.0.0.1:19530/team/photos", "milvuss://[::1]/photos", f"milvus://me:{SECRET}@host/photos"),
)
PAGES = {
    "python": '<!DOCTYPE HTML><html><ul><li><a href="a.jpg">a.jpg</a></li><li><a href="trip/">trip/</a></li></ul>',
    "apache": '<table><tr><td><a href="?C=N;O=D">Name</a></td></tr><tr><td><a href="/">Parent Directory</a></td></tr>'
    '<tr><td><a href="a%20b.jpg">a b.jpg</a></td><td align="right">2024-01-01 10:00</td></tr></table>',
    "nginx": "<pre><a href='../'>../</a>\n<a href='b.png'>b.png</a>  01-Jan-2024 10:00  1234\n</pre>",
    "absolute": '<a href="https://host/album/c.png">c</a><a href="//host/album/d.png">d</a><a href=/album/e.png>e</a>',
}
INFOS = (
    {"name": "https://host/a.jpg", "size": 1234, "type": "file", "ETag": '"abc"', "mimetype": "image/jpeg"},
    {"name": "b/a.jpg", "size": 5, "type": "file", "LastModified": "2024-01-01T10:00:00+00:00", "etag": "x"},
    {"name": "a", "size": 5, "type": "file", "Last-Modified": "Mon, 01 Jan 2024 10:00:00 GMT"},
    {"name": "a", "size": None, "type": "directory", "mtime": 1.7e9, "created": 1.6e9},
)
FOLDER = "https://host/album"
LONGEST = 1_000_000
"""Bytes of an input: a page of links may have more, and no text of a command has."""
LARGEST = 2**63
"""Databases store smaller numbers only."""
_BUILT_WITHOUT_CONNECTION = ("http", "https", "s3", "memory")


class Urls(Kind):
    name = "urls"

    def prepare(self, folder: Path) -> None:
        contents = {f"text-{number}/url.txt": text for number, text in enumerate(URLS)}
        contents |= {f"page-{name}/page.html": page for name, page in PAGES.items()}
        contents |= {f"told-{number}/info.json": json.dumps(info) for number, info in enumerate(INFOS)}
        for name, content in contents.items():
            (folder / name).parent.mkdir()
            (folder / name).write_text(content)

    def ways(self, victim: Path) -> Sequence[Way]:
        ways: dict[str, Sequence[Way]] = {".html": (links_changed,) * 2, ".json": (json_changed, told)}
        return ways.get(victim.suffix, (parts_changed,) * 4)

    def read(self, folder: Path) -> None:
        for file in sorted(folder.iterdir()):
            if file.is_file():
                with file.open("rb") as stream:
                    content = stream.read(LONGEST)
                {".html": read_page, ".json": read_answer}.get(file.suffix, read_text)(content)


def read_text(content: bytes) -> None:
    """As an argument of a command, which may hold bytes that are not Unicode."""
    text = content.decode(errors="surrogateescape").replace("\0", "")
    has_secret = SECRET in text and SECRET not in _without_secrets(text)
    try:
        _read_store(text)
        _read_place(text, has_secret)
    except FaembError as error:
        if has_secret and SECRET in str(error):
            raise Damage("a message holds a secret") from None
        raise


def _without_secrets(text: str) -> str:
    by_http = re.match("https?://", text, re.IGNORECASE)
    return _USER.sub("", _QUERY.sub("", text) if by_http else text)


_USER = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://[^/?#]*:[^/?#]*@")
"""With a password."""
_QUERY = re.compile(r"\?[^#]*")
"""Of an address by HTTP."""


def _read_store(text: str) -> None:
    if text.startswith("milvus"):
        address = addresses.parse(text)
        if addresses.parse(str(address)) != address:
            raise Damage("the text of an address is another address")


def _read_place(text: str, has_secret: bool) -> None:
    found = place(text)
    shown(text)
    if not isinstance(found, Url):
        return
    if has_secret and SECRET in f"{found} {found!r} {found.as_uri()} {found.name} {found.parent}":
        raise Damage("a URL shows a secret")
    _require_stored(found)
    absolute(found).relative_to(found.parent)
    address = found.address
    why = remote._explanation(address, ValueError(f"cannot connect to {address.full}"))
    if has_secret and SECRET in str(why):
        raise Damage("a message of the network holds a secret")
    if address.scheme in _BUILT_WITHOUT_CONNECTION:
        with remote._explained(address):
            remote._system(address)


def _require_stored(url: Url) -> None:
    """What the catalogue holds is the same URL."""
    layout = Layout("photos.faemb")
    name = layout.name_of(url)
    name.encode()
    if layout.path_of(name) != url or place(str(url)) != url:
        raise Damage("the text of a URL is another URL")


def read_page(content: bytes) -> None:
    """The listing of a folder whose subfolders are all empty."""

    def fetch(address: remote.Address, most: float = 0) -> bytes:
        return content[: int(most)] if address.shown == FOLDER else b""

    def ask(address: remote.Address) -> remote.Known:
        return remote.Known(address.shown == FOLDER or address.full.endswith("/"), 1, 1)

    with mock.patch("faemb.runtime.remote.fetch", fetch), mock.patch("faemb.runtime.paths_and_urls.ask", ask):
        found = find_images([FOLDER])
    for image in (*found.images, *found.others):
        if not isinstance(image, Url) or image.parent != place(FOLDER):
            raise Damage("a link leads out of its folder")
        _require_stored(image)


def read_answer(content: bytes) -> None:
    try:
        info = json.loads(content)
    except (ValueError, RecursionError):
        return
    if isinstance(info, dict):
        url = Url(f"{FOLDER}/a.jpg")
        url._known = remote._known(info)
        status = url.stat()
        if not (0 <= status.st_size < LARGEST and 0 <= status.st_mtime_ns < LARGEST):
            raise Damage("a size or a time that no catalogue holds")


_ODD_PARTS = (
    *("", "/", "//", "..", ".", "@", ":", "?", "#", "%", "%2F", "%00", "%zz", "::", "\\", "~", "*", " ", "\t", "\n"),
    *("[", "]", "[::1", "é", "\ud800", "\udcff", "\u202e", "a" * 5000, "../" * 300, ":99999", ":-1", "user@", "s3://"),
    *("file://", "milvus://", "HTTP://", "https://https://", SECRET, f"me:{SECRET}@", f"?{SECRET}", "Å", "\x1b[2J"),
)


def parts_changed(path: Path, rng: Rng) -> None:
    """Odd parts put in, or parts between signs exchanged or taken out."""
    parts = re.split(r"([:/?#@\[\]%])", path.read_bytes().decode(errors="surrogateescape"))
    for _ in range(int(rng.integers(1, 4))):
        at, odd = int(rng.integers(len(parts))), _ODD_PARTS[int(rng.integers(len(_ODD_PARTS)))]
        parts[at : at + 1] = ([], [odd], [odd, parts[at]], [parts[at], odd], [parts[at]] * 2)[int(rng.integers(5))]
        parts = parts or [""]
    path.write_bytes("".join(parts).encode(errors="surrogatepass"))


def links_changed(path: Path, rng: Rng) -> None:
    """Odd links, tags and signs at any place of a page."""
    page = path.read_bytes().decode(errors="surrogateescape")
    for _ in range(int(rng.integers(1, 5))):
        odd = _ODD_PARTS[int(rng.integers(len(_ODD_PARTS)))]
        link = odd + ("", "x.jpg", "/x.jpg", "http://[x/a.jpg")[int(rng.integers(4))]
        new = (f'<a href="{link}">', f"<a href='{link}'/>", f"<a href={link}>", "<a href>", "<![", "<!--", "<a ", "&#")
        at = int(rng.integers(len(page) + 1))
        page = page[:at] + new[int(rng.integers(len(new)))] + page[at:]
    path.write_bytes(page.encode(errors="surrogatepass"))


_MOMENTS = (
    *("Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", "9999-12-31T23:59:59", "0001-01-01", "now"),
    *("Thu, 01 Jan 1970 00:00:00 -2400", ",", "Mon, 01 Jan 2024 10:00:00 +99999999999", 1e300, -1e300, 10**30, 2**63),
)


def told(path: Path, rng: Rng) -> None:
    """Odd moments and sizes."""
    info = json.loads(path.read_bytes())
    keys = (*remote._TIMES, *remote._MARKS, "size")
    for _ in range(int(rng.integers(1, 3))):
        info[keys[int(rng.integers(len(keys)))]] = _MOMENTS[int(rng.integers(len(_MOMENTS)))]
    path.write_text(json.dumps(info))
