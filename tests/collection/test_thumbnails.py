"""Stored thumbnails: made when images are added, used without the images, and never the cause of an error."""

import io
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from faemb.collection import Answer, Collection, Group, GroupedImage, Hit
from faemb.collection.thumbnails import Thumbnail, Thumbnails, make_thumbnail
from faemb.errors import InputError
from faemb.features.image.dates import date_taken
from faemb.pages.contact_sheet import answers_page, groups_page
from html_pages import Page
from pictures import picture, pixels
from small_collections import NAMES, assert_finds


def file_of(collection: Collection) -> Path:
    return collection.layout.folder / "thumbnails.sqlite"


def contents_of(collection: Collection) -> set[str]:
    return {entry.hash for entry in collection.entries()}


def change_bytes(file: Path) -> None:
    """Of one thumbnail: the database itself is undamaged."""
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("update thumbnails set jpeg = x'00ff' where rowid = 1")


def zero(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def replace_by_text(file: Path) -> None:
    file.write_text("something else")


DAMAGES = [zero, replace_by_text, lambda file: file.unlink(), lambda file: file.write_bytes(b"")]
DAMAGE_NAMES = ["zeros", "text", "missing", "empty"]


class TestMaking:
    def test_a_large_photograph(self, tmp_path):
        """Upright: the orientation is applied to the pixels and to the size."""
        exif = PIL.Image.Exif()
        exif[0x0112] = 6
        PIL.Image.new("RGB", (640, 400), "red").save(tmp_path / "large.jpg", exif=exif)
        made = make_thumbnail(tmp_path / "large.jpg")
        assert (made.width, made.height) == (400, 640)
        with PIL.Image.open(io.BytesIO(made.jpeg)) as small:
            assert (small.format, small.size) == ("JPEG", (150, 240))

    def test_16_bits(self, tmp_path):
        PIL.Image.fromarray(np.full((30, 20), 30000, np.uint16)).save(tmp_path / "deep.png")
        with PIL.Image.open(io.BytesIO(make_thumbnail(tmp_path / "deep.png").jpeg)) as small:
            assert small.size == (20, 30)


class TestStoring:
    def test_every_image_has_one(self, collection, photos):
        assert Thumbnails(file_of(collection)).contents() == contents_of(collection)
        for name in NAMES:
            assert collection.thumbnail(photos / name) == make_thumbnail(photos / name)

    def test_it_needs_no_image(self, collection, photos):
        expected = collection.thumbnail(photos / "a.png")
        shutil.rmtree(photos)
        assert collection.thumbnail(photos / "a.png") == expected

    def test_it_follows_a_changed_image(self, collection, photos):
        picture(photos / "a.png", 77, size=(200, 100))
        collection.update()
        assert collection.thumbnail(photos / "a.png").width == 200

    def test_one_for_copies(self, collection, photos):
        shutil.copy(photos / "a.png", photos / "copy.png")
        collection.update()
        assert collection.thumbnail(photos / "copy.png") == collection.thumbnail(photos / "a.png")
        assert len(Thumbnails(file_of(collection)).contents()) == 5

    def test_an_image_of_another_collection_is_refused(self, collection, tmp_path):
        other = picture(tmp_path / "other.png", 3)
        with pytest.raises(InputError, match=r"other\.png is not in the collection .*photos\.faemb"):
            collection.thumbnail(other)

    def test_those_of_removed_images_are_deleted_by_compaction(self, empty, tmp_path):
        photos = tmp_path / "photos"
        for seed in range(30):
            picture(photos / f"{seed:02}.png", seed)
        empty.add(photos)
        size = file_of(empty).stat().st_size
        empty.remove([photos / f"{seed:02}.png" for seed in range(25)])
        assert Thumbnails(file_of(empty)).contents() == contents_of(empty)
        assert len(empty) == 5
        assert file_of(empty).stat().st_size < size / 2


class TestDamage:
    @pytest.mark.parametrize("damage", DAMAGES, ids=DAMAGE_NAMES)
    def test_nothing_fails(self, collection, photos, damage):
        """The thumbnail comes from the image, and new ones can be stored."""
        damage(file_of(collection))
        assert collection.thumbnail(photos / "a.png") == make_thumbnail(photos / "a.png")
        new = picture(photos / "new.png", 40)
        assert collection.update().added == 1
        assert_finds(collection.search(new, top=1)[0].hits, new)
        new.unlink()
        assert (collection.thumbnail(new).width, collection.check()) == (120, [])

    def test_without_the_image_the_fault_is_the_image(self, collection, photos):
        file_of(collection).unlink()
        (photos / "a.png").unlink()
        with pytest.raises(InputError, match=r"there is no file .*a\.png"):
            collection.thumbnail(photos / "a.png")

    @pytest.mark.parametrize(
        ("damage", "sentence"),
        [
            (change_bytes, "damaged thumbnails in {file}: 1"),
            (zero, "the thumbnails in {file} are damaged"),
            (replace_by_text, "the thumbnails in {file} are damaged"),
        ],
        ids=["one", "zeros", "text"],
    )
    def test_a_check_tells_and_a_repair_makes_them_again(self, collection, photos, damage, sentence):
        file = file_of(collection)
        before = stored(collection)
        damage(file)
        assert collection.check() == [sentence.format(file=file)]
        assert collection.check(repair=True) == [sentence.format(file=file)]
        assert collection.check() == []
        assert stored(collection) == before

    def test_a_repair_keeps_thumbnails_of_images_that_are_away(self, collection, photos):
        """Only the damaged one is lost."""
        change_bytes(file_of(collection))
        shutil.rmtree(photos)
        collection.check(repair=True)
        assert len(stored(collection)) == 4
        assert collection.check() == []

    def test_missing_ones_are_no_fault_and_are_made_by_a_repair(self, collection, photos):
        """As in collections that were made before there were thumbnails."""
        before = stored(collection)
        file_of(collection).unlink()
        (photos / "b.png").unlink()
        picture(photos / "c.jpg", 66)
        assert collection.check() == []
        assert collection.check(repair=True) == [f"missing thumbnails in {file_of(collection)}: 3"]
        assert stored(collection).items() < before.items()
        assert collection.check(repair=True) == []

    def test_bits_of_a_row_that_is_no_thumbnail(self, tmp_path):
        thumbnails = Thumbnails(tmp_path / "t.sqlite")
        thumbnails.put({"ab": Thumbnail(3, 2, b"jpeg")})
        assert thumbnails.get("ab") == Thumbnail(3, 2, b"jpeg")
        with closing(sqlite3.connect(tmp_path / "t.sqlite")) as database, database:
            database.execute("update thumbnails set width = 4")
        assert thumbnails.get("ab") is None
        assert thumbnails.damaged() == {"ab"}


def stored(collection: Collection) -> dict[str, Thumbnail]:
    thumbnails = Thumbnails(file_of(collection))
    found = {content: thumbnails.get(content) for content in contents_of(collection)}
    return {content: thumbnail for content, thumbnail in found.items() if thumbnail is not None}


@pytest.mark.parametrize("away", [False, True], ids=["there", "away"])
def test_pages_show_them(collection, photos, tmp_path, away):
    query = shutil.copy(photos / "a.png", tmp_path / "query.png")
    paths = [photos / name for name in NAMES]
    if away:
        shutil.rmtree(photos)
    answers = [Answer(str(query), 5, [Hit(path, 0.5) for path in paths])]
    images = [GroupedImage(path, 50, 50, 1000, datetime(2020, 1, 1), taken=True) for path in paths]
    pages: list[Callable[..., str]] = [
        lambda **how: answers_page(answers, title="T", box=(0, 0, 50, 50), **how),
        lambda **how: groups_page([Group(images, "largest", 0.5, 0.5)], title="T", **how),
    ]
    for page, queries in zip(pages, (1, 0), strict=True):
        assert len(Page(page(thumbnail=collection.thumbnail)).attributes("image")) == 5 + queries
        assert len(Page(page()).attributes("image")) == queries + 5 * (not away)


class TestDates:
    """When photographs were taken is stored with the thumbnails."""

    TAKEN = datetime(2014, 7, 20, 13, 5, 9)

    @pytest.fixture
    def dated(self, collection, photos, in_this_process) -> Collection:
        exif = PIL.Image.Exif()
        exif.get_ifd(0x8769)[0x9003] = "2014:07:20 13:05:09"
        PIL.Image.fromarray(pixels(71)).save(photos / "dated.jpg", exif=exif)
        collection.add(photos / "dated.jpg")
        return collection

    def date_of(self, collection: Collection, image: Path) -> datetime | None:
        entry = collection.entry(image)
        assert entry is not None
        assert collection.dates_taken([entry.hash]) == {entry.hash: collection.dates_taken()[entry.hash]}
        return collection.dates_taken()[entry.hash]

    def test_they_need_no_image(self, dated, photos):
        shutil.rmtree(photos)
        assert self.date_of(dated, photos / "dated.jpg") == self.TAKEN
        assert self.date_of(dated, photos / "a.png") is None
        assert dated.dates_taken().keys() == contents_of(dated)

    def test_one_that_another_process_removes_meanwhile_is_not_damaged(self, dated, monkeypatch):
        kept, read = Thumbnails(file_of(dated)), Thumbnails._all

        def removed_then(thumbnails: Thumbnails, statement: str, *values: str) -> list:
            rows = read(thumbnails, statement, *values)
            if "dates" in statement:
                kept.remove(contents_of(dated))
            return rows

        monkeypatch.setattr(Thumbnails, "_all", removed_then)
        assert kept.damaged() == set()

    def test_a_file_of_an_earlier_version_has_none_until_it_is_repaired(self, dated, photos):
        with closing(sqlite3.connect(file_of(dated))) as database:
            database.execute("drop table dates")
        assert dated.dates_taken() == {}
        assert dated.check() == []
        assert dated.stored_thumbnail(dated.entry(photos / "a.png")) == make_thumbnail(photos / "a.png")
        sentence = f"missing dates of photographs in {file_of(dated)}: {len(contents_of(dated))}"
        assert dated.check(repair=True) == [sentence]
        assert self.date_of(dated, photos / "dated.jpg") == self.TAKEN
        assert dated.check(repair=True) == []

    def test_a_damaged_date_is_found_and_looked_up_again(self, dated, photos):
        with closing(sqlite3.connect(file_of(dated))) as database, database:
            database.execute("update dates set taken = '2015-07-20T13:05:09' where taken != ''")
        assert dated.entry(photos / "dated.jpg").hash not in dated.dates_taken()
        assert dated.check() == [f"damaged thumbnails in {file_of(dated)}: 1"]
        dated.check(repair=True)
        assert self.date_of(dated, photos / "dated.jpg") == self.TAKEN
        assert dated.check() == []

    def test_a_damaged_file_gives_none(self, dated):
        replace_by_text(file_of(dated))
        assert dated.dates_taken() == {}

    def test_replacing_a_damaged_file_keeps_the_others(self, tmp_path):
        thumbnails = Thumbnails(tmp_path / "t.sqlite")
        thumbnails.put({"ab": Thumbnail(3, 2, b"jpeg")}, {"ab": self.TAKEN, "cd": None})
        thumbnails.rebuild(["ab"])
        assert thumbnails.dates() == {"ab": self.TAKEN}
        thumbnails.remove(["ab"])
        assert thumbnails.dates() == {}


def test_exif_data_with_endless_values_is_not_read(tmp_path):
    """Thousands of tags in the camera's own list claim half of the data each, also beside a valid date."""
    assert date_taken(camera_with(tmp_path / "few.jpg", 10)) == datetime(2014, 7, 20, 13, 5, 9)
    assert date_taken(camera_with(tmp_path / "many.jpg", 4000)) is None


def camera_with(path: Path, tags: int) -> Path:
    place = 26 + 2 + 12 * (tags + 1)
    listed = [(0x9003, 20, place), *((0x9005 + number, 30_000, 0) for number in range(tags))]
    camera = struct.pack(">H", len(listed)) + b"".join(struct.pack(">HHII", tag, 2, *rest) for tag, *rest in listed)
    first = struct.pack(">HHHIII", 1, 0x8769, 4, 1, 26, 0)
    data = b"Exif\0\0MM\0*" + struct.pack(">I", 8) + first + camera + b"2014:07:20 13:05:09\0"
    PIL.Image.new("L", (30, 20)).save(path, exif=data.ljust(60_000, b"\0"))
    return path
