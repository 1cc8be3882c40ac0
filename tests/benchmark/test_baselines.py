"""SPoC and R-MAC on a benchmark, from stored features: the same vectors as from the map itself."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper

from cnn_networks import cells, network, picture, program
from faemb.benchmark.baselines import Baseline, map_of
from faemb.benchmark.command import Experiment, run_experiment
from faemb.benchmark.datasets import open_dataset
from faemb.benchmark.runner import run_table
from faemb.benchmark.tables import CNN, TABLES, Choice
from faemb.benchmark.workbench import Workbench
from faemb.errors import InputError
from faemb.features import CnnMap, LocalFeatures
from faemb.features.cnn import rmac, spoc
from faemb.normalise import unit_length
from faemb.rotation import Rotation
from pictures import pictures
from rendered import mean_ap_by_hand, rendered, tiny

CHANNELS = 18
pytestmark = pytest.mark.usefixtures("in_this_process")


def waves() -> onnx.ModelProto:
    """The slowest waves of each square of 16 x 16 pixels, up and down, as a small network's channels might be."""
    phase = np.pi * (np.arange(16) + 0.5) / 16
    slow = [np.cos(k * phase)[:, None] * np.cos(m * phase) for k in range(3) for m in range(3)]
    kernel = np.stack([np.stack([sign * wave] * 3) for wave in slow for sign in (1, -1)]).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["image", "kernel"], ["filtered"], strides=[16, 16]),
        helper.make_node("Relu", ["filtered"], ["features"]),
    ]
    return program(nodes, weights={"kernel": kernel})


EXTRACTOR = CnnMap(network(waves(), multiple=16, mean=127.5), scales=(1.0, 0.6))


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Workbench:
    place = tmp_path_factory.mktemp("cnn")
    rendered(place / "holidays")
    pictures(place / "learning", range(100, 140), (160, 120))
    return Workbench(open_dataset(place / "holidays"), [place / "learning"], EXTRACTOR, place / "cache", jobs=1)


@pytest.mark.parametrize("size", [(96, 72), (64, 64), (101, 67), (200, 64), (64, 200)])
@pytest.mark.parametrize("unit", [True, False])
def test_the_map_of_stored_features_is_that_of_the_network(rng, size, unit):
    image = picture(rng, *size)
    image[:20] = 0  # cells without a vector
    extractor = CnnMap(network(cells(8), multiple=8), scales=(0.6, 1.0), unit_length=unit)
    np.testing.assert_allclose(map_of(extractor.extract(image)), extractor.map(image), atol=1e-5)


def test_a_part_of_the_map(rng):
    image = picture(rng, 96, 72)
    extractor = CnnMap(network(cells(8), multiple=8))
    selected = extractor.extract(image).inside((16, 8, 47, 39))
    np.testing.assert_allclose(map_of(selected, part=True), extractor.map(image)[:, 1:5, 2:6], atol=1e-5)


def test_the_size_of_the_map_is_not_guessed_from_the_cells_that_are_left(rng):
    """An image that is stretched for the network, and features of its smaller map alone."""
    extractor = CnnMap(network(cells(8), multiple=8), scales=(0.5, 1.0))
    features = extractor.extract(picture(rng, 5, 400))
    assert features.grids is not None
    coarse = features.select(features.grids.cells[:, 0] == 0)
    assert map_of(coarse).shape == map_of(features).shape == extractor.map(picture(rng, 5, 400)).shape
    assert not map_of(coarse).any()
    assert map_of(coarse, part=True).shape == (3, 1, 1)


def test_an_image_without_features_has_a_map_of_zeros():
    features = CnnMap(network(cells(8), multiple=8)).extract(np.zeros((72, 96, 3), np.uint8))
    assert len(features) == 0
    for nothing, shape in ((map_of(features), (3, 9, 12)), (map_of(features, part=True), (3, 1, 1))):
        assert nothing.shape == shape
        assert not spoc(nothing).any()
        assert not rmac(nothing).any()


def test_features_that_are_no_cells_of_a_map_are_refused():
    with pytest.raises(InputError, match="without the grid of their map; delete them and extract them again"):
        map_of(LocalFeatures.none(CHANNELS, (64, 64)))


@pytest.mark.parametrize(("name", "pool"), [("SPoC", spoc), ("R-MAC", rmac)])
def test_a_row_step_by_step(bench, name, pool):
    row = Baseline({"method": name}, name, 5).answer(bench)
    learning = np.stack([pool(EXTRACTOR.map(path)) for path in bench.learning[0][1]])
    images = np.stack([pool(EXTRACTOR.map(path)) for path in bench.dataset.images])
    vectors = unit_length(Rotation("whiten").fit(learning).transform(images)[:, :5])
    assert row.settings["D"] == 5
    assert row.measures["mAP"] == pytest.approx(mean_ap_by_hand(vectors, bench.dataset), abs=0.01)


def test_no_more_components_than_images_can_teach(bench):
    assert Baseline({}, "SPoC", 500).answer(bench).settings["D"] == CHANNELS


def test_the_table(bench, tmp_path):
    asked = [[row] for row in TABLES[CNN].rows(Choice("holidays", maps=True, adapt=tiny))]
    run = run_table(CNN, TABLES[CNN], asked, bench, tmp_path, {})
    assert [row.settings["method"] for row in run.rows[:4]] == ["SPoC", "SPoC", "R-MAC", "R-MAC"]
    assert run.rows[0].published == {"mAP": 80.2}
    assert [row.published["mAP"] for row in run.rows if row.settings["method"] == "F-FAemb +RN" and row.published] == [
        86.0, 85.4, 83.5, 78.1, 74.0,
    ]  # fmt: skip
    assert max(row.measures["mAP"] for row in run.rows) > 50


def test_patches_have_no_map_to_pool():
    rows = list(TABLES[CNN].rows(Choice("holidays", maps=False)))
    assert not any(isinstance(row, Baseline) for row in rows)
    assert rows


def test_keys_tell_rows_apart(bench):
    one = Baseline({"method": "SPoC"}, "SPoC", 5)
    assert len({one.key(bench), replace(one, length=6).key(bench), replace(one, pooling="R-MAC").key(bench)}) == 3


def test_without_distractors(bench, tmp_path):
    experiment = Experiment(
        bench.dataset.folder, (bench.learning[0][0],), EXTRACTOR, table=CNN, distractors=(bench.learning[0][0],)
    )
    with pytest.raises(InputError, match="has no rows with distractors"):
        run_experiment(experiment, tmp_path / "out", tmp_path / "cache")


def test_the_encoder_is_described(bench):
    assert Baseline({}, "SPoC", 5).answer(bench).encoder.startswith("SPoC, Rotation(")
