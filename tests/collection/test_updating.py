"""Collections that follow their folders, lose images, and become smaller."""

import shutil

import numpy as np
import pytest

from faemb.collection import Collection, images_in
from faemb.errors import InputError
from pictures import picture, pictures
from small_collections import NAMES, assert_finds, counts, names_below, touch


class TestUpdating:
    def test_new_changed_and_vanished(self, collection, photos):
        picture(photos / "new.png", 20)
        picture(photos / "a.png", 21)
        touch(photos / "a.png")
        (photos / "trip" / "d.png").unlink()
        assert counts(collection.update()) == (1, 1, 3, 1)
        assert names_below(collection, photos) == ["a.png", "b.png", "c.jpg", "new.png", "trip/e.png"]
        assert counts(collection.update()) == (0, 0, 5, 0)

    def test_a_renamed_image(self, collection, photos):
        (photos / "a.png").rename(photos / "trip" / "z.png")
        assert counts(collection.update()) == (0, 0, 4, 0)
        assert_finds(collection.search(photos / "trip" / "z.png", top=1)[0].hits, photos / "trip" / "z.png")

    def test_a_vanished_folder_is_refused_and_nothing_is_removed(self, collection, photos):
        """It may be on a drive that is not connected."""
        photos.rename(photos.parent / "away")
        words = rf"the folder {photos} is not there, and its images were not touched; .* faemb remove"
        with pytest.raises(InputError, match=words):
            collection.update()
        assert len(collection) == 5
        (photos.parent / "away").rename(photos)
        assert counts(collection.update()) == (0, 0, 5, 0)

    def test_several_vanished_folders(self, collection, photos, tmp_path):
        picture(tmp_path / "others" / "z.png", 60)
        collection.add(tmp_path / "others")
        for folder in (photos, tmp_path / "others"):
            shutil.rmtree(folder)
        others = tmp_path / "others"
        words = (
            rf"the folders {others}, {photos} are not there, and their images .*"
            rf"relocate \S+ {others} NEW_FOLDER; faemb relocate \S+ {photos} NEW_FOLDER, .*"
            rf"remove \S+ {others} {photos}$"
        )
        with pytest.raises(InputError, match=words):
            collection.update()

    def test_a_vanished_folder_can_be_taken_out(self, collection, photos, tmp_path):
        picture(tmp_path / "others" / "z.png", 60)
        collection.add(tmp_path / "others")
        shutil.rmtree(photos)
        assert collection.remove(photos) == 5
        assert counts(collection.update()) == (0, 0, 1, 0)
        assert collection.info().folders == [str(tmp_path / "others")]

    def test_a_vanished_folder_below_is_just_vanished_images(self, collection, photos):
        shutil.rmtree(photos / "trip")
        assert counts(collection.update()) == (0, 0, 3, 2)

    def test_all_images_may_vanish(self, collection, photos):
        for name in NAMES:
            (photos / name).unlink()
        assert counts(collection.update(allow_removing=True)) == (0, 0, 0, 5)
        assert len(collection) == 0
        picture(photos / "new.png", 5)
        assert counts(collection.update()) == (1, 0, 0, 0)

    def test_single_files_are_not_looked_for(self, collection, photos, tmp_path):
        """Only folders are remembered."""
        image = picture(tmp_path / "single.png", 70)
        collection.add(image)
        image.unlink()
        assert counts(collection.update()) == (0, 0, 5, 0)
        assert len(collection) == 6

    def test_a_named_file_that_folders_pass_over_is_not_vanished(self, collection, photos):
        picture(photos / "z.png", 8).rename(photos / "scan")
        picture(photos / ".hidden.png", 9)
        collection.add([photos / "scan", photos / ".hidden.png"])
        assert collection.update().removed == 0
        assert len(collection) == 7

    def test_vanished_images_of_a_folder_above_the_collection(self, photos, model):
        """Some images lie beside the collection and some do not, and the folder above has both."""
        root = photos.parent / "root"
        for name in ("far/a.png", "near/b.png", "near/c.png"):
            picture(root / name, 4)
        with Collection.create(root / "near" / "new.faemb", model) as made:
            made.add(root)
            (root / "near" / "b.png").unlink()
            (root / "far" / "a.png").unlink()
            assert counts(made.update()) == (0, 0, 1, 2)
            assert made.remove(root) == 1

    def test_a_broken_file_that_vanishes_is_forgotten(self, collection, photos):
        (photos / "broken.png").write_text("no image")
        collection.update()
        assert len(collection.info().unreadable) == 1
        (photos / "broken.png").unlink()
        assert counts(collection.update()) == (0, 0, 5, 0)
        assert collection.info().unreadable == {}

    def test_a_folder_with_a_name_that_begins_like_another(self, collection, photos):
        picture(photos.parent / "photos-2" / "x.png", 8)
        collection.add(photos.parent / "photos-2")
        assert collection.remove(photos) == 5
        assert names_below(collection, photos.parent) == ["photos-2/x.png"]


class TestDisconnectedDrives:
    """Images that are gone in great number may be on a drive that is not connected."""

    def test_an_empty_folder_removes_nothing(self, collection, photos):
        shutil.move(photos, photos.parent / "away")
        photos.mkdir()
        report = collection.update()
        assert counts(report) == (0, 0, 0, 0)
        assert [sentence.split(";")[0] for sentence in report.kept] == [
            f"all images of the folder {photos} are gone (5)",
            f"5 of 5 images are gone from {photos}",
        ]
        assert all(f"faemb update {collection.layout.folder} --allow-removing" in each for each in report.kept)
        assert len(collection) == 5
        assert counts(collection.update(allow_removing=True)) == (0, 0, 0, 5)

    def test_the_only_image_of_a_folder(self, collection, photos):
        """Others may lose images at the same time: they wait too."""
        only = picture(photos.parent / "others" / "z.png", 60)
        collection.add(only.parent)
        only.unlink()
        (photos / "a.png").unlink()
        report = collection.update()
        assert (report.removed, len(report.kept)) == (0, 1)
        assert f"all images of the folder {only.parent} are gone (1); they were not removed" in report.kept[0]
        assert len(collection) == 6

    @pytest.mark.parametrize(("count", "gone", "kept"), [(16, 4, False), (16, 5, True), (17, 5, False)])
    def test_more_than_a_share_of_all(self, empty, tmp_path, count, gone, kept):
        photos = pictures(tmp_path / "photos", range(count))
        empty.add(photos)
        for image in sorted(photos.iterdir())[:gone]:
            image.unlink()
        report = empty.update()
        assert (len(report.kept), report.removed) == ((1, 0) if kept else (0, gone))
        assert all(f"5 of 16 images are gone from {photos}" in sentence for sentence in report.kept)

    def test_new_and_changed_images_are_handled(self, collection, photos):
        collection.add(picture(photos / "z.png", 19))
        for name in NAMES:
            (photos / name).unlink()
        pictures(photos, range(20, 40))
        picture(photos / "z.png", 41)
        report = collection.update()
        assert counts(report) == (20, 1, 0, 0)
        assert len(report.kept) == 1
        assert f"5 of 6 images are gone from {photos}" in report.kept[0]
        assert {*NAMES, "z.png", "020.png"} <= set(names_below(collection, photos))


class TestRemoving:
    def test_an_image(self, collection, photos):
        assert collection.remove(photos / "a.png") == 1
        assert (photos / "a.png").is_file()
        assert len(collection) == 4
        hits = collection.search(photos / "a.png")[0].hits
        assert "a.png" not in names_below(hits, photos)
        assert len(hits) == 4

    def test_several_and_folders(self, collection, photos):
        assert collection.remove([photos / "trip", str(photos / "a.png"), photos / "trip" / "d.png"]) == 3
        assert names_below(collection, photos) == ["b.png", "c.jpg"]

    def test_what_is_not_there_is_refused_and_nothing_is_removed(self, collection, photos):
        with pytest.raises(InputError, match=r"gone.png is not in the collection .*photos\.faemb"):
            collection.remove([photos / "a.png", photos / "gone.png"])
        assert len(collection) == 5

    def test_a_removed_image_comes_back_when_its_file_is_named(self, collection, photos):
        collection.remove(photos / "a.png")
        assert counts(collection.add(photos / "a.png")) == (1, 0, 0, 0)
        assert counts(collection.update()) == (0, 0, 5, 0)
        assert collection.info().removed == 0
        assert_finds(collection.search(photos / "a.png", top=1)[0].hits, photos / "a.png")

    def test_it_stays_out_of_the_folders_in_which_it_lies(self, collection, photos):
        collection.remove([photos / "a.png", photos / "trip"])
        for change in (collection.update, lambda: collection.add(photos), lambda: collection.add(photos / "trip")):
            report = change()
            assert report.added == 0
            assert report.kept_out == (2 if report.unchanged == 0 else 3)
        assert names_below(collection, photos) == ["b.png", "c.jpg"]
        assert collection.info().removed == 3
        assert collection.kept_out() == [photos / name for name in ("a.png", "trip/d.png", "trip/e.png")]

    def test_an_image_that_no_folder_has_given_stays_out_too(self, collection, photos, tmp_path):
        image = picture(tmp_path / "others" / "z.png", 60)
        collection.add(image)
        collection.remove(image)
        assert collection.add(image.parent).kept_out == 1

    def test_of_a_removed_folder_nothing_is_remembered(self, collection, photos):
        """Neither its images nor those that were removed from it before."""
        collection.remove(photos / "a.png")
        collection.remove(photos)
        assert collection.info().removed == 0
        assert counts(collection.add(photos)) == (5, 0, 0, 0)

    def test_a_file_that_gets_the_name_of_a_removed_and_deleted_one_is_another_image(self, collection, photos):
        collection.remove(photos / "a.png")
        (photos / "a.png").unlink()
        collection.update()
        assert collection.info().removed == 0
        (photos / "b.png").rename(photos / "a.png")
        assert collection.update().moved == 1
        assert names_below(collection, photos) == ["a.png", "c.jpg", "trip/d.png", "trip/e.png"]

    def test_a_removed_folder_that_is_added_again_leaves_nothing_out(self, collection, photos):
        collection.add(images_in(photos, ["a*"]))
        collection.remove(photos)
        assert collection.info().excluded == {}

    def test_a_deleted_image_that_comes_back_is_no_removed_one(self, collection, photos):
        (photos / "a.png").rename(photos.parent / "away.png")
        assert collection.update().removed == 1
        (photos.parent / "away.png").rename(photos / "a.png")
        assert counts(collection.update()) == (1, 0, 4, 0)

    def test_a_removed_folder_is_not_looked_at_again(self, collection, photos):
        collection.remove(photos)
        assert collection.info().folders == []
        assert counts(collection.update()) == (0, 0, 0, 0)

    def test_those_of_a_folder_that_a_moved_collection_knows_by_its_absolute_path(self, collection, photos, tmp_path):
        """As the collection lies beside them now, they would get names relative to it."""
        name = str(photos / "a.png")
        collection._catalogue.rename_all("images", {collection.layout.name_of(name): name})
        assert collection.remove(photos / "a.png") == 1
        assert collection.entry(photos / "a.png") is None

    def test_those_of_a_folder_that_holds_the_collection(self, collection, photos):
        count = len(collection)
        assert collection.remove(collection.layout.folder.parent) == count

    def test_a_broken_file_is_forgotten(self, collection, photos):
        (photos / "broken.png").write_text("no image")
        collection.add(photos)
        assert collection.remove(photos / "broken.png") == 0
        assert collection.info().unreadable == {}

    def test_all_of_them(self, collection, photos):
        collection.remove(photos)
        assert len(collection) == 0
        assert collection.search(photos / "a.png")[0].hits == []
        assert counts(collection.add(photos)) == (5, 0, 0, 0)
        assert_finds(collection.search(photos / "a.png", top=1)[0].hits, photos / "a.png")


def test_compaction_changes_no_answer(empty, tmp_path):
    for number in range(30):
        picture(tmp_path / "photos" / f"{number:02}.png", number)
    empty.add(tmp_path / "photos")
    kept = tmp_path / "photos" / "27.png"
    features = empty.features(kept)
    empty.search(kept, index="hnsw")
    before = {hit.path: hit.similarity for hit in empty.search(kept, top=40)[0].hits}
    files = {path.name for path in empty.layout.folder.iterdir()}
    assert {"vectors-1.f32", "hnsw-1-30.faiss"} <= files
    empty.remove([tmp_path / "photos" / f"{number:02}.png" for number in range(25)])
    files = {path.name for path in empty.layout.folder.iterdir()}
    assert {"vectors-2.f32", "features-2.bin"} <= files
    assert not [name for name in files if "-1" in name]
    for index in ("exact", "rabitq", "hnsw", "ivf-pq", "binary"):
        hits = empty.search(kept, top=40, index=index)[0].hits
        assert len(hits) == 5
        for hit in hits:
            assert hit.similarity == pytest.approx(before[hit.path], abs=1.1e-5)
    np.testing.assert_array_equal(empty.features(kept).descriptors, features.descriptors)
    assert empty.check() == []
