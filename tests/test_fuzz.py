"""The fuzzer finds planted faults of every class, makes the same inputs again, and a short run finds none in faemb."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tools.fuzz.findings import Findings
from tools.fuzz.kind import Kind, Way, maker
from tools.fuzz.mutations import changed
from tools.fuzz.odd import json_changed, tree_text
from tools.fuzz.worker import Begun, Outcome

import made_up_runs

ROOT = Path(__file__).parent.parent
EXPECTED = {
    "sound": None,
    "accepting": None,
    "crash": "crash",
    "exit": "crash",
    "hang": "hang",
    "memory": "memory",
    "unbounded": "traceback",
    "traceback": "traceback",
    "unforeseen": "message",
    "misread": "silent damage",
    "warning": "warning",
    "outside": "outside",
    "program": "outside",
    "temporary": "left behind",
}
INPUTS = 6
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of processes are those of Linux")


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """In a new interpreter: a fuzzer forks, and this process has threads and checks of types."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=600)  # noqa: S603


class Texts(Kind):
    name = "texts"

    def prepare(self, folder: Path) -> None:
        for number in range(3):
            (new(folder / str(number)) / "file.json").write_text(json.dumps({"number": number, "list": [1, 2, 3]}))

    def ways(self, victim: Path) -> Sequence[Way]:
        return (json_changed,)

    def read(self, folder: Path) -> None:
        raise NotImplementedError


@pytest.fixture
def all_libraries() -> None:
    """The readers of all formats are fuzzed."""
    for library in ("faiss", "h5py", "onnx", "onnxruntime", "pillow_heif", "pymilvus"):
        pytest.importorskip(library)


def fuzz(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run("-m", "tools.fuzz", *arguments)


def test_planted_faults_are_found_and_sound_readers_are_not_blamed(tmp_path: Path) -> None:
    ended = run(ROOT / "tests" / "planted_faults.py", tmp_path / "work", *EXPECTED)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout) == EXPECTED


@pytest.mark.usefixtures("all_libraries")
def test_a_short_run_finds_nothing(tmp_path: Path) -> None:
    ended = fuzz("--inputs", INPUTS, "--jobs", 1, "--work", tmp_path, "--keep", tmp_path / "findings")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "0 findings" in ended.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["findings"]


def test_an_input_depends_on_the_seed_and_its_number_alone(tmp_path: Path) -> None:
    kind = Texts()
    kind.prepare(seeds := new(tmp_path / "seeds"))
    for number in range(20):
        labels = [maker(kind, seeds, 7, number)(tmp_path / f"{which}-{number}") for which in ("one", "again")]
        assert labels[0] == labels[1]
        assert contents(tmp_path / f"one-{number}") == contents(tmp_path / f"again-{number}")
    assert contents(tmp_path / "one-0") != contents(tmp_path / "one-1")


@pytest.mark.usefixtures("all_libraries")
def test_a_finding_that_was_corrected_is_read_again_without_a_fault(tmp_path: Path) -> None:
    stored = Findings(tmp_path / "findings")
    begun, outcome = Begun(0, "a run", 1), Outcome("crash", "SIGSEGV", "in a library")
    stored.add("runs", 0, begun, outcome, lambda folder: made_up_runs.run().save(new(folder)))
    (name,) = stored.all
    ended = fuzz("--again", tmp_path / "findings" / name)
    assert ended.returncode == 0, ended.stderr
    assert "runs, crash, 1 times: SIGSEGV" in ended.stdout
    assert "now: accepted" in ended.stdout


def test_only_the_smallest_input_of_a_finding_is_kept(tmp_path: Path) -> None:
    stored = Findings(tmp_path)
    for size in (30, 10, 20):
        outcome = Outcome("crash", "SIGSEGV", "in a library")
        stored.add("runs", 0, Begun(size, "a run", size), outcome, lambda folder: new(folder))
    (finding,) = stored.all.values()
    assert (finding.size, finding.number, finding.times) == (10, 10, 3)
    assert Findings(tmp_path).all == {}
    assert list(tmp_path.iterdir()) == []


def new(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_bytes_depend_on_the_seed_alone() -> None:
    data, donor = bytes(range(200)), b"another file" * 9
    made = [[changed(data, donor, np.random.default_rng([seed, number])) for number in range(50)] for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]
    assert all(each != data for each in made[0])


def test_nothing_is_left_of_an_empty_file_but_a_donor() -> None:
    assert changed(b"", b"another file", np.random.default_rng(0))


def test_trees_with_odd_values_are_texts_that_readers_can_parse() -> None:
    tree = {"settings": {"n": 1, "parts": [1, 2, {"a": None}]}}
    texts = [tree_text(tree, np.random.default_rng(number)) for number in range(100)]
    assert len(set(texts)) > 50
    assert all(text != json.dumps(tree) for text in texts[:20])
