"""Images in buckets of moto's S3 server, which runs on this machine."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from command_line import Run, assert_mistake, commands

from clusters import processes
from elsewhere import served
from faemb.collection import Collection, Model, gathering
from faemb.errors import RefusedError, RemoteError
from faemb.features.folders import find_images
from faemb.runtime import remote
from faemb.runtime.cluster import open_cluster
from faemb.runtime.paths_and_urls import place
from pictures import picture
from processes import wait_until
from small_collections import NAMES, assert_same, counts, names_in, tiny_model, vectors_of

pytestmark = pytest.mark.remote

KEY = "s3cret-key"


class Server:
    """A server without any bucket, which can be stopped and started again at the same address."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
        if not wait_until(self._answers):
            self.stop()
            pytest.fail("the S3 server does not start; try: python -m moto.server")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def _answers(self) -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def account(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "AWS_ENDPOINT_URL": server.address,
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for seed, name in enumerate(NAMES):
        picture(tmp_path / "photos" / name, seed)
    return tmp_path / "photos"


@pytest.fixture
def bucket(photos: Path, tmp_path: Path) -> str:
    """The URL of a folder in a new bucket, with a copy of `photos`."""
    name = re.sub("[^a-z0-9]", "", tmp_path.name)[-40:]
    fill(name, photos)
    return f"s3://{name}/album"


@pytest.fixture
def model() -> Model:
    return tiny_model()


@pytest.fixture
def faemb(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return commands(monkeypatch, capfd)


def system() -> Any:
    return fsspec.filesystem("s3")


def fill(bucket: str, photos: Path) -> None:
    system().mkdir(bucket)
    for path in (path for path in photos.rglob("*") if path.is_file()):
        system().pipe_file(f"{bucket}/album/{path.relative_to(photos).as_posix()}", path.read_bytes())


def test_a_bucket_is_like_a_folder(bucket, photos, tmp_path, model):
    with (
        Collection.create(tmp_path / "far.faemb", model) as far,
        Collection.create(tmp_path / "near.faemb", model) as near,
    ):
        assert counts(far.add(bucket, jobs=2)) == (5, 0, 0, 0)
        near.add(photos)
        assert names_in(far) == {f"{bucket}/{name}" for name in NAMES}
        places = {str(near.layout.path_of(name).relative_to(photos)): each for name, each in vectors_of(near).items()}
        assert_same({name.removeprefix(f"{bucket}/"): each for name, each in vectors_of(far).items()}, places)
        assert counts(far.update()) == (0, 0, 5, 0)

        (answer,) = far.search(f"{bucket}/a.png", top=1)
        assert answer.hits[0].itself
        assert far.thumbnail(f"{bucket}/a.png").jpeg


def test_new_changed_and_deleted_objects(bucket, photos, tmp_path, model):
    with Collection.create(tmp_path / "far.faemb", model) as far:
        far.add(bucket, jobs=1)
        root = bucket.removeprefix("s3://")
        system().pipe_file(f"{root}/new.png", picture(tmp_path / "new.png", 20).read_bytes())
        system().pipe_file(f"{root}/a.png", picture(tmp_path / "a.png", 21).read_bytes())
        system().rm_file(f"{root}/trip/d.png")
        assert counts(far.update(jobs=1)) == (1, 1, 3, 1)
        system().pipe_file(f"{root}/b.png", (photos / "b.png").read_bytes())  # the same content again
        assert counts(far.update(jobs=1)) == (0, 0, 5, 0)


def test_a_change_in_the_same_second_and_of_the_same_size_is_seen(bucket):
    root = bucket.removeprefix("s3://")
    system().pipe_file(f"{root}/x.png", b"1")
    before = place(f"{bucket}/x.png").stat()
    listed = next(path for path in find_images([bucket]).images if path.name == "x.png").stat()
    assert (listed.st_size, listed.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    system().pipe_file(f"{root}/x.png", b"2")
    after = place(f"{bucket}/x.png").stat()
    assert (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns)


def test_names_of_all_kinds(bucket, photos):
    root, content = bucket.removeprefix("s3://"), (photos / "a.png").read_bytes()
    odd = ["ümlaut é.png", "a?b#c.png", "a%20b.png", "x::y.png", "a+b&c@d.png"]
    for name in odd:
        system().pipe_file(f"{root}/odd/{name}", content)
    system().pipe_file(f"{root}/odd/marker/", b"")
    found = find_images([f"{bucket}/odd"])
    assert sorted(path.name for path in found.images) == sorted(odd)
    assert found.unreadable == []
    for path in found.images:
        assert path.read_bytes() == content
    system().call_s3("put_object", Bucket=root.split("/")[0], Key="album/odd//lost.png", Body=content)
    assert "holds the name '', which no path can have; rename it" in find_images([f"{bucket}/odd"]).unreadable[0]


def test_many_objects_are_listed_page_by_page(bucket, monkeypatch):
    asked: list[dict[str, Any]] = []
    kind: Any = fsspec.get_filesystem_class("s3")
    usual = kind.call_s3

    def small_pages(self: Any, method: str, **given: Any) -> Any:
        asked.append(given)
        return usual(self, method, MaxKeys=2, **given)

    monkeypatch.setattr(kind, "call_s3", small_pages)
    assert [path.name for path in find_images([bucket]).images] == [name.split("/")[-1] for name in NAMES]
    assert len([each for each in asked if "ContinuationToken" in each]) >= 1


def test_commands(faemb, bucket, tmp_path):
    out = tmp_path / "c.faemb"
    assert faemb("index", bucket, "--out", out, "--max-features", 40, "--jobs", 1).code == 0
    assert f"folder {bucket}" in faemb("info", out).out
    assert f"{bucket}/a.png  (the query itself)" in faemb("search", out, f"{bucket}/a.png").out
    assert faemb("remove", out, f"{bucket}/trip").code == 0
    assert faemb("features", bucket, "--out", tmp_path / "features", "--jobs", 1).code == 0
    assert (tmp_path / "features" / "trip" / "d.png.npz").is_file()


def test_commands_on_a_cluster(faemb, bucket, tmp_path):
    out = tmp_path / "c.faemb"
    assert faemb("index", bucket, "--out", out, "--max-features", 40, "--cluster", "local:2").code == 0
    assert f"{bucket}/a.png  (the query itself)" in faemb("search", out, f"{bucket}/a.png").out
    assert faemb("features", bucket, "--out", tmp_path / "features", "--cluster", "local:2").code == 0
    assert (tmp_path / "features" / "trip" / "d.png.npz").is_file()


@pytest.fixture
def two_workers(tmp_path: Path) -> Iterator[str]:
    """A cluster of which one worker has no credentials."""
    with processes(tmp_path) as beside:
        beside.start(workers=1)
        beside.add_worker(AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
        with open_cluster(beside.address) as cluster:
            cluster.client.wait_for_workers(2)
        yield beside.address


def test_a_worker_without_credentials_passes_images_to_one_that_has_some(faemb, bucket, two_workers, tmp_path):
    ended = faemb("index", bucket, "--out", tmp_path / "c", "--max-features", 40, "--cluster", two_workers)
    assert ended.code == 0
    assert re.search(r"the worker tcp://.* gets no more of this work: s3://.* may not be read: Unable to", ended.err)
    quiet = faemb("index", bucket, "--out", tmp_path / "q", "--max-features", 40, "--cluster", two_workers, "--quiet")
    assert quiet == (0, "", "")


@pytest.mark.parametrize("command", ["index", "fit", "features"])
def test_mistakes_are_one_sentence_and_leave_nothing(command, faemb, bucket, tmp_path, monkeypatch):
    out = tmp_path / "out"
    assert_mistake(
        faemb(command, "s3://no-such-bucket/x", "--out", out), "there is no file or folder s3://no-such-bucket/x"
    )
    assert_mistake(faemb(command, f"{bucket}/none", "--out", out), f"there is no file or folder {bucket}/none")
    with monkeypatch.context() as patch:
        patch.delenv("AWS_ACCESS_KEY_ID")
        patch.delenv("AWS_SECRET_ACCESS_KEY")
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        words = rf"{bucket} may not be read: Unable to locate credentials; give .*, by AWS_ACCESS_KEY_ID"
        assert_mistake(faemb(command, bucket, "--out", out), words)
    assert not out.exists()


def test_a_bucket_that_may_not_be_read(faemb, tmp_path, monkeypatch):
    with served(tmp_path) as (address, _):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        with pytest.raises(RefusedError, match=r"^s3://forbidden/x may not be read: .*; give credentials") as caught:
            place("s3://forbidden/x").is_dir()
    assert KEY not in str(caught.value)


def test_a_server_that_stops_in_the_middle(server, bucket, photos, tmp_path, model, monkeypatch):
    """What was stored is there, and the same call goes on."""
    for seed in range(5, 40):
        picture(photos / f"{seed}.png", seed)
    server.stop()
    server.start()
    fill(bucket.removeprefix("s3://").removesuffix("/album"), photos)
    monkeypatch.setattr(gathering, "_AWAY", 3)
    monkeypatch.setattr(gathering, "_COMMIT_IMAGES", 4)

    def stop(stage: str, done: int, total: int) -> None:
        if stage == "features" and done == 10:
            server.stop()

    with Collection.create(tmp_path / "far.faemb", model) as far:
        with pytest.raises(
            RemoteError, match=r"3 images in a row could not be read, and those before are stored: s3://"
        ):
            far.add(bucket, jobs=1, progress=stop)
        stored = len(far)
        assert 10 <= stored < 40
        assert far.info().unreadable == {}
        assert far.check() == []
        with pytest.raises(RemoteError, match="cannot be reached"):
            far.update()
        server.start()
        fill(bucket.removeprefix("s3://").removesuffix("/album"), photos)
        assert counts(far.add(bucket, jobs=1)) == (40 - stored, 0, stored, 0)
        assert far.check() == []


def test_the_file_systems_options_are_the_users(monkeypatch):
    from fsspec.config import conf

    monkeypatch.setitem(conf, "s3", {"config_kwargs": {"read_timeout": 1}})
    made, _ = remote._system(remote.Address("s3://bucket/a", "s3://bucket/a"))
    assert made.config_kwargs == {"read_timeout": 1}
