"""Files of every released format are read by this version, and mean what they meant."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faemb import Collection, Encoder, Extractor, persistence, read_features
from faemb.benchmark.run import VERSION as RUN
from faemb.benchmark.run import Run
from faemb.collection.schema import VERSION as COLLECTION
from faemb.persistence import VERSION as MODEL
from golden_components import computed, defaults
from made_up_runs import run
from small_collections import counts, working_here

GOLDEN = Path(__file__).parent / "golden"


def folders(kind: str) -> list[Path]:
    return sorted(GOLDEN.glob(f"{kind}-v*"))


def expected(folder: Path) -> Any:
    return json.loads((folder / "expected.json").read_text())


@pytest.mark.parametrize(
    ("kind", "version"), [("model", MODEL), ("collection", COLLECTION), ("features", 1), ("run", RUN)]
)
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


def test_a_collection_with_parts_and_an_index_and_without_features(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    folder = GOLDEN / "collection-with-parts-v5"
    place = shutil.copytree(folder, tmp_path / "copy")
    (index,) = (place / "photos.faemb").glob("hnsw-*.faiss")
    written = index.stat().st_mtime_ns
    with working_here(), Collection.open(place / "photos.faemb") as collection:
        assert collection.check() == []
        assert (collection.info().parts, collection.info().keeps_features) == (2, False)
        for name, hits in expected(folder)["hits"].items():
            (answer,) = collection.search(place / "photos" / name, top=len(hits), verify=0)
            assert {hit.path.name: hit.similarity for hit in answer.hits} == pytest.approx(dict(hits), abs=1e-2)
    assert index.stat().st_mtime_ns == written  # it was read: one that cannot be used is replaced


# Components.

COMPONENTS = sorted(GOLDEN.glob("components-*"))
EXTRACTORS = sorted(GOLDEN.glob("extractors-*"))


def settings_of(folder: Path) -> Any:
    return json.loads((folder / "settings.json").read_text())


def test_every_class_has_its_settings_among_them() -> None:
    assert settings_of(COMPONENTS[-1]).keys() == defaults().keys()


def test_every_extractor_is_among_them() -> None:
    names = {file.stem.partition("-")[0] for file in EXTRACTORS[-1].glob("*.faemb")}
    assert names == {name for name, component in defaults().items() if isinstance(component, Extractor)}


@pytest.mark.parametrize("name", settings_of(COMPONENTS[-1]))
@pytest.mark.parametrize("folder", COMPONENTS, ids=lambda folder: folder.name)
def test_settings_keep_their_identity(folder: Path, name: str) -> None:
    """A class that gains a setting without a baseline, or loses one, would refuse every saved model that has it."""
    known = settings_of(folder).get(name)
    if known is None:
        pytest.skip("a later class")
    assert persistence.fingerprint(persistence._build(known["tree"], {}, {}, "", Any)) == known["fingerprint"]


@pytest.mark.parametrize(
    "file", [file for folder in COMPONENTS for file in sorted(folder.glob("*.faemb"))], ids=lambda file: file.stem
)
def test_every_method_computes_what_it_computed(file: Path) -> None:
    with np.load(file.with_suffix(".npz")) as known:
        model = persistence.load(file)
        assert persistence.fingerprint(model) == known["fingerprint"]
        np.testing.assert_allclose(computed(model, known["given"]), known["computed"], atol=1e-5)


@pytest.mark.parametrize(
    "file", [file for folder in EXTRACTORS for file in sorted(folder.glob("*.faemb"))], ids=lambda file: file.stem
)
def test_every_extractor_finds_what_it_found(file: Path) -> None:
    """Decoders and OpenCV may round differently elsewhere: nearly all features must be found again, nearly equal,
    that is their frames to half a percent of their size. OpenCV 4.10 rounds positions to 1/32 pixel, 5.0 does not."""
    extractor: Any = persistence.load(file)
    found = extractor.extract(file.parent / ("theirs.npz" if file.stem == "FeatureFiles" else "picture.png"))
    with np.load(file.with_suffix(".npz")) as known:
        equal = [
            np.isclose(found.frames, frame, rtol=0, atol=5e-3 * np.abs(frame[2:]).max(initial=0)).all(1)
            & np.isclose(found.descriptors, descriptor, rtol=2e-3, atol=2e-3).all(1)
            for frame, descriptor in zip(known["frames"], known["descriptors"], strict=True)
        ]
    assert len(found) == pytest.approx(len(equal), rel=0.05)
    assert np.mean(np.any(equal, axis=1)) > 0.95
