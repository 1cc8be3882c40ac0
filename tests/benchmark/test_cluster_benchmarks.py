"""Benchmarks on a Dask cluster: the vectors of one machine."""

import numpy as np
import pytest

from faemb import HessianAffine, preset
from faemb.benchmark.datasets import open_dataset
from faemb.benchmark.distractors import pool_distractors
from faemb.benchmark.workbench import Workbench, stem_of
from faemb.runtime.cluster import open_cluster
from pictures import pictures
from rendered import rendered, tiny

pytest.importorskip("distributed")
pytestmark = pytest.mark.cluster


def test_features_learning_pooling_and_distractors_are_spread(tmp_path):
    rendered(tmp_path / "holidays")
    learning = pictures(tmp_path / "learning", range(100, 130))
    dataset = open_dataset(tmp_path / "holidays").with_distractors(pictures(tmp_path / "others", range(200, 210)))
    encoder = tiny(preset("f-faemb-8")).set_params(pooling="sum")
    with open_cluster("local:2") as cluster:
        pooled = {}
        for name, jobs in (("one", 1), ("many", cluster)):
            bench = Workbench(dataset, [learning], HessianAffine(max_features=60), tmp_path / name, jobs=jobs)
            pooled[name] = bench.pooled(stem_of(encoder))
            pool_distractors(bench, [encoder])
    for one, many in zip(pooled["one"], pooled["many"], strict=True):
        np.testing.assert_allclose(many, one, rtol=1e-4, atol=1e-4)
    files = [sorted((tmp_path / name / "distractors").rglob("*.npy")) for name in ("one", "many")]
    assert [len(each) for each in files] == [1, 1]
    np.testing.assert_allclose(np.load(files[1][0]), np.load(files[0][0]), rtol=1e-2, atol=1e-2)
