"""Any folder with a gt.tsv."""

import os
from pathlib import Path

import pytest

from faemb.benchmark.datasets import STANDARD, open_dataset
from faemb.benchmark.datasets.reading import lines_of
from faemb.errors import InputError
from faemb.features.region import Box
from small_datasets import asked, write_images, write_table

HEADER = "query\trelevant\tjunk"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_images(tmp_path, *(f"jpg/{name}.jpg" for name in "abcd"))


def test_names_are_listed_with_commas(folder: Path) -> None:
    dataset = open_dataset(write_table(folder, HEADER, "a.jpg\tb.jpg, c.jpg\td.jpg", "b.jpg\ta.jpg\t"))
    assert (dataset.kind, dataset.name) == ("table", folder.name)
    assert asked(dataset) == {"a": (["b", "c"], ["d"]), "b": (["a"], [])}
    assert dataset.note == "4 images and 2 queries"


def test_the_query_is_dropped_from_its_ranking(folder: Path) -> None:
    dataset = open_dataset(write_table(folder, HEADER, "a.jpg\tb.jpg\td.jpg"))
    assert dataset.judgements(STANDARD) == [((1,), (3, 0))]


def test_columns_are_known_by_name(folder: Path) -> None:
    write_table(folder, "junk\tplace\tbbox_x1y1x2y2\tquery\trelevant", "\tOxford\t1,2,30,40.5\ta.jpg\tb.jpg")
    (query,) = open_dataset(folder).queries
    assert (query.box, query.relevant, query.junk) == (Box(1, 2, 30, 40.5), (1,), ())


def test_an_empty_box_is_none(folder: Path) -> None:
    write_table(folder, f"{HEADER}\tbbox_x1y1x2y2", "a.jpg\tb.jpg\t\t")
    assert open_dataset(folder).queries[0].box is None


def test_images_of_the_same_name_are_distinguished_by_path(folder: Path) -> None:
    write_images(folder, "more/a.jpg")
    dataset = open_dataset(write_table(folder, HEADER, "jpg/a.jpg\tmore/a.jpg\t"))
    assert (dataset.queries[0].number, dataset.queries[0].relevant) == (0, (4,))


def test_an_ambiguous_name_is_explained(folder: Path) -> None:
    write_images(folder, "more/a.jpg")
    with pytest.raises(InputError, match=r"a\.jpg may be .* and .*; keep one of them, or name it by its path"):
        open_dataset(write_table(folder, HEADER, "a.jpg\tb.jpg\t"))


def test_ends_of_lines_and_byte_order_of_other_systems_are_read(folder: Path) -> None:
    (folder / "gt.tsv").write_bytes(b"\xef\xbb\xbfquery\trelevant\tjunk\r\na.jpg\tb.jpg\t\r\n\r\n")
    assert asked(open_dataset(folder)) == {"a": (["b"], [])}


def test_absent_images_are_counted_and_named(folder: Path) -> None:
    write_table(folder, HEADER, "a.jpg\tb.jpg,gone_1.jpg\t", "gone_2.jpg\tgone_1.jpg\ta.jpg")
    with pytest.raises(InputError, match=r"gt\.tsv names 2 images .*, such as gone_1\.jpg, gone_2\.jpg"):
        open_dataset(folder)


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ([], "begins with ''; expected query, relevant, junk"),
        (["query,relevant,junk", "a.jpg,b.jpg,"], "begins with 'query,relevant,junk'; expected"),
        (["query\trelevant", "a.jpg\tb.jpg"], "expected query, relevant, junk, with tabs"),
        ([HEADER], "names no query"),
        ([HEADER, "", "a.jpg\tb.jpg"], "line 3 of .* has 2 cells; expected 3"),
        ([HEADER, "\tb.jpg\t"], "line 2 of .* has no query"),
        ([HEADER, "a.jpg\tb.jpg\tb.jpg"], r"names b\.jpg as relevant and as junk"),
        ([f"{HEADER}\tbbox_x1y1x2y2", "a.jpg\tb.jpg\t\t1,2,3"], "line 2 of .* holds the box '1 2 3'"),
    ],
)
def test_a_table_that_cannot_be_read_is_explained(folder: Path, lines: list[str], fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        open_dataset(write_table(folder, *lines))


def test_no_table_is_explained(folder: Path) -> None:
    with pytest.raises(InputError, match=r"there is no gt\.tsv in .* or below; put it there"):
        open_dataset(folder, "table")


def test_a_table_that_needs_too_much_memory_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(folder, HEADER, *["a\t\t"] * 5000)
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "1MB")
    with pytest.raises(InputError, match=r"gt\.tsv needs 1\.28 MB of memory; one file may take 1 MB"):
        open_dataset(folder)


def test_long_lists_take_time_in_proportion(folder: Path) -> None:
    """A list of 50,000 names beside another: a comparison of each with each would take hours."""
    names = [",".join(f"{letter}{number}" for number in range(50_000)) for letter in "xy"]
    with pytest.raises(InputError, match="names 100000 images that are not in"):
        open_dataset(write_table(folder, HEADER, "\t".join(["a.jpg", *names])))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_without_waiting(folder: Path) -> None:
    os.mkfifo(folder / "gt.tsv")
    with pytest.raises(InputError, match=r"gt\.tsv"):
        open_dataset(folder, "table")
    with pytest.raises(InputError, match="is a pipe"):
        lines_of(folder / "gt.tsv")
