"""Commands that are killed while they write to a Milvus server: nothing acknowledged is lost, and the next one goes on.

Most kills are at chosen calls of the server (see `process_beside`): before it has a call, and after its answer, before
the catalogue names what was stored. One hits the real command, at a random moment.
"""

import random
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faemb.collection import Collection
from faemb.collection.stores.addresses import parse
from faemb.collection.stores.milvus_server import Server
from milvus_beside import MilvusBeside
from pictures import pictures
from process_beside import Ended, process_beside
from processes import killed_when
from small_collections import make_collection, tiny_model, vectors_of

pytestmark = pytest.mark.milvus

Vectors = dict[str, np.ndarray]
IMAGES = 5
"""In a folder: three calls of the server, of two images at most."""


class Stage:
    """A process beside the tests and a server, a collection whose vectors lie there, and new photographs."""

    def __init__(self, root: Path, server: MilvusBeside) -> None:
        self.root, self.server, self._beside = root, server, process_beside()
        self._seeds = iter(range(0, 10_000, IMAGES))
        tiny_model().save(root / "tiny.faemb")

    def run(self, *arguments: object, **orders: float | str) -> Ended:
        return self._beside.run("command", *arguments, "--quiet", **orders)

    def kill(self, *arguments: object, **orders: float | str) -> None:
        assert self.run(*arguments, **orders).killed, f"{arguments[0]} has no such step: {orders}"

    def finish(self, *arguments: object) -> int:
        """The number of its steps."""
        ended = self.run(*arguments)
        assert (ended.fault, ended.told) == ("", ["done"])
        return ended.steps

    def photos(self) -> Path:
        first = next(self._seeds)
        return pictures(self.root / f"photos{first}", range(first, first + IMAGES))

    def index(self, name: str) -> list[object]:
        """The command that makes a collection of this name, and a store of the same name."""
        how = ("--model", self.root / "tiny.faemb", "--store", self.server.address(name), "--jobs", 1)
        return ["index", self.photos(), "--out", self.folder(name), *how]

    def folder(self, name: str) -> Path:
        return self.root / f"{name}.faemb"

    def tables(self, name: str) -> list[str]:
        """Milvus collections of a store."""
        with closing(Server(parse(self.server.address(name)))) as server:
            return [each for each in server.ask("list_collections") if each.startswith(f"{name}_")]


@pytest.fixture(scope="module")
def stage(milvus_server: MilvusBeside, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("writers"), milvus_server)


NAME = "changed"


@pytest.fixture(scope="module")
def changed(stage: Stage) -> Path:
    """One collection, whose commands are killed one after the other."""
    stage.finish(*stage.index(NAME))
    return stage.folder(NAME)


def kept(folder: Path) -> Vectors:
    """What is acknowledged: the vectors of all images that the catalogue names, none of them damaged."""
    with Collection.open(folder) as collection:
        return undamaged(collection)


def undamaged(collection: Collection) -> Vectors:
    assert collection.check() == []
    return vectors_of(collection)


def complete(stage: Stage, folder: Path, name: str) -> Vectors:
    """What is stored after a command that was not disturbed: all images, and nothing else in the server."""
    with Collection.open(folder) as collection:
        known, number = collection.info(), collection._catalogue.table()
        assert known.waiting == 0
        table = collection._store.get().table(number, collection.model)
        assert table.count() == known.searchable == known.images
        assert stage.tables(name) == [f"{name}_{number}"]
        return undamaged(collection)


def assert_kept(found: Vectors, before: Vectors) -> None:
    """Bit for bit."""
    for name, vector in before.items():
        np.testing.assert_array_equal(found[name], vector, err_msg=name)


def test_index(stage):
    """A table is made in several calls; without an index, it can be written and not read."""
    name = "begun"
    folder, command = stage.folder(name), stage.index(name)
    stage.kill(*command, call="CreateIndex", stop=1)
    assert kept(folder) == {}
    stage.finish(*command)
    assert len(complete(stage, folder, name)) == IMAGES


def test_add(stage, changed):
    kills: list[dict[str, Any]] = [{"call": "AlterCollection", "stop": 1}]  # which sets the mark of this writer
    kills += [{"call": "Upsert", "stop": step} for step in (1, 3)]  # not sent; stored, and not named in the catalogue
    after = complete(stage, changed, NAME)
    for orders in kills:
        before, command = after, ("add", changed, stage.photos(), "--jobs", 1)
        stage.kill(*command, **orders)
        meanwhile = kept(changed)
        assert_kept(meanwhile, before)
        stage.finish(*command)
        after = complete(stage, changed, NAME)
        assert len(after) == len(before) + IMAGES
        assert_kept(after, meanwhile)


def test_the_command_is_killed_at_a_random_moment(stage, changed):
    """With its workers, from when it has stored features; sooner each time that it has ended by itself before."""
    moments, features = random.Random(NAME), changed / "features-1.bin"  # noqa: S311
    for longest in (0.4, 0.2, 0.1, 0.05, 0, 0):
        before, command = kept(changed), ("add", changed, stage.photos(), "--jobs", "1")
        was_killed = killed_when(command, Moment(features, moments.uniform(0, longest)))
        meanwhile = kept(changed)
        assert_kept(meanwhile, before)
        stage.finish(*command)
        after = complete(stage, changed, NAME)
        assert len(after) == len(before) + IMAGES
        assert_kept(after, meanwhile)
        if was_killed:
            return
    pytest.fail("each command had ended before it was seen")


class Moment:
    """So many seconds after a file has grown."""

    def __init__(self, file: Path, seconds: float) -> None:
        self._file, self._seconds, self._size, self._since = file, seconds, file.stat().st_size, 0.0

    def __call__(self) -> bool:
        if not self._since and self._file.stat().st_size > self._size:
            self._since = time.monotonic()
        return self._since > 0 and time.monotonic() - self._since >= self._seconds


def test_remove(stage, changed):
    photos = stage.photos()
    stage.finish("add", changed, photos, "--jobs", 1)
    stage.kill("remove", changed, photos, call="Delete", stop=1)
    left = kept(changed)
    assert not [name for name in left if f"{photos.name}/" in name]
    stage.finish("add", changed, stage.photos(), "--jobs", 1)
    after = complete(stage, changed, NAME)
    assert len(after) == len(left) + IMAGES
    assert_kept(after, left)


def test_copy_to_a_server_and_back(stage):
    name = "copied"
    folder = make_collection(stage.root / name, [f"{number}.png" for number in range(IMAGES)]) / "photos.faemb"
    before, address = kept(folder), stage.server.address(name)
    stage.kill("copy", folder, address, call="Upsert", stop=3)
    assert_kept(kept(folder), before)
    assert (folder / "vectors-1.f32").exists()
    stage.finish("add", folder, stage.photos(), "--jobs", 1)
    assert stage.tables(name) == []  # what the copy has left
    stage.kill("copy", folder, address, call="CreateAlias", stop=1)  # it is in use by now
    stage.finish("add", folder, stage.photos(), "--jobs", 1)
    there = complete(stage, folder, name)
    assert len(there) == 3 * IMAGES
    assert_kept(there, before)
    stage.kill("copy", folder, "embedded", call="DropCollection", stop=1)
    assert_kept(kept(folder), there)
    stage.finish("add", folder, stage.photos(), "--jobs", 1)
    assert_kept(kept(folder), there)
    assert stage.tables(name) == []
