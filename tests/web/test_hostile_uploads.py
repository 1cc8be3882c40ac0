"""Files that are sent to harm the server, or those who look at it."""

import io
import os
import signal
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import PIL.Image
import pytest

from faemb.runtime.limits import SECONDS
from faemb.web import describing, queries
from faemb.web.settings import ServerSettings
from pictures import pixels
from processes import wait_until
from served import serving
from small_collections import make_collection


def png_of_size(width: int, height: int) -> bytes:
    """A header without pixels."""
    chunks = (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(b"\0"))
    whole = b"\x89PNG\r\n\x1a\n"
    for kind, data in chunks:
        whole += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return whole


SCRIPT = b"<!DOCTYPE html><html><script>alert(1)</script></html>"


class Planted(describing._Work):
    """Decoders with faults that a file can call."""

    def __call__(self, item):
        content = item.file.read_bytes()
        if b"planted crash" in content:
            os.kill(os.getpid(), signal.SIGSEGV)
        if b"planted hang" in content:
            time.sleep(1000)
        return super().__call__(item)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_collection(tmp_path_factory.mktemp("hostile"), ["a.png", "b.png"])


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("temporary")


@pytest.fixture(scope="module")
def client(folder: Path, temporary: Path) -> Iterator[httpx.Client]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(describing, "_Work", Planted)
        patch.setattr(queries, "_MOST", 5)
        patch.setenv(SECONDS, "2")
        patch.setattr("tempfile.tempdir", str(temporary))
        with serving(ServerSettings(folder / "photos.faemb", jobs=1)) as client:
            yield client


def send(client: httpx.Client, content: bytes, name: str = "x.jpg") -> httpx.Response:
    return client.post("/api/search", files={"file": (name, content)})


def jpeg(seed: int = 0) -> bytes:
    stream = io.BytesIO()
    PIL.Image.fromarray(pixels(seed)).save(stream, "JPEG", quality=90)
    return stream.getvalue()


def assert_refused(response: httpx.Response, status: int, words: str) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert words in response.json()["detail"]
    assert "/tmp" not in response.text  # noqa: S108


def kept(temporary: Path) -> int:
    """Photographs; each server also has a lock there."""
    return sum(1 for file in temporary.rglob("*") if file.is_file() and file.suffix != ".lock")


@pytest.mark.parametrize(
    ("content", "name", "status", "words"),
    [
        (png_of_size(50_000, 50_000), "bomb.png", 422, "bomb.png is 50000 x 50000 pixels"),
        (png_of_size(2**31 - 1, 2**31 - 1), "bomb.png", 422, "bomb.png"),
        (jpeg()[:300], "cut.jpg", 422, "cut.jpg"),
        (b"", "empty.jpg", 422, "empty.jpg"),
        (SCRIPT, "page.jpg", 422, "page.jpg is not an image"),
        (b"%PDF-1.7\n", "page.pdf", 422, "page.pdf"),
        (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "x.svg", 422, "x.svg"),
        (b"PK\x03\x04" + bytes(100), "x.npz", 422, "x.npz"),
        (b"GIF89a", "../../etc/passwd.gif", 422, "passwd.gif cannot be decoded"),
        (jpeg() + b"planted crash", "crash.jpg", 503, "crash.jpg cannot be used now"),
        (jpeg() + b"planted hang", "hang.jpg", 413, "took longer than 2 s"),
    ],
    ids=["bomb", "greatest bomb", "truncated", "empty", "html", "pdf", "svg", "zip", "path", "crash", "hang"],
)
def test_a_hostile_file_is_refused_and_leaves_nothing(client, temporary, content, name, status, words):
    before = kept(temporary)
    assert_refused(send(client, content, name), status, words)
    assert wait_until(lambda: kept(temporary) == before)
    assert send(client, jpeg()).status_code == 200  # others are served as before


def test_what_is_also_a_page_is_served_as_a_picture_only(client):
    answer = send(client, jpeg(3) + SCRIPT, "<img src=x onerror=alert(1)>.html")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    shown = client.get(f"/api/pictures/{answer.json()['query']['key']}")
    assert shown.headers["content-type"] == "image/jpeg"
    assert shown.headers["x-content-type-options"] == "nosniff"
    assert b"<script" not in shown.content  # it is encoded anew


def test_a_page_among_the_images_is_only_saved(folder, tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "polyglot.jpg").write_bytes(jpeg(4) + SCRIPT)
    collection = make_collection(tmp_path, ["a.png", "b.png"]) / "photos.faemb"
    with serving(ServerSettings(collection, jobs=1)) as client:
        listed = client.get("/api/images", params={"name": "polyglot"}).json()["images"]
        sent = client.get(f"/api/images/{listed[0]['id']}/file")
    assert SCRIPT in sent.content
    assert sent.headers["content-type"] == "application/octet-stream"
    assert sent.headers["content-disposition"] == "attachment"
    assert sent.headers["x-content-type-options"] == "nosniff"


def test_many_photographs_take_the_room_of_a_few(client, temporary):
    keys = [send(client, jpeg(seed)).json()["query"]["key"] for seed in range(12)]
    assert wait_until(lambda: kept(temporary) <= 5)
    assert client.get(f"/api/pictures/{keys[-1]}").status_code == 200
    assert client.get(f"/api/pictures/{keys[0]}").status_code == 404


def test_a_photograph_that_is_sent_again_takes_no_more_room(client, temporary):
    send(client, jpeg(50), "a.jpg")
    before = kept(temporary)
    answers = [send(client, jpeg(50), name) for name in ("a.jpg", "b.png", "c")]
    assert {answer.status_code for answer in answers} == {200}
    assert wait_until(lambda: kept(temporary) == before)


def test_a_file_name_that_is_not_text_is_shown_with_question_marks(tmp_path):
    collection = make_collection(tmp_path, ["a.png", os.fsdecode(b"b\xff.png")]) / "photos.faemb"
    with serving(ServerSettings(collection, jobs=1)) as client:
        listed = client.get("/api/images").json()["images"]
        id = next(image["id"] for image in listed if image["name"] == "b?.png")
        assert client.post("/api/search", data={"query": f"image-{id}"}).json()["query"]["name"] == "b?.png"
        assert client.get(f"/api/explain/image-{id}/{id}").json()["result"]["name"] == "b?.png"
        (tmp_path / "photos" / os.fsdecode(b"b\xff.png")).unlink()
        gone = client.get(f"/api/images/{id}/file")
        assert (gone.status_code, gone.json()["detail"]) == (404, "The file b?.png is not there, or cannot be read.")
