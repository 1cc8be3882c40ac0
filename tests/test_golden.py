"""Files of every released format are read by this version, and mean what they meant."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faemb import Collection, Encoder, read_features
from faemb.benchmark.run import VERSION as RUN
from faemb.benchmark.run import Run
from faemb.collection.catalogue import VERSION as COLLECTION
from faemb.persistence import VERSION as MODEL
from made_up_runs import run

GOLDEN = Path(__file__).parent / "golden"


def folders(kind: str) -> list[Path]:
    return sorted(GOLDEN.glob(f"{kind}-v*"))


def expected(folder: Path) -> Any:
    return json.loads((folder / "expected.json").read_text())


@pytest.mark.parametrize(("kind", "version"), [("model", MODEL), ("collection", COLLECTION), ("run", RUN)])
def test_the_current_version_of_each_format_is_among_them(kind: str, version: int) -> None:
    assert GOLDEN / f"{kind}-v{version}" in folders(kind)


@pytest.mark.parametrize("folder", folders("model"), ids=lambda folder: folder.name)
def test_a_model_keeps_its_identity_and_its_vectors(folder: Path) -> None:
    model = Encoder.load(folder / "model.faemb")
    assert model.fingerprint == expected(folder)["fingerprint"]
    with np.load(folder / "expected.npz") as file:
        np.testing.assert_allclose(model.encode([file["descriptors"]])[0], file["vector"], atol=1e-4)


@pytest.mark.parametrize("folder", folders("collection")[1:], ids=lambda folder: folder.name)
def test_a_collection_gives_its_answers(folder: Path, tmp_path: Path) -> None:
    """The first version has its own tests, since it is converted (collection/test_migration.py)."""
    place = shutil.copytree(folder, tmp_path / "copy")
    with Collection.open(place / "photos.faemb") as collection:
        assert collection.check() == []
        assert collection.model.fingerprint == expected(folder)["fingerprint"]
        for name, hits in expected(folder)["hits"].items():
            (answer,) = collection.search(place / "photos" / name, top=len(hits))
            assert answer.hits[0].path.name == name
            assert {hit.path.name: hit.score for hit in answer.hits} == pytest.approx(dict(hits), abs=1e-2)


@pytest.mark.parametrize("folder", folders("features"), ids=lambda folder: folder.name)
def test_a_feature_file_holds_its_features(folder: Path) -> None:
    features, known = read_features(folder / "features.npz"), expected(folder)
    assert (len(features), features.fingerprint) == (known["count"], known["fingerprint"])
    assert features.descriptors.sum() == pytest.approx(known["descriptors"])
    assert features.frames.sum() == pytest.approx(known["frames"])


@pytest.mark.parametrize("folder", folders("run"), ids=lambda folder: folder.name)
def test_a_run_is_read_as_it_was(folder: Path) -> None:
    assert Run.load(folder).rows == run().rows
    assert Run.load(folder).dataset == run().dataset
