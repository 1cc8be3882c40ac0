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
from small_collections import counts, working_here

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
    """Older versions are converted first; the first one has its own tests (collection/test_migration.py)."""
    place = shutil.copytree(folder, tmp_path / "copy")
    with working_here(), Collection.open(place / "photos.faemb") as collection:
        assert collection.check() == []
        assert collection.model.fingerprint == expected(folder)["fingerprint"]
        assert counts(collection.update()) == (0, 0, 5, 0)  # of version 3 on, a sixth one is known to be removed
        for name, hits in expected(folder)["hits"].items():
            (answer,) = collection.search(place / "photos" / name, top=len(hits))
            assert answer.hits[0].path.name == name
            assert {hit.path.name: hit.similarity for hit in answer.hits} == pytest.approx(dict(hits), abs=1e-2)


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
