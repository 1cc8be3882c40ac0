"""Which benchmark a folder is, and the errors if it is none, or several."""

from pathlib import Path

import pytest

from faemb.benchmark.datasets import KINDS, open_dataset
from faemb.errors import InputError
from faemb.evaluation import MEASURES
from small_datasets import OXFORD, OXFORD_IMAGES, write_images, write_oxford, write_table

HEADER = "query\trelevant\tjunk"


def test_files_of_ground_truth_precede_names(tmp_path: Path) -> None:
    write_images(tmp_path, "100000.jpg", "100001.jpg", "100002.jpg")
    assert open_dataset(tmp_path).kind == "holidays"
    write_table(tmp_path, HEADER, "100000.jpg\t100002.jpg\t")
    assert open_dataset(tmp_path).kind == "table"
    assert open_dataset(tmp_path, "holidays").kind == "holidays"


def test_a_table_that_agrees_with_the_names_is_holidays(tmp_path: Path) -> None:
    """In any order of queries and of relevant images."""
    write_images(tmp_path, "100000.jpg", "100001.jpg", "100002.jpg", "100100.jpg", "100101.jpg")
    write_table(tmp_path, HEADER, "100100.jpg\t100101.jpg\t", "100000.jpg\t100002.jpg,100001.jpg\t")
    dataset = open_dataset(tmp_path)
    assert dataset.kind == "holidays"
    assert dataset.note.startswith("a subset: 5 images and 2 queries instead of")
    assert open_dataset(tmp_path, "table").kind == "table"


@pytest.mark.parametrize(
    "line",
    ["100000.jpg\t100001.jpg\t100002.jpg\t", "100000.jpg\t100001.jpg,100002.jpg\t\t1,2,3,4"],
    ids=["junk", "box"],
)
def test_a_table_that_says_more_than_the_names_stays_a_table(tmp_path: Path, line: str) -> None:
    write_images(tmp_path, "100000.jpg", "100001.jpg", "100002.jpg")
    assert open_dataset(write_table(tmp_path, f"{HEADER}\tbbox_x1y1x2y2", line)).kind == "table"


def test_several_kinds_are_named_with_the_cure(tmp_path: Path) -> None:
    write_oxford(tmp_path / "gt", OXFORD)
    write_images(tmp_path, *(f"{name}.jpg" for name in OXFORD_IMAGES))
    (tmp_path / "gnd_roxford5k.pkl").touch()
    with pytest.raises(InputError, match="may be oxford5k or roxford5k; give the kind, as in kind='oxford5k'"):
        open_dataset(tmp_path)
    assert open_dataset(tmp_path, "oxford5k").kind == "oxford5k"


def test_a_folder_that_says_nothing_is_explained(tmp_path: Path) -> None:
    write_images(tmp_path, "cat.jpg", "dog.jpg")
    with pytest.raises(InputError, match=r"2 images, and no ground truth for them; add a gt\.tsv with the columns"):
        open_dataset(tmp_path)


def test_several_tables_are_explained(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_table(write_images(tmp_path / name, f"{name}.jpg"), HEADER)
    with pytest.raises(InputError, match=r"holds 2 files gt\.tsv, in .*one, .*two; open one of these folders"):
        open_dataset(tmp_path)


def test_a_folder_without_images_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no images"):
        open_dataset(tmp_path)


@pytest.mark.parametrize("name", ["gone", "file.jpg"])
def test_a_wrong_folder_is_explained(tmp_path: Path, name: str) -> None:
    write_images(tmp_path, "file.jpg")
    with pytest.raises(InputError, match=f"there is no folder .*{name}"):
        open_dataset(tmp_path / name)


def test_an_unknown_kind_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no kind of benchmark is called 'oxford'; there are holidays, oxford5k"):
        open_dataset(tmp_path, "oxford")


def test_ground_truth_behind_links_is_found(tmp_path: Path) -> None:
    write_images(tmp_path / "folder", "a.jpg", "b.jpg")
    (tmp_path / "labels").mkdir()
    write_table(tmp_path / "labels", HEADER, "a.jpg\tb.jpg\t")
    (tmp_path / "folder" / "gt").symlink_to(tmp_path / "labels")
    assert open_dataset(str(tmp_path / "folder")).kind == "table"


def test_kinds_report_measures_that_exist() -> None:
    assert all(measure in MEASURES for kind in KINDS.values() for measure in kind.measures)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_kinds_say_what_is_expected_where(kind) -> None:
    assert kind.title
    assert "in the folder or below" in kind.layout
    assert bool(kind.images) == bool(kind.queries) == (kind.name != "table")
