"""Run folders: one for each set of options, and nothing else is written into it."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cnn_networks import cells, network
from faemb.benchmark.command import Experiment, run_experiment
from faemb.benchmark.folders import OPTIONS, claim, folder_for
from faemb.benchmark.runner import JOURNAL, Journal
from faemb.benchmark.workbench import Workbench
from faemb.errors import FormatError, InputError
from faemb.features import CnnMap, HessianAffine
from faemb.presets import preset
from pictures import pictures
from rendered import rendered, tiny

PLAIN = Experiment(Path("data/holidays"), (Path("flickr"),), HessianAffine(), table="sota")
pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "holidays-sota-flickr"),
        ({"table": None, "preset": "f-faemb-8", "variant": "released"}, "holidays-f-faemb-8-flickr-released"),
        ({"pooling": "sum", "seed": 3, "seeds": 5}, "holidays-sota-flickr-sum-seed-3-seeds-5"),
        ({"rotation": True, "long_vectors": True}, "holidays-sota-flickr-rotation-long-vectors"),
        ({"kind": "folder"}, "holidays-sota-flickr-folder"),
        ({"learning": (Path("a"), Path("b")), "distractors": (Path("c/d"),)}, "holidays-sota-a-b-d"),
        (
            {"extractor": HessianAffine(max_features=100, rotation_invariant=True, root=False, max_side=None)},
            "holidays-sota-flickr-max-features-100-max-side-None-no-root-rotation-invariant",
        ),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value,
)
def test_a_name_has_the_options_that_are_not_their_defaults(changes: dict[str, Any], name: str) -> None:
    assert replace(PLAIN, **changes).name == name


def test_a_name_has_the_kind_and_the_scales_of_a_network() -> None:
    extractor = CnnMap(network(cells(8)), scales=(1.0, 0.6))
    assert replace(PLAIN, extractor=extractor).name == "holidays-sota-flickr-CnnMap-scales-1.0-0.6"


def test_the_same_options_have_the_same_folder_and_others_the_next(tmp_path: Path) -> None:
    """Data of the same name in another place, and options that the name does not show."""
    experiments = [PLAIN, replace(PLAIN, dataset=Path("other/holidays")), replace(PLAIN, learning=(Path("b/flickr"),))]
    every = [each.options("cpu") for each in experiments] + [PLAIN.options("cuda")]
    for options in every:
        claim(folder_for(options, "run", tmp_path), options)
    folders = [folder_for(options, "run", tmp_path) for options in every]
    assert [folder.name for folder in folders] == ["run", "run-2", "run-3", "run-4"]


def test_a_long_name_is_cut(tmp_path: Path) -> None:
    claim(folder_for(PLAIN.options("cpu"), "x" * 1000, tmp_path), PLAIN.options("cpu"))


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    claim(tmp_path / "out", PLAIN.options("cpu"))
    claim(tmp_path / "out", PLAIN.options("cpu"))
    with pytest.raises(
        InputError, match=r"out holds a run of other options \(pooling none instead of sum, seed 0 inst"
    ):
        claim(tmp_path / "out", replace(PLAIN, pooling="sum", seed=2).options("cpu"))


def test_a_folder_of_other_files_is_refused_and_passed_over(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "report.md").write_text("mine")
    with pytest.raises(InputError, match=r"run holds files that are not a run with known options; give a new folder"):
        claim(tmp_path / "run", PLAIN.options("cpu"))
    assert folder_for(PLAIN.options("cpu"), "run", tmp_path).name == "run-2"


@pytest.mark.parametrize("text", ["{", "[1]", "\x00"])
def test_damaged_options_are_those_of_no_run(tmp_path: Path, text: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / OPTIONS).write_text(text)
    with pytest.raises((FormatError, InputError), match="give another folder with --out"):
        claim(tmp_path / "run", PLAIN.options("cpu"))
    assert folder_for(PLAIN.options("cpu"), "run", tmp_path).name == "run-2"


def test_an_experiment_does_not_write_into_the_folder_of_another(
    tmp_path: Path, one_thread: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faemb.benchmark.tables.preset", lambda *given, **more: tiny(preset(*given, **more)))
    rendered(tmp_path / "holidays")
    learning = pictures(tmp_path / "learning", range(100, 106), (160, 120))
    first = Experiment(tmp_path / "holidays", (learning,), HessianAffine(max_features=40), preset="f-faemb-8")
    run_experiment(first, tmp_path / "out", tmp_path / "cache", jobs=1)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with pytest.raises(InputError, match="holds a run of other options"):
        run_experiment(replace(first, seed=1), tmp_path / "out", tmp_path / "cache", jobs=1)
    run_experiment(first, tmp_path / "out", tmp_path / "cache", jobs=1)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_a_pipe_in_place_of_options_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / OPTIONS)
    with pytest.raises(InputError, match="holds files that are not a run with known options"):
        claim(tmp_path, {"seed": 1})


@pytest.mark.parametrize(
    "line",
    ["[" * 100_000, '{"key": "a", "row": {"settings": {}, "measures": {"mAP": 1e400}, "seconds": {"fit": NaN}}}', "3"],
    ids=["deep", "numbers", "other"],
)
def test_finished_rows_that_cannot_be_read_are_computed_again(tmp_path: Path, line: str) -> None:
    (tmp_path / JOURNAL).write_text(f"{line}\n")
    assert Journal(tmp_path / JOURNAL, object.__new__(Workbench))._rows == {}
