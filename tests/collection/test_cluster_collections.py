"""Collections that a Dask cluster makes: as those of one machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faemb import Encoder, FastFAemb, Projection, Rotation, Whitening, encoder
from faemb.collection import Collection, encode_images, encoding, fit_model, gathering
from faemb.component import Component
from faemb.features import extract_folder, read_features
from faemb.runtime.cluster import GPU, Cluster, open_cluster
from pictures import blank, pictures
from processes import wait_until
from recording import recording
from small_collections import assert_same, new_tiny_model, tiny_model, vectors_of

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.cluster
IMAGES = 70
"""More than two portions for workers that encode."""


@pytest.fixture(scope="module")
def machines() -> Iterator[Cluster]:
    """Two workers, of which one declares a GPU, that it has not."""
    nanny: dict[str, Any] = {"nthreads": 1, "memory_limit": 0, "dashboard_address": "127.0.0.1:0"}
    workers = {
        "gpu": {"cls": distributed.Nanny, "options": nanny | {"resources": {GPU: 1}}},
        "cpu": {"cls": distributed.Nanny, "options": nanny},
    }
    scheduler = {
        "cls": distributed.Scheduler,
        "options": {"host": "127.0.0.1", "port": 0, "dashboard_address": "127.0.0.1:0"},
    }
    with (
        distributed.SpecCluster(workers, scheduler, silence_logs=60) as made,
        open_cluster(made.scheduler_address) as cluster,
    ):
        yield cluster


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = pictures(tmp_path_factory.mktemp("photos"), range(IMAGES))
    blank(folder / "blank.png")
    (folder / "broken.png").write_text("no picture")
    return folder


def test_workers_with_a_gpu_encode_while_the_others_extract(machines, photos, tmp_path, monkeypatch):
    told: list[str] = []
    monkeypatch.setattr(gathering, "_COMMIT_IMAGES", 32)
    monkeypatch.setattr(encoding, "_portion", recording(lambda *_: told.append("sent"), encoding._portion))

    def progress(stage: str, done: int, total: int) -> None:
        told.append(stage)

    with Collection.create(tmp_path / "one", tiny_model()) as one:
        alone = one.add(photos, jobs=1)
        expected = vectors_of(one)
    told.clear()
    with Collection.create(tmp_path / "many", tiny_model()) as many:
        report = many.add(photos, jobs=machines, progress=progress)
        assert_same(vectors_of(many), expected)
        assert many.check() == []
    assert (report.added, sorted(report.failed)) == (alone.added, sorted(alone.failed))
    assert told.index("sent") < len(told) - told[::-1].index("features")  # before the last image was extracted
    assert machines.gpu.workers == {
        address for address, worker in machines.workers().items() if worker["resources"].get(GPU)
    }
    assert 0 <= (machines.gpu.idle_share or -1) < 1


def test_a_model_that_grows_is_learned_again_and_its_images_encoded_elsewhere(machines, photos, tmp_path):
    some = [photos / f"{number:03}.png" for number in range(12)]
    with Collection.create(tmp_path / "one", new_tiny_model()) as one:
        one.add(some[:4], jobs=1)
        one.add(some, jobs=1)
        expected = vectors_of(one)
    with Collection.create(tmp_path / "many", new_tiny_model()) as many:
        many.add(some[:4], jobs=machines)
        assert many.add(some, jobs=machines).relearned_from == 12
        assert_same(vectors_of(many), expected)


def test_a_model_that_is_learned_again_on_request_too(machines, photos, tmp_path, monkeypatch):
    sent: list[str] = []
    some = [photos / f"{number:03}.png" for number in range(12)]
    with Collection.create(tmp_path / "c", new_tiny_model()) as collection:
        collection.add(some[:4], jobs=1)
        collection.add(some[4:], jobs=1, relearn=False)
        monkeypatch.setattr(encoding, "_portion", recording(lambda *_: sent.append("portion"), encoding._portion))
        assert collection.relearn(jobs=machines).relearned_from == 12
        found = vectors_of(collection)
        assert sent
        collection.relearn()
        assert_same(vectors_of(collection), found)


def test_vectors_in_a_file_are_those_of_one_machine(machines, photos, tmp_path):
    some = [photos / f"{number:03}.png" for number in range(5)]
    for name, jobs in (("one", 1), ("many", machines)):
        encode_images(some, tiny_model(), tmp_path / f"{name}.npz", jobs=jobs)
    one, many = (np.load(tmp_path / f"{name}.npz") for name in ("one", "many"))
    order = [list(one["paths"]).index(path) for path in many["paths"]]
    np.testing.assert_allclose(many["vectors"], one["vectors"][order], atol=1e-4)


def all_learned(component: Component, prefix: str = "") -> dict[str, np.ndarray]:
    """Everything that a component and its parts have learned."""
    found = {prefix + name: array for name, array in component.learned_arrays().items()}
    for name, part in component.learned_parts().items():
        found |= all_learned(part, f"{prefix}{name}.")
    return found


def assert_learned_the_same(many: Component, one: Component, *parts: str) -> None:
    expected, found = all_learned(one), all_learned(many)
    assert {name.split(".")[0] for name in expected} == set(parts)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-6, atol=1e-6, err_msg=name)


def test_a_model_is_the_one_that_a_single_machine_learns(machines, photos):
    asked = new_tiny_model().set_params(encoder__rotation=Rotation())
    one, _ = fit_model(photos, asked.clone(), jobs=1)
    many, _ = fit_model(photos, asked.clone(), jobs=machines)
    assert_learned_the_same(many.encoder_, one.encoder_, "projection_", "embedding_", "whitening_", "rotation_")


def test_features_are_written_by_the_workers_and_no_other_file_is_left(machines, photos, tmp_path):
    out = tmp_path / "features"
    some = [photos / f"{number:03}.png" for number in range(3)]
    extractor = tiny_model().extractor
    assert extract_folder(some, out, extractor, jobs=machines).features > 0
    assert sorted(path.name for path in out.iterdir()) == [f"{path.name}.npz" for path in some]
    np.testing.assert_array_equal(
        read_features(out / "000.png.npz").descriptors, extractor.extract(some[0]).descriptors
    )
    assert extract_folder(some, out, extractor, jobs=machines).up_to_date == 3


def test_statistics_and_pooled_vectors_of_several_machines_are_those_of_one(machines, monkeypatch):
    """In several parts, of an encoder with all stages."""
    monkeypatch.setattr(encoder, "_LEAST_ROWS", 64)
    monkeypatch.setattr(encoder, "IMAGES_PER_TASK", 4)
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(40, 16)).astype(np.float32) for _ in range(60)]
    asked = Encoder(FastFAemb(2), projection=Projection(4), whitening=Whitening(discard=0), rotation=Rotation(), keep=8)
    told: list[tuple[str, int, int]] = []
    one = asked.clone().fit(sets)
    many = asked.clone().fit(sets, jobs=machines, progress=lambda *each: told.append(each))
    assert [done for stage, done, _ in told if stage == "statistics"][-1] > 2  # parts
    assert_learned_the_same(many, one, "projection_", "embedding_", "whitening_", "rotation_")
    np.testing.assert_allclose(many.encode(sets), one.encode(sets), atol=1e-6)
    pool = one.pooler(machines)
    np.testing.assert_allclose(pool(sets), one.pool(sets), rtol=1e-3, atol=1e-3)
    assert wait_until(lambda: len(machines.client.futures) == 1)  # the encoder, for further images
    del pool
    assert wait_until(lambda: not machines.client.futures)
