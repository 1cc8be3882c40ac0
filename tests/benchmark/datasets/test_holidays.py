"""Holidays, from names of files alone."""

from pathlib import Path

import pytest

from faemb.benchmark.datasets import STANDARD, open_dataset
from faemb.errors import InputError
from small_datasets import asked, write_images


def test_groups_come_from_names(tmp_path: Path) -> None:
    names = ["100002", "100000", "100001", "100101", "100100", "100301", "100400"]
    dataset = open_dataset(write_images(tmp_path, *(f"jpg/{name}.jpg" for name in names)))
    assert dataset.kind == "holidays"
    assert [path.stem for path in dataset.images] == sorted(names)
    assert asked(dataset) == {"100000": (["100001", "100002"], []), "100100": (["100101"], [])}


def test_the_query_is_dropped_from_its_ranking(tmp_path: Path) -> None:
    dataset = open_dataset(write_images(tmp_path, "100000.jpg", "100001.jpg"))
    assert dataset.judgements(STANDARD) == [((1,), (0,))]
    assert dataset.measures == ("mAP",)


def test_a_subset_says_so_and_names_the_queries_that_are_missing(tmp_path: Path) -> None:
    dataset = open_dataset(write_images(tmp_path, "100000.jpg", "100001.jpg"))
    assert dataset.note.startswith("a subset: 2 images and 1 queries instead of 1,491 and 500")
    assert len(dataset.missing) == 499
    assert dataset.missing[0] == "100100.jpg"


def test_a_complete_copy_says_so(tmp_path: Path) -> None:
    """500 groups of two, and 491 more images."""
    queries = [f"{group}00.jpg" for group in range(1000, 1500)]
    others = [f"{group}01.jpg" for group in range(1000, 1500)] + [f"{group}02.jpg" for group in range(1000, 1491)]
    dataset = open_dataset(write_images(tmp_path, *queries, *others))
    assert dataset.note == "complete: 1,491 images and 500 queries"
    assert dataset.missing == ()


def test_other_names_are_refused(tmp_path: Path) -> None:
    write_images(tmp_path, "100000.jpg", "100001.jpg", "cat.jpg")
    with pytest.raises(InputError, match=r"1 images with other names than 100000\.jpg .* such as cat\.jpg; give other"):
        open_dataset(tmp_path, "holidays")


def test_no_group_is_refused(tmp_path: Path) -> None:
    write_images(tmp_path, "100001.jpg", "100101.jpg")
    with pytest.raises(InputError, match="holds no query of Holidays"):
        open_dataset(tmp_path, "holidays")


def test_an_image_that_lies_there_twice_is_refused(tmp_path: Path) -> None:
    write_images(tmp_path, "100000.jpg", "100001.jpg", "small/100001.jpg")
    with pytest.raises(InputError, match=r"have the same name; keep one of them"):
        open_dataset(tmp_path, "holidays")


def test_real_holidays(data: Path) -> None:
    by_names, by_table = (open_dataset(data / "holidays811", kind) for kind in ("holidays", "table"))
    assert (len(by_names.images), len(by_names.queries)) == (811, 300)
    assert (by_names.kind, by_table.kind) == ("holidays", "table")
    assert by_names.images == by_table.images
    assert asked(by_names) == asked(by_table)
    assert "a subset" in by_names.note
    assert open_dataset(data / "holidays811") == by_names
