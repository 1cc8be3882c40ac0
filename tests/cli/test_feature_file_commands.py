"""Files of local features on the command line, in place of images: to a model, vectors, a collection and answers."""

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import Run, assert_mistake, commands

from faemb.features.files import read_features, write_hloc
from pictures import picture
from small_collections import make_features, work_here

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """The command line in a folder with six files in `features` and an image in `photos`."""
    monkeypatch.chdir(tmp_path)
    for number in range(6):
        make_features(Path("features") / f"{number}.npz", number)
    picture(Path("photos/a.png"))
    work_here(monkeypatch)
    return commands(monkeypatch, capfd)


def test_a_folder_of_features_becomes_a_collection_that_is_searched(run: Run) -> None:
    made = run("index", "features", "--out", "f.faemb", "--root-sift", "--max-features", 30)
    assert made.code == 0, made.err
    assert made.out.startswith("6 images added")
    (answer,) = json.loads(run("search", "f.faemb", "features/2.npz", "--top", 1, "--json").out)["answers"]
    assert answer["features"] == 30
    itself, _ = answer["hits"]
    assert (Path(itself["path"]).name, itself["similarity"], itself["itself"]) == ("2.npz", 1, True)
    make_features(Path("more.npz"), 9)
    assert run("add", "f.faemb", "more.npz").out.startswith("1 image added")
    assert "FeatureFiles(dimension=16, max_features=30, root=True)" in run("info", "f.faemb").out


def test_a_model_is_learned_from_features_and_encodes_them(run: Run) -> None:
    assert run("fit", "features", "--out", "f.model").out.startswith("learned from 6 images")
    assert run("encode", "features", "--model", "f.model", "--out", "vectors.npz").code == 0
    with np.load("vectors.npz") as held:
        assert len(held["vectors"]) == 6
    assert run("index", "features", "--model", "f.model", "--out", "f.faemb").out.startswith("6 images added")
    assert_mistake(run("encode", "photos", "--model", "f.model", "--out", "v.npz"), "photos is given where local feat")
    assert_mistake(run("search", "f.faemb", "photos/a.png"), "a.png is not a file of local features")


def test_a_file_of_many_images_is_converted_by_the_command_that_is_given(run: Run) -> None:
    pytest.importorskip("h5py")
    write_hloc("many.h5", ((path.stem, read_features(path)) for path in sorted(Path("features").iterdir())))
    refused = run("index", "many.h5", "--out", "f.faemb")
    assert_mistake(refused, "many.h5 holds the features of many images; .*: faemb convert-features")
    command = refused.err.strip().rpartition(": faemb ")[2].split()
    assert run(*command).code == 0
    assert run("index", command[-1], "--out", "f.faemb").out.startswith("6 images added")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["photos", "features"], "features holds local features where images are expected"),
        (["photos/a.png", "features/1.npz"], "1.npz holds local features and photos/a.png does not"),
        (["features", "--max-side", 300], "--max-side cannot be used with files of local features; leave it out"),
        (["features", "--detector", "map"], "--detector cannot be used with files of local features"),
        (["photos", "--root-sift"], "--root-sift cannot be used with images; it is for files of SIFT features"),
    ],
    ids=["folders", "files", "side", "detector", "root"],
)
def test_a_mix_is_refused(run: Run, arguments: list[object], sentence: str) -> None:
    for command in (["index", "--out", "f.faemb"], ["fit", "--out", "f.model"]):
        assert_mistake(run(*command, *arguments), sentence)
    assert not Path("f.faemb").exists()
