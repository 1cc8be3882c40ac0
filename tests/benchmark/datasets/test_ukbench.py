"""UKBench: objects of four images, each of them a query that counts itself."""

from pathlib import Path

import pytest

from faemb.benchmark.datasets import STANDARD, open_dataset
from faemb.errors import InputError
from faemb.evaluation import MEASURES
from small_datasets import asked, write_images


def objects(*numbers: int) -> list[str]:
    return [f"ukbench{number:05}.jpg" for number in numbers]


def test_every_image_asks_for_the_four_of_its_object(tmp_path: Path) -> None:
    dataset = open_dataset(write_images(tmp_path, *objects(*range(8))))
    assert dataset.kind == "ukbench"
    assert [query.number for query in dataset.queries] == list(range(8))
    assert [query.relevant for query in dataset.queries] == [(0, 1, 2, 3)] * 4 + [(4, 5, 6, 7)] * 4


def test_the_query_counts_as_one_of_the_four(tmp_path: Path) -> None:
    dataset = open_dataset(write_images(tmp_path, *objects(*range(8))))
    rankings = [[*query.relevant, *(set(range(8)) - set(query.relevant))] for query in dataset.queries]
    assert MEASURES["N-S"](rankings, dataset.judgements(STANDARD)) == 4
    assert MEASURES["mAP"](rankings, dataset.judgements(STANDARD)) == 1


def test_objects_that_are_not_whole_are_no_queries(tmp_path: Path) -> None:
    dataset = open_dataset(write_images(tmp_path, *objects(0, 1, 2, 3, 4, 6)))
    assert len(dataset.images) == 6
    assert list(asked(dataset)) == [f"ukbench0000{number}" for number in range(4)]
    assert dataset.note.endswith("; 2 images of objects with fewer than four images are not used as queries")
    assert dataset.missing[:2] == ("ukbench00005.jpg", "ukbench00007.jpg")


def test_other_names_are_refused(tmp_path: Path) -> None:
    write_images(tmp_path, *objects(0, 1, 2, 3), "thumb.jpg")
    with pytest.raises(InputError, match=r"1 images with other names than ukbench00000\.jpg .* such as thumb\.jpg"):
        open_dataset(tmp_path, "ukbench")


def test_no_whole_object_is_refused(tmp_path: Path) -> None:
    write_images(tmp_path, *objects(2, 3, 4, 5))
    with pytest.raises(InputError, match="no object with its four images"):
        open_dataset(tmp_path, "ukbench")


def test_real_ukbench(data: Path) -> None:
    by_names, by_table = open_dataset(data / "ukbench400", "ukbench"), open_dataset(data / "ukbench400")
    assert (len(by_names.images), len(by_names.queries)) == (400, 400)
    for one, other in zip(by_names.queries, by_table.queries, strict=True):
        assert one.image == other.image
        assert set(one.relevant) == {*other.relevant, one.number}
