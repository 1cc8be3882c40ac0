"""Which image of a group is the one to keep, and why; when a photograph was taken."""

import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import PIL.Image
import pytest

from faemb.collection import Collection, GroupedImage
from faemb.collection.originals import by_worth
from faemb.features.image.dates import date_taken
from pictures import picture
from small_collections import tiny_model, working_here

IMAGE = GroupedImage(Path("b.jpg"), 40, 30, 500, datetime(2020, 5, 1), taken=True)


@pytest.mark.parametrize(
    ("better", "reason"),
    [
        ({"width": 41, "bytes": 10, "date": datetime(2021, 1, 1)}, "most pixels"),
        ({"bytes": 501, "date": datetime(2021, 1, 1)}, "same pixels, largest file"),
        ({"date": datetime(2019, 1, 1)}, "same size, oldest"),
        ({}, "all the same, first by name"),
    ],
)
def test_the_one_to_keep(better, reason):
    best = replace(IMAGE, path=Path("a.jpg"), **better)
    worst = replace(IMAGE, path=Path("z.jpg"), width=10)
    assert by_worth([worst, IMAGE, best]) == ([best, IMAGE, worst], reason)


def photograph(path: Path, **tags: str) -> Path:
    exif = PIL.Image.Exif()
    exif.get_ifd(0x8769).update({{"taken": 0x9003, "digitised": 0x9004}[name]: value for name, value in tags.items()})
    PIL.Image.new("RGB", (30, 20)).save(path, exif=exif)
    return path


@pytest.mark.parametrize("name", ["a.jpg", "a.webp"])
def test_when_a_photograph_was_taken(tmp_path, name):
    path = photograph(tmp_path / name, taken="2014:07:20 13:05:09", digitised="2015:01:01 00:00:00")
    assert date_taken(path) == datetime(2014, 7, 20, 13, 5, 9)


def test_a_scan_has_the_date_of_the_scan(tmp_path):
    assert date_taken(photograph(tmp_path / "a.jpg", digitised="2015:01:02 03:04:05")) == datetime(2015, 1, 2, 3, 4, 5)


@pytest.mark.parametrize("date", ["0000:00:00 00:00:00", "yesterday", "    :  :     :  :  ", ""])
def test_a_date_that_is_none(tmp_path, date):
    assert date_taken(photograph(tmp_path / "a.jpg", taken=date)) is None


def test_files_without_a_date(tmp_path):
    (tmp_path / "text.jpg").write_text("no image")
    PIL.Image.new("L", (5, 5)).save(tmp_path / "plain.png")
    assert [date_taken(tmp_path / name) for name in ("plain.png", "text.jpg", "gone.jpg")] == [None, None, None]


def test_without_a_date_taken_it_is_that_of_the_file(tmp_path):
    for name in ("a.png", "b.png"):
        picture(tmp_path / name, 1)
    os.utime(tmp_path / "b.png", (1e9, 1e9))
    with working_here(), Collection.create(tmp_path / "c", tiny_model()) as collection:
        collection.add(tmp_path)
        (group,) = collection.duplicates(0.9)
    assert group.paths == [tmp_path / "b.png", tmp_path / "a.png"]
    assert group.reason == "same size, oldest"
    assert (group.images[0].date, group.images[0].taken) == (datetime.fromtimestamp(1e9), False)
