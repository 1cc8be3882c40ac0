"""Counts and checksums of what was used."""

import hashlib
import os
from pathlib import Path

import pytest

from faemb.benchmark.datasets import Sum, checked, open_dataset
from faemb.errors import InputError
from small_datasets import write_images, write_table

HEADER = "query\trelevant\tjunk"


def folder(place: Path, *names: str) -> Path:
    return write_table(write_images(place, *names), HEADER, "a.jpg\tb.jpg\t")


def slow_checksum(*files: tuple[str, bytes]) -> str:
    lines = sorted(f"{name} {len(content)} {hashlib.sha256(content).hexdigest()}\n" for name, content in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def test_counts_and_checksums(tmp_path: Path) -> None:
    dataset = open_dataset(folder(tmp_path / "own", "b.jpg", "a.jpg"))
    result = checked(dataset.with_distractors(write_images(tmp_path / "more", "c.jpg")))
    assert result.images == Sum(2, 10, slow_checksum(("a.jpg", b"a.jpg"), ("b.jpg", b"b.jpg")))
    assert result.distractors == Sum(1, 5, slow_checksum(("c.jpg", b"c.jpg")))
    assert (result.queries, result.complete, result.missing) == (1, None, ())


def test_subfolders_do_not_matter(tmp_path: Path) -> None:
    flat, deep = folder(tmp_path / "1", "a.jpg", "b.jpg"), folder(tmp_path / "2", "x/a.jpg", "b.jpg")
    (deep / "x" / "a.jpg").write_bytes(b"a.jpg")
    assert checked(open_dataset(flat)) == checked(open_dataset(deep))


def test_every_byte_matters(tmp_path: Path) -> None:
    dataset = open_dataset(folder(tmp_path, "a.jpg", "b.jpg"))
    before = checked(dataset)
    (tmp_path / "a.jpg").write_bytes(b"A.jpg")
    after = checked(dataset)
    assert after.images.checksum != before.images.checksum
    assert after.labels == before.labels


@pytest.mark.parametrize("line", ["a.jpg\tc.jpg\t", "a.jpg\tb.jpg\tc.jpg", "b.jpg\ta.jpg\t"])
def test_every_label_matters(tmp_path: Path, line: str) -> None:
    before = checked(open_dataset(folder(tmp_path, "a.jpg", "b.jpg", "c.jpg")))
    after = checked(open_dataset(write_table(tmp_path, HEADER, line)))
    assert after.labels != before.labels
    assert after.images == before.images


def test_holidays_know_what_is_missing(tmp_path: Path) -> None:
    result = checked(open_dataset(write_images(tmp_path, "100000.jpg", "100001.jpg")))
    assert result.complete is False
    assert len(result.missing) == 499


def test_progress_is_reported_for_each_image(tmp_path: Path) -> None:
    dataset = open_dataset(folder(tmp_path / "own", "a.jpg", "b.jpg"))
    steps = []
    checked(
        dataset.with_distractors(write_images(tmp_path / "more", "c.jpg")),
        lambda what, done, total: steps.append((what, done, total)),
    )
    assert steps == [("checksum", 1, 3), ("checksum", 2, 3), ("checksum", 3, 3)]


def test_an_image_that_is_gone_is_named(tmp_path: Path) -> None:
    dataset = open_dataset(folder(tmp_path, "a.jpg", "b.jpg"))
    (tmp_path / "b.jpg").unlink()
    with pytest.raises(InputError, match=r"there is no file '.*b\.jpg'"):
        checked(dataset)


def test_a_file_that_is_too_large_for_an_image_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = open_dataset(folder(tmp_path, "a.jpg", "b.jpg"))
    with (tmp_path / "b.jpg").open("wb") as file:
        file.truncate(3_000_000)
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "1MB")
    with pytest.raises(InputError, match=r"b\.jpg is a file of 3 MB; expected an image of at most 1 MB"):
        checked(dataset)


def test_a_pipe_in_place_of_an_image_is_not_waited_for(tmp_path: Path) -> None:
    dataset = open_dataset(folder(tmp_path, "a.jpg", "b.jpg"))
    (tmp_path / "b.jpg").unlink()
    os.mkfifo(tmp_path / "b.jpg")
    with pytest.raises(InputError, match=r"b\.jpg is a pipe"):
        checked(dataset)
