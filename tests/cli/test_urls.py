"""URLs in place of paths on the command line."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Run, assert_mistake, commands

from elsewhere import SECRET, served
from faemb.runtime import remote
from small_collections import make_collection


@pytest.fixture
def faemb(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return commands(monkeypatch, capfd)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_collection(tmp_path_factory.mktemp("made"), ["a.png", "b.png"])


def test_a_query_is_shown_without_its_secrets(faemb, made, tmp_path):
    with served(made / "photos") as (server, _):
        query = f"{server.replace('://', f'://me:{SECRET}@')}/a.png?sig={SECRET}"
        page = tmp_path / "page.html"
        found = faemb("search", made / "photos.faemb", query, "--top", 1, "--html", page)
        missing = faemb("search", made / "photos.faemb", query.replace("a.png", "none.png"))
    assert found.code == 0
    assert f"{server}/a.png: " in found.out
    assert f"{made}/photos/a.png  (copy of the query)" in found.out
    assert missing.code == 1
    assert f"there is no file '{server}/none.png'" in missing.err
    assert SECRET not in found.out + found.err + missing.err + page.read_text()


def test_a_folder_elsewhere_is_added_and_explained(faemb, made, tmp_path):
    with served(made / "photos") as (server, _):
        out = shutil.copytree(made / "photos.faemb", tmp_path / "far.faemb")
        assert faemb("add", out, f"{server}/", "--jobs", 1).code == 0
        assert f"folder {server}" in faemb("info", out).out
        assert faemb("explain", out, f"{server}/a.png", f"{server}/b.png").code == 0
        assert faemb("show-features", f"{server}/a.png", "--out", tmp_path / "drawn.png").code == 0
        assert faemb("remove", out, f"{server}/a.png").code == 0


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (f"s3://key:{SECRET}@bucket/a.jpg", "leave them out, and set AWS_ACCESS_KEY_ID"),
        ("s3:///a.jpg", "s3:///a.jpg names no server or bucket"),
        ("s3://bucket/a//b.jpg", "empty part"),
        ("xyz://bucket/a.jpg", "xyz://, which is unknown"),
        ("http://127.0.0.1:1/a.jpg", "http://127.0.0.1:1/a.jpg cannot be reached: .*check the address"),
    ],
)
def test_mistakes(faemb, made, url, words):
    for command in ("search", "add"):
        ended = faemb(command, made / "photos.faemb", url)
        assert_mistake(ended, words)
        assert SECRET not in ended.err


def test_without_the_extra(faemb, made, monkeypatch):
    monkeypatch.setattr(remote, "find_spec", lambda name: None)
    words = r'reading s3://bucket/album needs the extra .remote.: pip install "faemb\[remote\]"'
    assert_mistake(faemb("add", made / "photos.faemb", "s3://bucket/album"), words)


def test_nothing_of_it_is_imported_for_local_files(made):
    script = f"""
import sys
from faemb.collection import Collection
Collection.open({str(made / "photos.faemb")!r}).search({str(made / "photos" / "a.png")!r})
sys.exit(" ".join(name for name in ("fsspec", "s3fs", "aiohttp", "botocore") if name in sys.modules) or 0)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)  # noqa: S603
    assert ended.returncode == 0, ended.stderr
