"""Revisited Oxford and Paris, in miniature."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faemb.benchmark.datasets import Dataset, open_dataset
from faemb.errors import InputError
from faemb.evaluation import mean_average_precision
from faemb.features.region import Box
from small_datasets import REVISITED_IMAGES as IMAGES
from small_datasets import REVISITED_LABELS as LABELS
from small_datasets import asked, write_images


def write_revisited(folder: Path, labels: Any, name: str = "gnd_roxford5k.pkl") -> Path:
    write_images(folder, *(f"jpg/{image}.jpg" for image in [*IMAGES, "q1", "q2", "unlabelled"]))
    (folder / name).write_bytes(pickle.dumps(labels, 2))
    return folder


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return open_dataset(write_revisited(tmp_path, LABELS))


def test_images_come_in_the_order_of_the_labels(dataset: Dataset) -> None:
    assert dataset.kind == "roxford5k"
    assert [path.stem for path in dataset.images] == IMAGES


def test_queries_are_kept_apart_with_their_boxes(dataset: Dataset) -> None:
    assert [(query.image.stem, query.number) for query in dataset.queries] == [("q1", None), ("q2", None)]
    assert [query.box for query in dataset.queries] == [Box(1.5, 2, 30, 40), Box(0, 0, 9, 9)]


def test_three_protocols(dataset: Dataset) -> None:
    assert list(dataset.protocols) == ["easy", "medium", "hard"]
    assert asked(dataset, "easy") == {"q1": (["c"], ["d", "a", "b"]), "q2": (["e"], ["c", "a"])}
    assert asked(dataset, "medium") == {"q1": (["c", "a", "b"], ["d"]), "q2": (["e"], ["c", "a"])}
    assert asked(dataset, "hard") == {"q1": (["a", "b"], ["d", "c"]), "q2": ([], ["c", "a", "e"])}


def test_queries_without_positives_are_left_out_of_the_mean(dataset: Dataset) -> None:
    """The second query has nothing hard; the first finds its two at once."""
    rankings = [[0, 3, 1, 2, 4], [0, 1, 2, 3, 4]]
    assert mean_average_precision(rankings, dataset.judgements("hard")) == 1


def test_measures_are_those_of_the_revisited_benchmarks(dataset: Dataset) -> None:
    assert dataset.measures == ("mAP", "mP@1", "mP@5", "mP@10")


def test_paris_is_known_by_its_file(tmp_path: Path) -> None:
    assert open_dataset(write_revisited(tmp_path, LABELS, "gnd_rparis6k.pkl")).kind == "rparis6k"


def test_absent_images_are_counted_and_named(tmp_path: Path) -> None:
    write_revisited(tmp_path, {**LABELS, "imlist": [*IMAGES, "gone_1", "gone_2"]})
    with pytest.raises(InputError, match=r"gnd_roxford5k\.pkl names 2 images .*, such as gone_1, gone_2"):
        open_dataset(tmp_path)


def entry(**changes: Any) -> dict[str, Any]:
    return {**LABELS, "gnd": [{**LABELS["gnd"][0], **changes}, LABELS["gnd"][1]]}


@pytest.mark.parametrize(
    ("labels", "fault"),
    [
        ([1, 2], "does not hold imlist, qimlist and gnd"),
        ({"imlist": [], "gnd": []}, "does not hold imlist, qimlist and gnd"),
        ({**LABELS, "imlist": "names"}, "something else than lists of names"),
        ({**LABELS, "qimlist": [1, 2]}, "something else than lists of names"),
        ({**LABELS, "gnd": LABELS["gnd"][:1]}, "one entry for each query"),
        ({**LABELS, "gnd": [3, 4]}, "no list of numbers 'bbx' in entry 0"),
        ({**LABELS, "gnd": [{}, {}]}, "no list of numbers 'bbx' in entry 0"),
        (entry(easy=["a"]), "no list of numbers 'easy' in entry 0"),
        (entry(hard=np.array([5])), "numbers beyond its 5 images in entry 0"),
        (entry(hard=[-1]), "numbers beyond its 5 images in entry 0"),
        (entry(junk=[0.5]), "numbers beyond its 5 images in entry 0"),
        (entry(bbx=[0, 0, 10**400, 1]), "holds the box '0 0 a number beyond 1e300 1'; expected x1, y1"),
        (entry(bbx=[1, 2, 3]), "entry 0 of .* holds the box '1 2 3'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_labels_that_cannot_be_read_are_explained(tmp_path: Path, labels: Any, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        open_dataset(write_revisited(tmp_path, labels))


def test_lists_that_a_file_names_many_times_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One array of a few kilobytes that is the list of every query."""
    shared = np.zeros(3000, np.uint8)
    labels = {**LABELS, "qimlist": ["q1"] * 9, "gnd": [{**LABELS["gnd"][0], "easy": shared} for _ in range(9)]}
    write_revisited(tmp_path, labels)
    assert (tmp_path / "gnd_roxford5k.pkl").stat().st_size < 10_000
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "2MB")
    with pytest.raises(InputError, match=r"gnd_roxford5k\.pkl needs 3\.25 MB of memory; one file may take 2 MB"):
        open_dataset(tmp_path)
