"""The commands for benchmarks: what they print, where, and how they end."""

import json
from pathlib import Path

import pytest
from command_line import Run as Command
from command_line import assert_mistake, commands

from cnn_networks import cells, saved
from faemb.benchmark.command import Experiment
from faemb.benchmark.datasets import KINDS, checked, open_dataset
from faemb.benchmark.run import FILE, Row, Run, Used
from faemb.features import CnnMap, HessianAffine


@pytest.fixture
def faemb(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    return commands(monkeypatch, capfd)


@pytest.fixture
def holidays(tmp_path: Path) -> Path:
    """Two groups; images are never decoded."""
    folder = tmp_path / "holidays"
    folder.mkdir()
    for name in ("100000", "100001", "100100", "100101"):
        (folder / f"{name}.jpg").write_text(name)
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    rows = (Row({"method": "FAemb", "n": 8}, {"mAP": 72.9}, {"mAP": 72.7}), Row({"method": "Temb"}, {"mAP": 71.0}))
    used = Used("holidays", 1491, "ab")
    Run("sota", "Results", used, 500, "cd", (), (), {}, {}, "2026-03-06T12:00:00Z", 60.0, rows).save(folder)
    return folder


def test_without_a_folder_every_kind_is_listed(faemb: Command) -> None:
    ended = faemb("datasets")
    assert (ended.code, ended.err) == (0, "")
    for kind in KINDS.values():
        assert kind.name in ended.out
        assert kind.title in ended.out
    assert "5,062 or 5,063 images" in ended.out
    assert "https://www.robots.ox.ac.uk/~vgg/data/oxbuildings/" in ended.out
    assert "one gt.tsv with the columns query, relevant, junk" in ended.out


def test_kinds_as_json(faemb: Command) -> None:
    assert [kind["name"] for kind in json.loads(faemb("datasets", "--json").out)] == list(KINDS)
    (one,) = json.loads(faemb("datasets", "--json", "--kind", "oxford5k").out)
    assert (one["images"], one["queries"], one["measures"]) == ([5062, 5063], 55, ["mAP"])


def test_a_folder_is_checked(faemb: Command, holidays: Path) -> None:
    ended = faemb("datasets", holidays)
    assert (ended.code, ended.err) == (0, "")
    expected = checked(open_dataset(holidays))
    for text in ("holidays, read as holidays", "a subset: 4 images and 2 queries", "4 files, 0.0 MB", "498 images: "):
        assert text in ended.out
    assert expected.images.checksum in ended.out
    assert expected.labels in ended.out


def test_a_check_as_json_has_every_missing_name(faemb: Command, holidays: Path) -> None:
    content = json.loads(faemb("datasets", holidays, "--json", "--kind", "holidays").out)
    assert (content["kind"], content["images"], content["queries"], content["bytes"]) == ("holidays", 4, 2, 24)
    assert content["complete"] is False
    assert len(content["missing"]) == 498


def test_quiet_prints_nothing(faemb: Command, holidays: Path) -> None:
    assert faemb("datasets", holidays, "--quiet") == (0, "", "")


@pytest.mark.parametrize("arguments", [["nowhere"], ["{empty}"], ["{holidays}", "--kind", "ukbench"], ["--kind", "x"]])
def test_what_cannot_be_used_ends_in_one_sentence(
    faemb: Command, holidays: Path, tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "empty").mkdir()
    ended = faemb("datasets", *(part.format(empty=tmp_path / "empty", holidays=holidays) for part in arguments))
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("faemb: ")
    assert ended.err.count("\n") == 1


def test_runs_become_a_page(faemb: Command, run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert faemb("leaderboard", run, "--out", page, "--title", "Ours <now>") == (0, f"written to {page}\n", "")
    content = page.read_text(encoding="utf-8")
    assert "<title>Ours &lt;now&gt;</title>" in content
    assert "72.9" in content


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is damaged"),
        ('{"version": 99}', "was made by a newer faemb"),
    ],
    ids=["damaged", "newer"],
)
def test_a_bad_run_is_told_in_one_sentence_and_the_others_are_shown(
    faemb: Command, run: Path, tmp_path: Path, text: str, sentence: str
) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / FILE).write_text(text)
    ended = faemb("leaderboard", run, bad, "--out", tmp_path / "page.html")
    assert (ended.code, ended.out, ended.err.count("\n")) == (3, f"written to {tmp_path / 'page.html'}\n", 1)
    assert ended.err.startswith(f"faemb: {bad / FILE} {sentence}")
    assert "72.9" in (tmp_path / "page.html").read_text(encoding="utf-8")
    (tmp_path / "page.html").unlink()
    assert faemb("leaderboard", bad, "--out", tmp_path / "page.html").code == 1
    assert not (tmp_path / "page.html").exists()


def test_what_is_no_run_is_passed_over_in_one_line(faemb: Command, run: Path, tmp_path: Path) -> None:
    """As with `faemb leaderboard runs/*`."""
    cache, note, page = tmp_path / "cache", tmp_path / "note.txt", tmp_path / "page.html"
    cache.mkdir()
    note.touch()
    ended = faemb("leaderboard", cache, run, note, "--out", page)
    assert (ended.code, ended.out) == (0, f"written to {page}\n")
    assert ended.err == f"faemb: passed over what holds no run.json: {cache}, {note}\n"
    assert "72.9" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["cache", "nowhere"])
def test_without_any_run_there_is_no_page(faemb: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / "cache").mkdir()
    ended = faemb("leaderboard", tmp_path / name, "--out", tmp_path / "page.html")
    assert_mistake(ended, rf"there is no .*{name}; give folders that faemb benchmark made")
    assert not (tmp_path / "page.html").exists()


def test_a_page_needs_its_suffix(faemb: Command, run: Path, tmp_path: Path) -> None:
    ended = faemb("leaderboard", run, "--out", tmp_path / "page.txt")
    assert (ended.code, ended.out) == (1, "")
    assert "ends in .html" in ended.err


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, run: Path) -> list[Experiment]:
    """Experiments as the command line hands them on; results are those of `run`."""
    seen: list[Experiment] = []

    def take(experiment: Experiment, *more: object, **options: object) -> Run:
        seen.append(experiment)
        return Run.load(run)

    monkeypatch.setattr("faemb.benchmark.command.run_experiment", take)
    return seen


def test_an_experiment_and_its_result(faemb: Command, asked: list[Experiment], tmp_path: Path) -> None:
    ended = faemb(
        "benchmark", "set", "--learn", "a", "--learn", "b", "--preset", "small", "--seeds", 3, "--seed", 2,
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert "72.9" in ended.out
    assert f"written to {tmp_path / 'out' / FILE}, " in ended.out
    (experiment,) = asked
    assert experiment.learning == (Path("a"), Path("b"))
    assert (experiment.preset, experiment.seeds, experiment.seed) == ("small", 3, 2)
    assert isinstance(experiment.extractor, HessianAffine)


def test_a_limit_of_0_keeps_all_features(faemb: Command, asked: list[Experiment], tmp_path: Path) -> None:
    assert faemb("benchmark", "set", "--learn", "a", "--max-features", 0, "--out", tmp_path / "out").code == 0
    assert asked[0].extractor.fingerprint == HessianAffine().fingerprint


def test_a_result_as_json_is_that_of_the_file(faemb: Command, asked: list[Experiment], tmp_path: Path) -> None:
    ended = faemb("benchmark", "set", "--learn", "a", "--table", "sota", "--out", tmp_path / "out", "--json")
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out) == json.loads((tmp_path / "out" / FILE).read_text())


def test_other_options_have_another_folder(
    faemb: Command, asked: list[Experiment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for more in ([], ["--seed", 3], ["--max-features", 500], ["--learn", "b"]):
        assert faemb("benchmark", "set", "--learn", "a", "--table", "sota", *more).code == 0
    names = {"set-sota-a", "set-sota-a-seed-3", "set-sota-a-max-features-500", "set-sota-a-b"}
    assert {path.name for path in Path("runs").iterdir()} == names


def test_the_table_of_a_network(faemb: Command, asked: list[Experiment], tmp_path: Path) -> None:
    path = saved(cells(8), tmp_path)
    path.with_suffix(".json").write_text('{"channels": "rgb", "mean": 0, "std": 255}')
    ended = faemb("benchmark", "set", "--learn", "a", "--table", "cnn", "--network", path, "--out", tmp_path / "out")
    assert ended.code == 0, ended.err
    extractor = asked[0].extractor
    assert isinstance(extractor, CnnMap)
    assert tuple(extractor.scales) == (1.0, 0.6)


def test_the_table_of_a_network_needs_one(faemb: Command, asked: list[Experiment]) -> None:
    ended = faemb("benchmark", "set", "--learn", "a", "--table", "cnn")
    assert ended.code == 1
    assert "the table cnn needs a network; give its .onnx file with --network" in " ".join(ended.err.split())
    assert not asked
