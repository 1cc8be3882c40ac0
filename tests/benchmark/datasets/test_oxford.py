"""Oxford and Paris with their original files, in miniature."""

from pathlib import Path

import pytest

from faemb.benchmark.datasets import STANDARD, open_dataset
from faemb.benchmark.datasets.oxford import BROKEN
from faemb.errors import InputError
from faemb.features.region import Box
from small_datasets import OXFORD, OXFORD_IMAGES, asked, write_images, write_oxford


@pytest.fixture
def oxford(tmp_path: Path) -> Path:
    write_oxford(tmp_path / "gt", OXFORD)
    return write_images(tmp_path, *(f"oxbuild_images/{name}.jpg" for name in OXFORD_IMAGES))


@pytest.fixture
def paris(tmp_path: Path) -> Path:
    line = "paris_defense_000605 1 2 300 400"
    broken = ["paris_louvre_000136", "paris_triomphe_000867"]
    write_oxford(tmp_path / "paris_120310", {"defense_1": (line, ["paris_defense_000605", *broken], [], [])})
    names = ["defense/paris_defense_000605", "general/paris_general_000001", "louvre/paris_louvre_000136"]
    return write_images(tmp_path, *(f"paris/{name}.jpg" for name in names))


def test_good_and_ok_are_relevant(oxford: Path) -> None:
    dataset = open_dataset(oxford)
    assert dataset.kind == "oxford5k"
    assert [path.stem for path in dataset.images] == OXFORD_IMAGES
    assert asked(dataset) == {
        "all_souls_000013": (["all_souls_000013", "all_souls_000026"], ["x"]),
        "bodleian_000108": (["bodleian_000108", "x"], []),
    }


def test_boxes_are_read(oxford: Path) -> None:
    assert open_dataset(oxford).queries[0].box == Box(136.5, 34.1, 648.5, 955.7)


def test_the_query_stays_and_junk_is_ignored(oxford: Path) -> None:
    assert open_dataset(oxford).judgements(STANDARD) == [((0, 1), (4,)), ((2, 4), ())]


def test_a_small_copy_is_a_subset(oxford: Path) -> None:
    assert "a subset: 5 images and 2 queries instead of 5,062 or 5,063 and 55" in open_dataset(oxford).note


def test_paris_lies_in_subfolders_by_landmark(paris: Path) -> None:
    dataset = open_dataset(paris)
    assert dataset.kind == "paris6k"
    assert [path.stem for path in dataset.images] == ["paris_defense_000605", "paris_general_000001"]


def test_broken_images_of_paris_are_left_out_of_images_and_labels(paris: Path) -> None:
    """One of the two that are labelled is there, the other is not."""
    dataset = open_dataset(paris)
    assert asked(dataset) == {"paris_defense_000605": (["paris_defense_000605"], [])}
    assert "without the 20 images that its authors list as broken (1 present)" in dataset.note


def test_twenty_are_broken() -> None:
    assert len(BROKEN) == 20


def test_absent_images_are_counted_and_named(oxford: Path) -> None:
    (oxford / "gt" / "all_souls_1_ok.txt").write_text("gone_1\ngone_2\nall_souls_000026\ngone_3\ngone_4\n")
    message = r"all_souls_1_ok\.txt names 4 images that are not in .*, such as gone_1, gone_2, gone_3; add them"
    with pytest.raises(InputError, match=message):
        open_dataset(oxford)


def test_an_absent_query_is_named(oxford: Path) -> None:
    (oxford / "gt" / "all_souls_1_query.txt").write_text("oxc1_gone 1 2 3 4\n")
    with pytest.raises(InputError, match=r"all_souls_1_query\.txt names 1 images .* such as gone;"):
        open_dataset(oxford)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("", "holds 0 words; expected the name of an image and four numbers"),
        ("oxc1_all_souls_000013 1 2 3", "holds 4 words"),
        ("oxc1_all_souls_000013 1 2 three 4", "holds the box '1 2 three 4'; expected x1, y1, x2, y2"),
        ("oxc1_all_souls_000013 9 2 3 4", "with x1 < x2 and y1 < y2"),
        ("oxc1_all_souls_000013 1 2 nan 4", "holds the box"),
    ],
)
def test_a_query_that_cannot_be_read_is_explained(oxford: Path, line: str, fault: str) -> None:
    (oxford / "gt" / "all_souls_1_query.txt").write_text(line)
    with pytest.raises(InputError, match=rf"all_souls_1_query\.txt {fault}|{fault}"):
        open_dataset(oxford)


def test_a_missing_list_is_named(oxford: Path) -> None:
    (oxford / "gt" / "all_souls_1_junk.txt").unlink()
    with pytest.raises(InputError, match=r"all_souls_1_query\.txt has no all_souls_1_junk\.txt beside it"):
        open_dataset(oxford)


def test_a_list_that_is_no_text_is_explained(oxford: Path) -> None:
    (oxford / "gt" / "all_souls_1_junk.txt").write_bytes(b"\xff\xfe\x00a")
    with pytest.raises(InputError, match=r"all_souls_1_junk\.txt is not text in UTF-8"):
        open_dataset(oxford)


def test_an_image_in_two_folders_is_refused(oxford: Path) -> None:
    write_images(oxford, "thumbnails/x.jpg")
    with pytest.raises(InputError, match=r"have the same name; keep one of them"):
        open_dataset(oxford)


def test_oxford_is_not_paris(oxford: Path) -> None:
    with pytest.raises(InputError, match=r"no file \*_query\.txt of this benchmark"):
        open_dataset(oxford, "paris6k")
