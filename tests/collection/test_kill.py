"""Collections whose writers are killed: no completed work is lost, and the same call again gives the same result.

Most kills are at chosen steps of a job (see `process_beside`), so that they fall between a write and its commit too;
some at random moments; some hit the real command with its workers.
"""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faemb.collection import Collection
from faemb.collection.locking import only_writer
from faemb.errors import InputError
from faemb.features import LocalFeatures
from pictures import picture, pictures, pixels
from process_beside import Beside, Ended, process_beside
from processes import COMMAND, PATIENCE, killed_when, living, wait_until
from small_collections import (
    assert_same,
    names_in,
    tiny_model,
    vectors_of,
)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the process beside the tests forks")


@cache
def query() -> LocalFeatures:
    return tiny_model().extractor.extract(pixels(3))


@dataclass
class Scenario:
    """A job on a copy of a collection, or where there is none yet."""

    job: str
    base: Path | None
    arguments: tuple[Path | str, ...] = ()


@dataclass
class Held:
    """What a collection answers with."""

    names: set[str]
    vectors: dict[str, np.ndarray]
    scores: dict[str, float]

    @classmethod
    def by(cls, folder: Path) -> "Held":
        with Collection.open(folder) as collection:
            assert collection.check() == []
            assert collection.layout.stale(collection._catalogue.in_use()) == []
            (answer,) = collection.search_features([query()], top=4)
            scores = {str(hit.path): hit.similarity for hit in answer.hits if hit.similarity is not None}
            return cls(names_in(collection), all_vectors_of(collection), scores)

    def assert_equals(self, other: "Held") -> None:
        assert self.names == other.names
        assert_same(self.vectors, other.vectors)
        assert self.scores == pytest.approx(other.scores, abs=1e-4)


class Stage:
    """Photos, collections to begin with, and the process that works on copies of them."""

    def __init__(self, root: Path, beside: Beside) -> None:
        self.root, self.beside = root, beside
        six, live = pictures(root / "six", range(6)), pictures(root / "live", range(10, 16))
        assert beside.run("index", root / "few", six).fault == ""
        few = root / "few"
        lively = self._with(few, "lively", live)
        many = self._with(few, "many", pictures(root / "more", range(20, 46)))
        more = (pictures(root / "a", (50, 51)), picture(root / "b.png", 52), pictures(root / "c", (53, 54)))
        self._change(live)
        self.scenarios = {
            "index": Scenario("index", None, (six,)),
            "parts": Scenario("index", None, (six, "2")),
            "add": Scenario("add", few, more),
            "update": Scenario("update", lively),
            "remove": Scenario("remove", many, (root / "more",)),
            "compact": Scenario("compact", self._with_holes(many)),
            "relearn": Scenario("relearn", self._outgrown(few)),
            "grow": Scenario("add", few, (root / "later",)),
        }

    def _with(self, base: Path, name: str, photos: Path) -> Path:
        folder = shutil.copytree(base, self.root / name)
        assert self.beside.run("add", folder, photos).fault == ""
        return folder

    def _change(self, live: Path) -> None:
        picture(live / "010.png", 99)
        picture(live / "below" / "new.png", 98)
        (live / "011.png").unlink()
        (live / "broken.png").write_bytes(b"\x89PNG no more")
        os.utime(live / "012.png", (1, 1))
        (live / "013.png").rename(live / "below" / "moved.png")
        shutil.copy(live / "014.png", live / "below" / "copied.png")

    def _outgrown(self, few: Path) -> Path:
        """Its model has learned from 6 of 14 images."""
        folder = shutil.copytree(few, self.root / "outgrown")
        assert self.beside.run("add_only", folder, pictures(self.root / "later", range(60, 68))).fault == ""
        return folder

    def _with_holes(self, many: Path) -> Path:
        folder = shutil.copytree(many, self.root / "holes")
        assert self.beside.run("remove", folder, *sorted((self.root / "more").iterdir())[::2]).fault == ""
        return folder

    def copy(self, scenario: Scenario, name: str) -> Path:
        """Beside the original, so that relative names mean the same."""
        folder = self.root / name
        shutil.rmtree(folder, ignore_errors=True)
        if scenario.base is not None:
            shutil.copytree(scenario.base, folder)
        return folder


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("killed"), process_beside())


@pytest.mark.parametrize(
    ("name", "kills"),
    [
        ("index", 6),
        ("parts", 4),
        ("add", 4),
        ("update", 4),
        ("remove", 5),
        ("compact", 6),
        ("relearn", 10),
        ("grow", 8),
    ],
    ids=lambda value: value,
)
def test_a_job_that_is_killed_at_any_step(stage, name, kills):
    scenario = stage.scenarios[name]
    folder = stage.copy(scenario, "undisturbed")
    whole = stage.beside.run(scenario.job, folder, *scenario.arguments)
    assert whole.fault == ""
    expected = Held.by(folder)
    chosen = random.Random(name)  # noqa: S311
    for stop in sorted(chosen.sample(range(1, whole.steps + 1), kills)):
        folder = stage.copy(scenario, "killed")
        ended = stage.beside.run(scenario.job, folder, *scenario.arguments, stop=stop)
        assert ended.killed, f"step {stop} of {whole.steps}"
        assert_nothing_lost(stage, scenario, folder, ended, expected)
        finish(stage, scenario, folder, expected)


def test_a_job_that_is_killed_at_random_moments_and_goes_on_each_time(stage):
    """One collection, killed until it is done: SQLite's own steps are hit as well."""
    scenario, moments = stage.scenarios["index"], random.Random(5)  # noqa: S311
    folder = stage.copy(scenario, "undisturbed")
    start = time.monotonic()
    assert stage.beside.run("index", folder, *scenario.arguments).fault == ""
    duration, expected = time.monotonic() - start, Held.by(folder)
    folder = stage.copy(scenario, "killed")
    for _ in range(4):
        ended = stage.beside.run("index", folder, *scenario.arguments, after=moments.uniform(0, duration))
        assert_nothing_lost(stage, scenario, folder, ended, expected)
    finish(stage, scenario, folder, expected)


def test_a_repair_that_is_killed_at_any_step(stage):
    """The next repair finds the remaining damage."""
    base, expected = damaged(stage), held_before(stage.root / "few")
    scenario = Scenario("repair", base)
    whole = stage.beside.run("repair", stage.copy(scenario, "undisturbed"))
    assert whole.fault == ""
    Held.by(stage.root / "undisturbed").assert_equals(expected)
    for stop in sorted(random.Random("repair").sample(range(1, whole.steps + 1), 4)):  # noqa: S311
        folder = stage.copy(scenario, "killed")
        assert stage.beside.run("repair", folder, stop=stop).killed
        assert entries_of(folder).keys() == expected.names
        assert stage.beside.run("repair", folder).fault == ""
        Held.by(folder).assert_equals(expected)


def damaged(stage: Stage) -> Path:
    """A vector, and features of two images."""
    folder = shutil.copytree(stage.root / "few", stage.root / "damaged")
    for name, places in (("vectors-1.f32", (0.1,)), ("features-1.bin", (0.1, 0.9))):
        content = bytearray((folder / name).read_bytes())
        for place in places:
            content[int(place * len(content))] ^= 1
        (folder / name).write_bytes(content)
    return folder


def assert_nothing_lost(stage: Stage, scenario: Scenario, folder: Path, ended: Ended, expected: Held) -> None:
    try:
        collection = Collection.open(folder)
    except InputError:
        assert (scenario.base, ended.told) == (None, [])  # not even made yet
        return
    with collection:
        assert collection.check() == []
        names = names_in(collection)
        vectors = all_vectors_of(collection) if collection.model.is_fitted else {}
    before = held_before(scenario.base)
    for name, vector in vectors.items():
        known = [held.vectors[name] for held in (before, expected) if name in held.vectors]
        assert any(np.allclose(vector, other, atol=1e-4) for other in known), name
    assert before.names & expected.names <= names <= before.names | expected.names
    if scenario.job == "relearn":
        assert names == expected.names
        one = "../six/000.png"
        now = next(held for held in (before, expected) if np.allclose(held.vectors[one], vectors[one], atol=1e-4))
        assert_same(vectors, now.vectors)  # all are there, and of one model
    if scenario.job in ("remove", "compact"):
        assert names in (before.names, expected.names)
        assert vectors.keys() == names
    if scenario.job == "add":
        done = [place for place in ended.told if place]
        assert {name for name in expected.names if any(Path(place).name in name for place in done)} <= vectors.keys()
    elif ended.told in (["made", "added"], ["updated"], ["removed"]):
        assert vectors.keys() == expected.vectors.keys()


def test_after_a_relearning_that_is_killed_any_command_ends_it(stage):
    """Also one that adds or removes images."""
    scenario, chosen = stage.scenarios["relearn"], random.Random("next")  # noqa: S311
    whole = stage.beside.run("relearn", stage.copy(scenario, "undisturbed"))
    for stop in sorted(chosen.sample(range(1, whole.steps + 1), 4)):
        folder = stage.copy(scenario, "killed")
        assert stage.beside.run("relearn", folder, stop=stop).killed
        assert stage.beside.run("remove", folder, stage.root / "six" / "001.png").fault == ""
        assert stage.beside.run("add", folder, stage.root / "b.png").fault == ""
        assert Held.by(folder).vectors.keys() == held_before(scenario.base).names - {"../six/001.png"} | {"../b.png"}
        with Collection.open(folder) as collection:
            assert not collection.info().relearning_is_due
            (answer,) = collection.search(stage.root / "b.png", top=1)
            assert answer.hits[0].path == stage.root / "b.png"


def all_vectors_of(collection: Collection) -> dict[str, np.ndarray]:
    """Of each image and of its parts, by stored name."""
    view, names = collection.view(), {entry.id: entry.path for entry in collection.entries()}
    return {names[image]: np.array(view.stored[slot]) for slot, image in zip(view.slots, view.ids, strict=True)}


@cache
def held_before(base: Path | None) -> Held:
    return Held.by(base) if base is not None else Held(set(), {}, {})


def finish(stage: Stage, scenario: Scenario, folder: Path, expected: Held) -> None:
    """Images whose features are stored are not described again."""
    held = entries_of(folder)
    ended = stage.beside.run(scenario.job, folder, *scenario.arguments)
    already = scenario.job == "remove" and not any("more/" in name for name in held)
    assert ended.fault == "" or (already and "is not in the collection" in ended.fault)
    Held.by(folder).assert_equals(expected)
    now = entries_of(folder)
    assert {name: now[name] for name in held if name in expected.names and held[name][1] == now[name][1]} == {
        name: marks for name, marks in held.items() if name in expected.names and marks[1] == now[name][1]
    }


def entries_of(folder: Path) -> dict[str, tuple[int, str]]:
    if not (folder / "catalogue.sqlite").exists():
        return {}
    with Collection.open(folder) as collection:
        return {entry.path: (entry.id, entry.hash) for entry in collection.entries()}


# The real command


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_the_command_is_killed_with_its_workers_and_run_again(tmp_path):
    """Four kills of one collection's commands: each is started again, and the result is the undisturbed one."""
    photos, folder = pictures(tmp_path / "photos", range(8)), tmp_path / "c.faemb"
    more = pictures(tmp_path / "more", range(20, 45), size=(64, 48))
    tiny_model().save(tmp_path / "tiny.faemb")
    index = ["index", photos, "--out", folder, "--model", tmp_path / "tiny.faemb", "--jobs"]
    kill_the_command_alone([*index, "2"], folder)
    hits = int(killed([*index, "1"], lambda: size(folder / "features-1.bin") > 0))
    with Collection.resume(folder, tiny_model()) as collection:  # from here on the calls behind the commands
        collection.add(photos)
    before = size(folder / "features-1.bin")
    hits += killed(["add", folder, more, "--jobs", "1"], lambda: size(folder / "features-1.bin") > before)
    assert names(folder) >= {f"../photos/{seed:03}.png" for seed in range(8)}
    with Collection.open(folder) as collection:
        collection.add(more)
    hits += killed(["remove", folder, more], lambda: (folder / "vectors-2.f32").exists())
    assert hits >= 2  # where there is much else to do, one may have ended before it was seen
    with Collection.open(folder) as collection, suppress(InputError):  # it may be done
        collection.remove(more)
    assert names(folder) == {f"../photos/{seed:03}.png" for seed in range(8)}
    with Collection.open(folder) as collection, undisturbed(tmp_path, photos) as other:
        assert collection.check() == []
        assert_same(vectors_of(collection), vectors_of(other))


def undisturbed(root: Path, photos: Path) -> Collection:
    collection = Collection.create(root / "undisturbed", tiny_model())
    collection.add(photos)
    return collection


def names(folder: Path) -> set[str]:
    with Collection.open(folder) as collection:
        return names_in(collection)


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def kill_the_command_alone(arguments: list[Any], folder: Path) -> None:
    """Its orphaned workers, which end a little later, do not hold the lock."""
    run = subprocess.Popen([COMMAND, *arguments, "--quiet"], start_new_session=True)  # noqa: S603
    try:
        assert wait_until(lambda: len(programs(run.pid)) >= 4)  # itself, a tracker of resources, two workers
        run.kill()
        run.wait(PATIENCE)
        with Collection.open(folder) as collection, only_writer(collection.layout):
            assert collection.check() == []
        assert wait_until(lambda: not living(run.pid))
    finally:
        run.kill()
        for orphan in living(run.pid):
            os.kill(orphan, signal.SIGKILL)


def programs(session: int) -> set[bytes]:
    """Numbers and command lines of processes; not of a child that is still a copy of its parent, with all its files."""
    lines = {number: command_line(number) for number in {session, *living(session)}}
    return {b"%d %b" % (number, line) for number, line in lines.items() if number == session or line != lines[session]}


def command_line(number: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{number}/cmdline").read_bytes()
    return b""


def killed(arguments: list[Any], when: Callable[[], bool]) -> bool:
    """As `killed_when`; the collection is whole afterwards."""
    was_killed = killed_when(arguments, when)
    folder = arguments[3] if arguments[0] == "index" else arguments[1]
    if (folder / "catalogue.sqlite").exists():
        with Collection.open(folder) as collection:
            assert collection.check() == []
    return was_killed
