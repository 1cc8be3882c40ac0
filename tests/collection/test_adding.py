"""What goes into a collection: images in any way and of any name, each once."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from faemb.collection import Collection, gathering
from faemb.errors import InputError
from pictures import picture
from small_collections import NAMES, assert_finds, counts, exported_vectors, names_below, new_tiny_model, touch


class TestAdding:
    def test_the_report_and_what_is_there(self, empty, photos):
        report = empty.add(photos)
        assert counts(report) == (5, 0, 0, 0)
        assert report.failed == report.without_features == []
        assert report.seconds > 0
        assert len(empty) == 5
        assert names_below(empty, photos) == NAMES
        info = empty.info()
        assert (info.images, info.searchable, info.waiting, info.without_features) == (5, 5, 0, 0)
        assert info.unreadable == {}
        assert info.folders == [str(photos)]
        assert info.dimension == empty.model.dimension
        assert info.bytes == sum(path.stat().st_size for path in empty.layout.folder.iterdir())

    @pytest.mark.parametrize("given", [str, Path, lambda path: [path], lambda path: (str(path),), lambda p: iter([p])])
    def test_images_may_be_given_in_any_way(self, empty, photos, given):
        assert empty.add(given(photos / "a.png")).added == 1
        assert empty.info().folders == []

    def test_files_and_folders_that_overlap_count_once(self, empty, photos):
        assert empty.add([photos / "trip", photos / "a.png", photos, photos / "trip" / "d.png"]).added == 5
        assert empty.info().folders == [str(photos), str(photos / "trip")]

    def test_what_is_known_is_not_opened_again(self, collection, photos, monkeypatch):
        monkeypatch.setattr(gathering.Describe, "__call__", None)
        assert counts(collection.add(photos)) == (0, 0, 5, 0)

    def test_changed_content_is_encoded_again_under_the_same_id(self, collection, photos, tmp_path):
        before = {entry.path: entry for entry in collection.entries()}
        old = exported_vectors(collection, tmp_path)
        picture(photos / "b.png", 50)
        touch(photos / "b.png")
        assert counts(collection.add(photos)) == (0, 1, 4, 0)
        after = {entry.path: entry for entry in collection.entries()}
        assert {path: entry.id for path, entry in before.items()} == {path: entry.id for path, entry in after.items()}
        changed = [path for path in before if before[path].hash != after[path].hash]
        assert changed == ["../photos/b.png"]
        new = exported_vectors(collection, tmp_path)
        assert not np.allclose(old["b.png"], new["b.png"])
        np.testing.assert_array_equal(old["a.png"], new["a.png"])
        assert_finds(collection.search(photos / "b.png", top=1)[0].hits, photos / "b.png")

    def test_a_touched_file_is_looked_at_once_and_stays(self, collection, photos, monkeypatch):
        before = list(collection.entries())
        touch(photos / "a.png")
        assert counts(collection.add(photos)) == (0, 0, 5, 0)
        after = list(collection.entries())
        assert [(entry.id, entry.slot, entry.hash) for entry in after] == [
            (entry.id, entry.slot, entry.hash) for entry in before
        ]
        monkeypatch.setattr(gathering.Describe, "__call__", None)
        assert counts(collection.add(photos)) == (0, 0, 5, 0)

    def test_one_image_under_two_names_is_two_images(self, collection, photos):
        shutil.copy(photos / "a.png", photos / "twin.png")
        assert counts(collection.add(photos)) == (1, 0, 5, 0)
        hits = collection.search(photos / "a.png", top=2)[0].hits
        assert names_below(hits, photos) == ["a.png", "twin.png"]
        assert hits[0].similarity == hits[1].similarity

    @pytest.mark.parametrize(
        "name",
        [
            "naïve café.png",
            "写真/夏 😀.png",
            'it\'s 100 % "quoted"; drop table images.png',
            "line\nbreak.png",
            "x" * 200 + ".png",
            "/".join(["deep" * 30] * 8) + "/image.png",
            " .png",
            "a.png.png",
        ],
        ids=["accents", "beyond", "quotes", "line break", "long", "long path", "space", "double"],
    )
    def test_names_of_any_kind(self, empty, tmp_path, name):
        image = picture(tmp_path / "photos" / name, 3)
        assert empty.add(tmp_path / "photos").added == 1
        assert_finds(empty.search(image)[0].hits, image)
        assert counts(empty.update()) == (0, 0, 1, 0)
        assert empty.remove(image) == 1

    def test_a_name_that_is_no_text(self, empty, tmp_path):
        try:
            image = picture(tmp_path / os.fsdecode(b"\xff.png"), 3)
        except OSError:
            pytest.skip("this file system has names that are text only")
        empty.add(image)
        assert_finds(empty.search(image)[0].hits, image)

    def test_links_that_run_in_circles(self, collection, photos):
        (photos / "trip" / "back").symlink_to(photos)
        (photos / "self.png").symlink_to(photos / "self.png")
        (photos / "gone.png").symlink_to(photos / "nowhere.png")
        (photos / "link.png").symlink_to(photos / "a.png")
        report = collection.add(photos)
        assert report.failed == []
        assert report.added == 1
        assert collection.search(photos / "a.png", top=2)[0].hits[1].path.name == "link.png"

    def test_a_named_file_needs_no_suffix(self, empty, photos):
        (photos / "a.png").rename(photos / "scan")
        assert empty.add(photos / "scan").added == 1
        assert_finds(empty.search(photos / "scan")[0].hits, photos / "scan")

    def test_nothing_to_add_is_explained(self, collection, tmp_path):
        (tmp_path / "nothing").mkdir()
        with pytest.raises(InputError, match=r"there are no images in .*nothing"):
            collection.add(tmp_path / "nothing")
        with pytest.raises(InputError, match="no files or folders are given"):
            collection.add([])
        with pytest.raises(InputError, match="there is no file or folder"):
            collection.add(tmp_path / "gone")
        assert len(collection) == 5
        assert collection.info().folders == [str(tmp_path / "photos")]

    @pytest.mark.parametrize("jobs", [0, -1])
    def test_a_wrong_number_of_workers_is_explained(self, collection, photos, monkeypatch, jobs):
        monkeypatch.undo()
        picture(photos / "new.png", 9)
        with pytest.raises(InputError, match="jobs is"):
            collection.add(photos, jobs=jobs)
        assert counts(collection.add(photos / "a.png", jobs=1)) == (0, 0, 1, 0)

    def test_work_is_spread_over_processes(self, collection, photos, tmp_path, monkeypatch):
        """The only test that does it."""
        expected = exported_vectors(collection, tmp_path)
        monkeypatch.undo()
        with Collection.create(tmp_path / "new.faemb", collection.model) as made:
            (photos / "broken.png").write_text("no image")
            report = made.add(photos, jobs=2)
            assert counts(report) == (5, 0, 0, 0)
            assert len(report.failed) == 1
            for name, vector in exported_vectors(made, tmp_path).items():
                np.testing.assert_allclose(vector, expected[name], atol=1e-6)

    def test_progress_is_told_by_stage(self, tmp_path, photos):
        calls: list[tuple[str, int, int]] = []
        with Collection.create(tmp_path / "new.faemb", new_tiny_model()) as made:
            made.add(photos, progress=lambda *call: calls.append(call))
        stages = list(dict.fromkeys(stage for stage, _, _ in calls))
        assert stages[0] == "features"
        assert {"anchors: k-means", "statistics"} <= set(stages[1:-1])
        assert stages[-1] == "encode"
        for stage in ("features", "encode"):
            steps = [(done, total) for name, done, total in calls if name == stage]
            assert steps[0] == (0, 5)
            assert steps[-1] == (5, 5)
            assert steps == sorted(steps)

    def test_a_run_that_is_continued_does_not_learn_again(self, tmp_path, photos):
        folder, told = tmp_path / "new.faemb", []

        def stop(stage: str, done: int, total: int) -> None:
            if stage == "encode":
                raise KeyboardInterrupt

        with Collection.create(folder, new_tiny_model()) as made, pytest.raises(KeyboardInterrupt):
            made.add(photos, progress=stop)
        learned = (folder / "model.faemb").read_bytes()
        with Collection.resume(folder, new_tiny_model()) as again:
            assert counts(again.add(photos, progress=lambda *call: told.append(call[0]))) == (0, 0, 5, 0)
            assert again.info().waiting == 0
        assert set(told) <= {"features", "preparing to encode", "encode"}
        assert (folder / "model.faemb").read_bytes() == learned

    def test_a_progress_that_fails_leaves_what_is_done(self, tmp_path, photos, model):
        def stop(stage: str, done: int, total: int) -> None:
            if stage == "encode":
                raise ZeroDivisionError

        with Collection.create(tmp_path / "new.faemb", model) as made:
            with pytest.raises(ZeroDivisionError):
                made.add(photos, progress=stop)
            assert made.info().waiting == 5
            assert made.search(photos / "a.png")[0].hits == []
            assert counts(made.add(photos)) == (0, 0, 5, 0)
            assert made.info().waiting == 0
            assert len(made.search(photos / "a.png")[0].hits) == 5
