"""Distractors: more images, found one at a time, without ground truth."""

import os
from pathlib import Path

import pytest

from faemb.benchmark.datasets import STANDARD, Dataset, open_dataset
from faemb.errors import InputError
from recording import recording
from small_datasets import write_images


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return open_dataset(write_images(tmp_path / "own", "100000.jpg", "100001.jpg"))


def test_they_are_beside_the_images_of_the_dataset(dataset: Dataset, tmp_path: Path) -> None:
    more = write_images(tmp_path / "more", "2/b.jpg", "1/a.jpg", "100000.jpg")
    both = dataset.with_distractors(more)
    names = [os.path.relpath(path, tmp_path) for path in both.distractor_images()]
    assert names == ["more/1/a.jpg", "more/100000.jpg", "more/2/b.jpg"]
    assert both.images == dataset.images
    assert both.judgements(STANDARD) == dataset.judgements(STANDARD)


def test_several_folders_follow_each_other(dataset: Dataset, tmp_path: Path) -> None:
    places = [write_images(tmp_path / name, "x.jpg") for name in ("z", "y")]
    both = dataset.with_distractors(str(places[0])).with_distractors(places[1])
    assert [path.parent.name for path in both.distractor_images()] == ["z", "y"]


def test_they_are_found_one_at_a_time(dataset: Dataset, tmp_path: Path, monkeypatch) -> None:
    """Only the folder of the first image has been searched when it comes."""
    both = dataset.with_distractors(write_images(tmp_path / "more", "1/a.jpg", "2/b.jpg"))
    searched: list[str] = []
    monkeypatch.setattr(os, "scandir", recording(lambda path: searched.append(Path(path).name), os.scandir))
    next(both.distractor_images())
    assert searched == ["more", "1"]


def test_a_folder_that_cannot_be_read_is_an_error(dataset: Dataset, tmp_path: Path, monkeypatch) -> None:
    """Simulated, since the superuser can read all; a benchmark with fewer distractors would be easier."""
    both = dataset.with_distractors(write_images(tmp_path / "more", "a.jpg", "locked/b.jpg", "z.jpg"))
    scandir = os.scandir

    def guarded(path):
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    with pytest.raises(InputError, match="locked cannot be read: Permission denied; change its permissions"):
        list(both.distractor_images())


@pytest.mark.parametrize("place", ["own", "own/inside", "."], ids=["itself", "inside", "around"])
def test_the_same_images_are_not_taken_twice(dataset: Dataset, tmp_path: Path, place: str) -> None:
    write_images(tmp_path, "own/inside/c.jpg")
    with pytest.raises(InputError, match="already part of own; move them beside it"):
        dataset.with_distractors(tmp_path / place)


def test_the_same_distractors_are_not_taken_twice(dataset: Dataset, tmp_path: Path) -> None:
    more = write_images(tmp_path / "more", "a.jpg")
    with pytest.raises(InputError, match="already part of own"):
        dataset.with_distractors(more).with_distractors(more)


def test_no_folder_and_no_images_are_explained(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no folder .*gone"):
        dataset.with_distractors(tmp_path / "gone")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty holds no images; expected distractors"):
        dataset.with_distractors(tmp_path / "empty")
