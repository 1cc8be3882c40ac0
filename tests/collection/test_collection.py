"""Collections as a user sees them: what goes in, what is found, what is said. Crashes and damage are tested elsewhere.

Pictures are rendered, and nothing is spread over processes but where a test says so.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from threadpoolctl import threadpool_limits

from faemb.collection import Collection, Hit, Model, Report, encode_images, fit_model, new_model, queries, writing
from faemb.collection.catalogue import Catalogue
from faemb.embedding import VLAD
from faemb.encoder import Encoder
from faemb.errors import FaembError, FormatError, InputError
from faemb.features import HessianAffine, Image, LocalFeatures
from faemb.presets import preset
from faemb.projection import Projection
from pictures import blank, picture, pixels
from processes import one_after_the_other
from small_collections import new_tiny_model, tiny_model

NAMES = ["a.png", "b.png", "c.jpg", "trip/d.png", "trip/e.png"]
BLANK = "flat.png"


_REMEMBERED: dict[Any, LocalFeatures] = {}
_DESCRIBE = HessianAffine.describe


def remembered(extractor: HessianAffine, image: Image) -> LocalFeatures:
    """Features of pictures that many tests use are found once."""
    key = repr(extractor), image.pixels.shape, image.pixels.tobytes()
    if key not in _REMEMBERED:
        _REMEMBERED[key] = _DESCRIBE(extractor, image)
    return _REMEMBERED[key]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Threads of a library that wait for each other are slow where there is other work to do."""
    with threadpool_limits(1):
        yield


@pytest.fixture(autouse=True)
def serial(monkeypatch):
    monkeypatch.setattr(HessianAffine, "describe", remembered)
    monkeypatch.setattr(writing, "spread", one_after_the_other)
    monkeypatch.setattr(queries, "spread", one_after_the_other)


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny_model()


@pytest.fixture(scope="module")
def template(tmp_path_factory, model) -> Path:
    """Images and their collection, made once; all that is relative in them, so that they can be copied."""
    folder = tmp_path_factory.mktemp("template")
    for seed, name in enumerate(NAMES):
        picture(folder / "photos" / name, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "spread", one_after_the_other)
        with Collection.create(folder / "photos.faemb", model) as made:
            made.add(folder / "photos")
    return folder


@pytest.fixture
def photos(template, tmp_path) -> Path:
    """A folder with five images, for a collection that has them."""
    shutil.copytree(template / "photos", tmp_path / "photos")
    return tmp_path / "photos"


@pytest.fixture
def collection(template, photos) -> Iterator[Collection]:
    """A collection of `photos`."""
    shutil.copytree(template / "photos.faemb", photos.parent / "photos.faemb")
    with Collection.open(photos.parent / "photos.faemb") as opened:
        yield opened


@pytest.fixture
def empty(tmp_path, model) -> Iterator[Collection]:
    with Collection.create(tmp_path / "empty.faemb", model) as made:
        yield made


def counts(report: Report) -> tuple[int, int, int, int]:
    return report.added, report.changed, report.unchanged, report.removed


def names(found: Collection | list[Hit], root: Path) -> list[str]:
    """Of the images of a collection, or of hits, below a folder."""
    if isinstance(found, Collection):
        return sorted(os.path.relpath(found.layout.path_of(entry.path), root) for entry in found.entries())
    return [os.path.relpath(hit.path, root) for hit in found]


def assert_finds(hits: list[Hit], path: Path) -> None:
    """This image alone. Descriptors are kept in a byte each, so that an image is not quite what was kept of it."""
    assert [hit.path for hit in hits] == [path]
    assert hits[0].score == pytest.approx(1, abs=1e-3)


def vectors(collection: Collection, tmp_path: Path) -> dict[str, np.ndarray]:
    """Name to vector."""
    collection.export(tmp_path / "vectors.npz", "npz")
    with np.load(tmp_path / "vectors.npz") as held:
        return dict(zip(map(os.path.basename, held["paths"]), held["vectors"], strict=True))


def touch(path: Path) -> None:
    """The same content at another time."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 5_000_000_000))


# Made and opened


class TestCreation:
    def test_from_nothing_to_an_answer(self, photos, tmp_path):
        with Collection.create(tmp_path / "new.faemb", new_tiny_model()) as made:
            report = made.add(photos)
            (answer,) = made.search(photos / "b.png", top=2)
        assert counts(report) == (5, 0, 0, 0)
        assert answer.query == str(photos / "b.png")
        assert answer.features == 40
        assert_finds(answer.hits[:1], photos / "b.png")
        assert len(answer.hits) == 2

    def test_it_is_there_when_it_is_opened_again(self, collection, photos):
        with Collection.open(collection.layout.folder) as again:
            assert len(again) == 5
            assert again.search(photos / "a.png")[0] == collection.search(photos / "a.png")[0]

    def test_where_there_is_none_it_is_said_how_to_make_one(self, tmp_path):
        words = r"no collection at .*gone; make one with: faemb index IMAGES --out .*gone"
        for place in (tmp_path / "gone", str(tmp_path / "gone")):
            with pytest.raises(InputError, match=words):
                Collection.open(place)
        assert not (tmp_path / "gone").exists()

    def test_a_second_one_in_the_same_place_is_refused(self, collection, model):
        with pytest.raises(InputError, match=r"there is a collection at .* already; add to it with: faemb add"):
            Collection.create(collection.layout.folder, model)
        assert len(collection) == 5

    @pytest.mark.parametrize("name", ["tree", ""])
    def test_an_unknown_index_is_refused(self, tmp_path, model, name):
        with pytest.raises(InputError, match="expected one of auto, exact, hnsw, ivf-pq, binary"):
            Collection.create(tmp_path / "new.faemb", model, index=name)
        assert not (tmp_path / "new.faemb").exists()

    def test_settings_that_cannot_be_used_are_refused(self, tmp_path):
        with pytest.raises(InputError, match="max_features"):
            Collection.create(tmp_path / "new.faemb", new_model(HessianAffine(max_features=0)))
        assert not (tmp_path / "new.faemb").exists()

    def test_a_file_in_its_place_is_explained(self, tmp_path, model):
        (tmp_path / "file").write_text("precious")
        for place in (tmp_path / "file", tmp_path / "file" / "below"):
            with pytest.raises(FaembError, match="cannot be made"):
                Collection.create(place, model)
        assert (tmp_path / "file").read_text() == "precious"

    def test_it_may_lie_among_its_images(self, photos, model):
        with Collection.create(photos, model) as made:
            made.add(photos)
            assert names(made, photos) == NAMES
            (photos / "a.png").unlink()
            assert counts(made.update()) == (0, 0, 4, 1)
            assert made.remove(photos / "trip") == 2
            assert names(made, photos) == ["b.png", "c.jpg"]

    def test_it_moves_with_its_images(self, collection, photos, tmp_path):
        collection.close()
        (tmp_path / "elsewhere").mkdir()
        for part in (photos, collection.layout.folder):
            shutil.move(part, tmp_path / "elsewhere" / part.name)
        moved = tmp_path / "elsewhere" / "photos"
        with Collection.open(tmp_path / "elsewhere" / "photos.faemb") as opened:
            (answer,) = opened.search(moved / "c.jpg", top=1)
            assert_finds(answer.hits, moved / "c.jpg")
            assert counts(opened.update()) == (0, 0, 5, 0)

    def test_images_from_elsewhere_stay_where_they_are(self, photos, tmp_path, model):
        with Collection.create(tmp_path / "deep" / "down" / "far.faemb", model) as made:
            made.add(photos)
        shutil.move(tmp_path / "deep", tmp_path / "moved")
        with Collection.open(tmp_path / "moved" / "down" / "far.faemb") as opened:
            assert opened.search(photos / "a.png", top=1)[0].hits[0].path == photos / "a.png"
            assert counts(opened.update()) == (0, 0, 5, 0)

    def test_relative_paths_mean_the_current_folder(self, photos, monkeypatch, model):
        monkeypatch.chdir(photos.parent)
        with Collection.create("new.faemb", model) as made:
            made.add("photos")
            monkeypatch.chdir("/")
            assert_finds(made.search(photos / "a.png", top=1)[0].hits, photos / "a.png")


class TestResuming:
    def test_the_same_call_goes_on(self, collection, model, photos):
        for _ in range(2):
            with Collection.resume(collection.layout.folder, model) as again:
                assert counts(again.add(photos)) == (0, 0, 5, 0)

    def test_where_there_is_none_it_is_made(self, tmp_path, model, photos):
        with Collection.resume(tmp_path / "new.faemb", model, keep_features=False, index="exact") as made:
            assert counts(made.add(photos)) == (5, 0, 0, 0)
            assert made.info().index == "exact"

    def test_the_model_that_it_has_learned_is_not_in_the_way(self, tmp_path, photos):
        with Collection.resume(tmp_path / "new.faemb", new_tiny_model()) as made:
            made.add(photos)
        with Collection.resume(tmp_path / "new.faemb", new_tiny_model()) as again:
            assert counts(again.add(photos)) == (0, 0, 5, 0)

    @pytest.mark.parametrize(
        "other",
        [
            lambda: new_model(HessianAffine(max_features=40)),
            lambda: Model(HessianAffine(max_features=41), new_tiny_model().encoder),
            new_tiny_model,
        ],
        ids=["another encoder", "another extractor", "not fitted"],
    )
    def test_other_settings_are_refused(self, collection, other):
        words = r"was made with other settings; add images to it with: faemb add .* IMAGES, or give another name"
        with pytest.raises(InputError, match=words):
            Collection.resume(collection.layout.folder, other())
        assert len(collection) == 5

    @pytest.mark.parametrize("options", [{"keep_features": False}, {"index": "hnsw"}], ids=str)
    def test_other_options_are_refused(self, collection, model, options):
        with pytest.raises(InputError, match="was made with other settings"):
            Collection.resume(collection.layout.folder, model, **options)
        Collection.resume(collection.layout.folder, model, keep_features=True, index="auto").close()


class TestModels:
    def test_one_model_serves_two_collections(self, tmp_path, photos, model):
        model.save(tmp_path / "model")
        answers = []
        for name in ("one.faemb", "two.faemb"):
            with Collection.create(tmp_path / name, Model.load(tmp_path / "model")) as made:
                made.add(photos)
                answers.append(made.search(photos / "a.png"))
        assert answers[0] == answers[1]

    def test_another_model_is_refused(self, collection, photos):
        collection.close()
        extractor = new_tiny_model().extractor
        other = new_tiny_model().fit([extractor.extract(pixels(seed)).descriptors for seed in range(5)])
        other.save(collection.layout.model)
        with Collection.open(collection.layout.folder) as opened:
            for use in (lambda: opened.search(photos / "a.png"), lambda: opened.add(photos), opened.info):
                with pytest.raises(FormatError, match="is not the model that encoded this collection"):
                    use()

    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_a_model_is_learned_from_few_images(self, tmp_path, count):
        """A preset's encoder becomes as small as it must."""
        for seed in range(count):
            picture(tmp_path / "photos" / f"{seed}.png", seed, size=(320, 240))
        picture(tmp_path / "later.png", 77, size=(320, 240))
        small = Model(HessianAffine(max_features=300), preset("small", pooling="sum"), shrink=True)
        with Collection.create(tmp_path / "new.faemb", small) as made:
            made.add(tmp_path / "photos")
            made.add(tmp_path / "later.png")
            for seed in range(count):
                hits = made.search(tmp_path / "photos" / f"{seed}.png")[0].hits
                assert hits[0].path == tmp_path / "photos" / f"{seed}.png"
                assert len(hits) == count + 1

    def test_too_few_features_are_explained(self, tmp_path, photos):
        with Collection.create(tmp_path / "new.faemb", new_model(HessianAffine(max_features=4))) as made:
            with pytest.raises(InputError, match=r"1 images with 4 local features in all are too little to learn from"):
                made.add(photos / "a.png")
            with pytest.raises(InputError, match="holds no encoded images yet; run: faemb add"):
                made.search(photos / "a.png")
            assert made.info().waiting == 1

    def test_after_too_few_more_images_help(self, tmp_path, photos):
        plain = Encoder(VLAD(1), projection=Projection(8), pooling="sum")
        with Collection.create(tmp_path / "new.faemb", Model(HessianAffine(max_features=4), plain)) as made:
            with pytest.raises(InputError, match="4 training descriptors span 3 directions"):
                made.add(photos / "a.png")
            assert counts(made.add(photos)) == (4, 0, 1, 0)
            assert made.info().waiting == 0
            assert len(made.search(photos / "a.png")[0].hits) == 5

    def test_images_without_features_teach_nothing(self, tmp_path):
        with (
            Collection.create(tmp_path / "new.faemb", new_tiny_model()) as made,
            pytest.raises(InputError, match="none of the images has local features; a model cannot learn from them"),
        ):
            made.add(blank(tmp_path / BLANK))

    def test_what_is_learned_does_not_depend_on_the_order(self, tmp_path, photos):
        marks = []
        for name, order in (("one", NAMES), ("two", NAMES[::-1])):
            with Collection.create(tmp_path / f"{name}.faemb", new_tiny_model()) as made:
                made.add([photos / each for each in order])
                marks.append(made.model.fingerprint)
        assert marks[0] == marks[1]

    def test_a_model_without_a_collection(self, photos, tmp_path):
        (photos / "broken.png").touch()
        model, report = fit_model(photos, new_tiny_model())
        assert model.is_fitted
        assert counts(report) == (5, 0, 0, 0)
        assert len(report.failed) == 1
        with Collection.create(tmp_path / "new.faemb", new_tiny_model()) as made:
            made.add(photos)
            assert made.model.fingerprint == model.fingerprint

    def test_vectors_without_a_collection(self, collection, photos, tmp_path, model):
        blank(photos / BLANK)
        report = encode_images(photos, model, tmp_path / "out.npz")
        assert report.without_features == [str(photos / BLANK)]
        with np.load(tmp_path / "out.npz") as held:
            assert sorted(held["paths"]) == [str(photos / name) for name in NAMES]
            found = dict(zip(map(os.path.basename, held["paths"]), held["vectors"], strict=True))
        for name, vector in vectors(collection, tmp_path).items():
            np.testing.assert_allclose(found[name], vector, atol=1e-6)

    @pytest.mark.parametrize("place", ["gone/out.npz", "photos"])
    def test_a_place_where_nothing_can_be_written_is_told_first(self, photos, model, monkeypatch, place):
        monkeypatch.setattr(Collection, "add", None)
        with pytest.raises(InputError, match="cannot write"):
            encode_images(photos, model, photos.parent / place)


# What goes in


class TestAdding:
    def test_the_report_and_what_is_there(self, empty, photos):
        report = empty.add(photos)
        assert counts(report) == (5, 0, 0, 0)
        assert report.failed == report.without_features == []
        assert report.seconds > 0
        assert len(empty) == 5
        assert names(empty, photos) == NAMES
        info = empty.info()
        assert (info.images, info.searchable, info.waiting, info.without_features) == (5, 5, 0, 0)
        assert info.unreadable == {}
        assert info.folders == [str(photos)]
        assert (info.dimension, info.short) == (empty.model.width, empty.model.short_width)
        assert info.bits == 8 * empty.model.code_bytes
        assert info.bytes == sum(path.stat().st_size for path in empty.layout.folder.iterdir())

    @pytest.mark.parametrize("given", [str, Path, lambda path: [path], lambda path: (str(path),), lambda p: iter([p])])
    def test_images_may_be_given_in_any_way(self, empty, photos, given):
        assert empty.add(given(photos / "a.png")).added == 1
        assert empty.info().folders == []

    def test_files_and_folders_that_overlap_count_once(self, empty, photos):
        assert empty.add([photos / "trip", photos / "a.png", photos, photos / "trip" / "d.png"]).added == 5
        assert empty.info().folders == [str(photos), str(photos / "trip")]

    def test_what_is_known_is_not_opened_again(self, collection, photos, monkeypatch):
        monkeypatch.setattr(writing.Describe, "__call__", None)
        assert counts(collection.add(photos)) == (0, 0, 5, 0)

    def test_changed_content_is_encoded_again_under_the_same_id(self, collection, photos, tmp_path):
        before = {entry.path: entry for entry in collection.entries()}
        old = vectors(collection, tmp_path)
        picture(photos / "b.png", 50)
        touch(photos / "b.png")
        assert counts(collection.add(photos)) == (0, 1, 4, 0)
        after = {entry.path: entry for entry in collection.entries()}
        assert {path: entry.id for path, entry in before.items()} == {path: entry.id for path, entry in after.items()}
        changed = [path for path in before if before[path].hash != after[path].hash]
        assert changed == ["../photos/b.png"]
        new = vectors(collection, tmp_path)
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
        monkeypatch.setattr(writing.Describe, "__call__", None)
        assert counts(collection.add(photos)) == (0, 0, 5, 0)

    def test_one_image_under_two_names_is_two_images(self, collection, photos):
        shutil.copy(photos / "a.png", photos / "twin.png")
        assert counts(collection.add(photos)) == (1, 0, 5, 0)
        hits = collection.search(photos / "a.png", top=2)[0].hits
        assert names(hits, photos) == ["a.png", "twin.png"]
        assert hits[0].score == hits[1].score

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
        with pytest.raises(InputError, match="there are no images in nothing"):
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
        expected = vectors(collection, tmp_path)
        monkeypatch.undo()
        with Collection.create(tmp_path / "new.faemb", collection.model) as made:
            (photos / "broken.png").write_text("no image")
            report = made.add(photos, jobs=2)
            assert counts(report) == (5, 0, 0, 0)
            assert len(report.failed) == 1
            for name, vector in vectors(made, tmp_path).items():
                np.testing.assert_allclose(vector, expected[name], atol=1e-6)

    def test_progress_is_told_by_stage(self, tmp_path, photos):
        told: list[tuple[str, int, int]] = []
        with Collection.create(tmp_path / "new.faemb", new_tiny_model()) as made:
            made.add(photos, progress=lambda *call: told.append(call))
        stages = list(dict.fromkeys(stage for stage, _, _ in told))
        assert stages[0] == "features"
        assert {"anchors", "short vectors"} <= set(stages[1:-1])
        assert stages[-1] == "encode"
        for stage in ("features", "encode"):
            steps = [(done, total) for name, done, total in told if name == stage]
            assert steps[0] == (0, 5)
            assert steps[-1] == (5, 5)
            assert steps == sorted(steps)

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


class TestBrokenImages:
    def test_one_is_told_and_stops_no_other(self, empty, photos):
        (photos / "broken.png").write_text("no image")
        report = empty.add(photos)
        assert counts(report) == (5, 0, 0, 0)
        (sentence,) = report.failed
        assert str(photos / "broken.png") in sentence
        assert "\n" not in sentence
        info = empty.info()
        assert info.images == 5
        (reason,) = info.unreadable.values()
        assert reason in sentence

    def test_it_is_named_where_it_lies(self, empty, photos):
        (photos / "broken.png").write_text("no image")
        empty.add(photos)
        assert list(empty.info().unreadable) == [str(photos / "broken.png")]

    def test_it_is_tried_again_only_when_it_has_changed(self, empty, photos, monkeypatch):
        (photos / "broken.png").write_text("no image")
        empty.add(photos)
        describe = writing.Describe.__call__
        asked: list[str] = []
        monkeypatch.setattr(
            writing.Describe, "__call__", lambda self, file: asked.append(file.path.name) or describe(self, file)
        )
        for _ in range(2):
            report = empty.add(photos)
            assert counts(report) == (0, 0, 5, 0)
            assert len(report.failed) == 1
        assert asked == []
        (photos / "broken.png").write_text("still no image")
        assert len(empty.add(photos).failed) == 1
        assert asked == ["broken.png"]
        assert len(empty.info().unreadable) == 1

    def test_mended_it_is_an_image_like_any_other(self, empty, photos):
        (photos / "broken.png").write_text("no image")
        empty.add(photos)
        picture(photos / "broken.png", 30)
        report = empty.add(photos)
        assert counts(report) == (1, 0, 5, 0)
        assert report.failed == []
        assert empty.info().unreadable == {}
        assert_finds(empty.search(photos / "broken.png", top=1)[0].hits, photos / "broken.png")

    def test_an_image_that_breaks_is_taken_out(self, collection, photos):
        (photos / "a.png").write_text("no image")
        report = collection.add(photos)
        assert counts(report) == (0, 0, 4, 1)
        assert len(report.failed) == 1
        assert "a.png" not in names(collection, photos)
        assert "a.png" not in names(collection.search(photos / "b.png")[0].hits, photos)

    def test_a_folder_that_cannot_be_read_is_told(self, collection, photos, monkeypatch):
        scandir = os.scandir

        def guarded(path: Any) -> Any:
            if os.path.basename(path) == "trip":
                raise PermissionError(13, "Permission denied")
            return scandir(path)

        monkeypatch.setattr(os, "scandir", guarded)
        assert collection.add(photos).failed == [f"the folder {photos / 'trip'} cannot be read: Permission denied"]
        report = collection.update()
        assert report.failed == [f"the folder {photos / 'trip'} cannot be read: Permission denied"]
        assert report.removed == 0
        assert len(collection) == 5

    def test_an_unexpected_fault_is_told_of_the_image(self, collection, photos, monkeypatch):
        picture(photos / "new.png", 9)

        def fail(self: Any, file: Any) -> None:
            raise ZeroDivisionError("of all things")

        monkeypatch.setattr(writing.Describe, "__call__", fail)
        (sentence,) = collection.add(photos).failed
        assert str(photos / "new.png") in sentence
        assert "ZeroDivisionError" in sentence


class TestBlankImages:
    @pytest.fixture(autouse=True)
    def with_a_blank_one(self, collection, photos):
        self.report = collection.add(blank(photos / BLANK))

    def test_it_is_kept_and_told(self, collection, photos):
        assert counts(self.report) == (1, 0, 0, 0)
        assert self.report.without_features == [str(photos / BLANK)]
        info = collection.info()
        assert (info.images, info.searchable, info.without_features, info.waiting) == (6, 5, 1, 0)
        assert counts(collection.add(photos)) == (0, 0, 6, 0)

    def test_it_is_ranked_last(self, collection, photos):
        hits = collection.search(photos / "a.png")[0].hits
        assert len(hits) == 6
        assert hits[-1] == Hit(photos / BLANK, None)
        assert None not in [hit.score for hit in hits[:-1]]

    def test_it_takes_no_place_from_others(self, collection, photos):
        assert None not in [hit.score for hit in collection.search(photos / "a.png", top=5)[0].hits]
        assert [hit.score for hit in collection.search(photos / "a.png", top=6)[0].hits][-1] is None

    def test_it_is_not_similar_to_any_degree(self, collection, photos):
        assert BLANK not in names(collection.search(photos / "a.png", threshold=-1)[0].hits, photos)

    def test_it_finds_nothing(self, collection, photos):
        (answer,) = collection.search(photos / BLANK)
        assert (answer.features, answer.hits) == (0, [])

    def test_it_is_no_duplicate(self, collection, photos):
        blank(photos / "other.png")
        collection.add(photos)
        assert collection.duplicates(1.0) == []

    def test_many_of_them_come_in_order_of_their_adding(self, collection, photos):
        for number in range(4):
            collection.add(blank(photos / f"flat-{3 - number}.png"))
        last = names(collection.search(photos / "a.png", top=8)[0].hits, photos)[5:]
        assert last == [BLANK, "flat-3.png", "flat-2.png"]

    def test_it_can_be_removed_and_repainted(self, collection, photos):
        picture(photos / BLANK, 40)
        assert counts(collection.update()) == (0, 1, 5, 0)
        assert_finds(collection.search(photos / BLANK, top=1)[0].hits, photos / BLANK)
        assert collection.remove(photos / BLANK) == 1
        assert len(collection) == 5

    def test_only_blank_ones(self, empty, photos):
        empty.add(photos / BLANK)
        assert empty.search(photos / "a.png")[0].hits == [Hit(photos / BLANK, None)]
        assert empty.duplicates() == []
        assert empty.export(photos / "out.npz", "npz") == 0


class TestUpdating:
    def test_new_changed_and_vanished(self, collection, photos):
        picture(photos / "new.png", 20)
        picture(photos / "a.png", 21)
        touch(photos / "a.png")
        (photos / "trip" / "d.png").unlink()
        assert counts(collection.update()) == (1, 1, 3, 1)
        assert names(collection, photos) == ["a.png", "b.png", "c.jpg", "new.png", "trip/e.png"]
        assert counts(collection.update()) == (0, 0, 5, 0)

    def test_a_renamed_image(self, collection, photos):
        (photos / "a.png").rename(photos / "trip" / "z.png")
        assert counts(collection.update()) == (1, 0, 4, 1)
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
        assert counts(collection.update()) == (0, 0, 0, 5)
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
        assert names(collection, photos.parent) == ["photos-2/x.png"]


class TestRemoving:
    def test_an_image(self, collection, photos):
        assert collection.remove(photos / "a.png") == 1
        assert (photos / "a.png").is_file()
        assert len(collection) == 4
        hits = collection.search(photos / "a.png")[0].hits
        assert "a.png" not in names(hits, photos)
        assert len(hits) == 4

    def test_several_and_folders(self, collection, photos):
        assert collection.remove([photos / "trip", str(photos / "a.png"), photos / "trip" / "d.png"]) == 3
        assert names(collection, photos) == ["b.png", "c.jpg"]

    def test_what_is_not_there_is_refused_and_nothing_is_removed(self, collection, photos):
        with pytest.raises(InputError, match=r"gone.png is not in the collection .*photos\.faemb"):
            collection.remove([photos / "a.png", photos / "gone.png"])
        assert len(collection) == 5

    def test_a_removed_image_can_come_back(self, collection, photos):
        collection.remove(photos / "a.png")
        assert counts(collection.add(photos)) == (1, 0, 4, 0)
        assert_finds(collection.search(photos / "a.png", top=1)[0].hits, photos / "a.png")

    def test_a_removed_folder_is_not_looked_at_again(self, collection, photos):
        collection.remove(photos)
        assert collection.info().folders == []
        assert counts(collection.update()) == (0, 0, 0, 0)

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
    before = {hit.path: hit.score for hit in empty.search(kept, top=40)[0].hits}
    files = {path.name for path in empty.layout.folder.iterdir()}
    assert {"vectors-1.f32", "hnsw-1-30.faiss"} <= files
    empty.remove([tmp_path / "photos" / f"{number:02}.png" for number in range(25)])
    files = {path.name for path in empty.layout.folder.iterdir()}
    assert {"vectors-2.f32", "short-2.f32", "codes-2.u8", "features-2.bin"} <= files
    assert not [name for name in files if "-1" in name]
    for index in ("exact", "hnsw", "ivf-pq", "binary"):
        hits = empty.search(kept, top=40, index=index)[0].hits
        assert len(hits) == 5
        for hit in hits:
            assert hit.score == pytest.approx(before[hit.path], abs=1.1e-5)
    np.testing.assert_array_equal(empty.features(kept).descriptors, features.descriptors)
    assert empty.check() == []


# What is found


class TestSearching:
    def test_each_image_finds_itself(self, collection, photos):
        answers = collection.search([photos / name for name in NAMES], top=1)
        assert [answer.query for answer in answers] == [str(photos / name) for name in NAMES]
        assert [names(answer.hits, photos) for answer in answers] == [[name] for name in NAMES]

    def test_scores_are_products_of_vectors_in_falling_order(self, collection, photos, tmp_path):
        held = vectors(collection, tmp_path)
        hits = collection.search(photos / "a.png")[0].hits
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        for hit in hits[1:]:
            assert hit.score == pytest.approx(float(held[hit.path.name] @ held["a.png"]), abs=2e-3)

    def test_an_edited_image_finds_its_original(self, collection, photos, tmp_path):
        with PIL.Image.open(photos / "b.png") as image:
            image.crop((5, 5, 115, 85)).save(tmp_path / "query.jpg", quality=60)
        assert collection.search(tmp_path / "query.jpg")[0].hits[0].path == photos / "b.png"

    @pytest.mark.parametrize("given", [str, Path, lambda path: pixels(0)])
    def test_a_query_may_be_given_in_any_way(self, collection, photos, given):
        (answer,) = collection.search(given(photos / "a.png"), top=1)
        assert_finds(answer.hits, photos / "a.png")
        assert answer.query in (str(photos / "a.png"), "the array")

    def test_so_many_results_as_asked_for(self, collection, photos):
        for top in (1, 2, 5):
            assert len(collection.search(photos / "a.png", top=top)[0].hits) == top
        assert len(collection.search(photos / "a.png", top=1000)[0].hits) == 5

    @pytest.mark.parametrize("top", [0, -1, True])
    def test_a_wrong_number_of_results_is_refused(self, collection, photos, top):
        with pytest.raises(InputError, match="top is"):
            collection.search(photos / "a.png", top=top)

    def test_a_threshold(self, collection, photos):
        every = collection.search(photos / "a.png")[0].hits
        middle = every[2].score
        assert collection.search(photos / "a.png", threshold=middle)[0].hits == every[:3]
        assert collection.search(photos / "a.png", threshold=0.99)[0].hits == every[:1]
        assert collection.search(photos / "a.png", threshold=-1)[0].hits == every

    @pytest.mark.parametrize("threshold", [1.01, -1.01, float("nan")])
    def test_a_wrong_threshold_is_refused(self, collection, photos, threshold):
        with pytest.raises(InputError, match="threshold is"):
            collection.search(photos / "a.png", threshold=threshold)

    def test_an_empty_collection_has_no_answers(self, empty, photos):
        (answer,) = empty.search(photos / "a.png")
        assert (answer.features, answer.hits) == (40, [])
        assert empty.search([]) == []
        assert empty.duplicates() == []

    def test_one_without_a_model_says_what_to_do(self, tmp_path, photos):
        with Collection.create(tmp_path / "new.faemb", new_tiny_model()) as made:
            uses = [
                lambda: made.search(photos / "a.png"),
                made.duplicates,
                lambda: made.export(tmp_path / "out.npz", "npz"),
            ]
            for use in uses:
                with pytest.raises(InputError, match=r"holds no encoded images yet; run: faemb add .* IMAGES"):
                    use()
            info = made.info()
            assert (info.images, info.dimension, info.bits) == (0, 0, 0)
            assert made.check() == []

    def test_what_is_no_image_is_explained(self, collection, photos, tmp_path):
        (tmp_path / "text.png").write_text("no image")
        with pytest.raises(InputError, match=r"text\.png"):
            collection.search([photos / "a.png", tmp_path / "text.png"])
        with pytest.raises(InputError, match=r"gone\.png"):
            collection.search(tmp_path / "gone.png")
        for wrong in (5, None, {"a": 1}):
            with pytest.raises(InputError, match="expected a path, a NumPy array or an Image"):
                collection.search(wrong)

    def test_many_queries_of_which_some_cannot_be_read(self, collection, photos, tmp_path):
        asked = [tmp_path / "gone.png", photos / "a.png", tmp_path, photos / "b.png"]
        answers, faults = collection.search_many(asked, top=1)
        assert [answer.query for answer in answers] == [str(photos / "a.png"), str(photos / "b.png")]
        assert [names(answer.hits, photos) for answer in answers] == [["a.png"], ["b.png"]]
        assert len(faults) == 2
        assert str(asked[0]) in faults[0]
        assert str(asked[2]) in faults[1]

    def test_more_queries_than_are_done_here_keep_their_order(self, collection, photos, monkeypatch):
        def backwards(task: Any, items: Any, *, jobs: int | None = None) -> Iterator[Any]:
            return reversed(list(one_after_the_other(task, items)))

        monkeypatch.setattr(queries, "spread", backwards)
        asked = [photos / name for name in NAMES] * 3
        answers, faults = collection.search_many([*asked, photos / "gone.png"], top=1)
        assert [answer.hits[0].path for answer in answers] == asked
        assert len(faults) == 1

    def test_more_queries_than_are_encoded_at_once(self, collection, photos, monkeypatch):
        asked = [photos / name for name in NAMES] * 2
        expected = collection.search(asked)
        monkeypatch.setattr("faemb.collection.collection.BATCH", 3)
        for answer, other in zip(collection.search(asked), expected, strict=True):
            assert [hit.path for hit in answer.hits] == [hit.path for hit in other.hits]

    def test_kept_features_are_as_good_as_the_image(self, collection, photos):
        kept = collection.features(photos / "a.png")
        assert isinstance(kept, LocalFeatures)
        assert (len(kept), kept.image_size) == (40, (120, 90))
        (answer,) = collection.search_features([kept], names=["kept"], top=1)
        assert (answer.query, answer.features) == ("kept", 40)
        assert answer.hits == [Hit(photos / "a.png", 1.0)]
        assert collection.search_features([kept])[0].query == ""
        fresh = HessianAffine(max_features=40).extract(photos / "a.png")
        np.testing.assert_allclose(kept.descriptors, fresh.descriptors, atol=2e-3)
        np.testing.assert_array_equal(kept.frames, fresh.frames)

    def test_features_of_another_length_are_refused(self, collection):
        with pytest.raises(InputError, match="7"):
            collection.search_features([LocalFeatures.none(7, (9, 9))])

    def test_features_of_an_unknown_image_are_refused(self, collection, tmp_path):
        with pytest.raises(InputError, match=r"gone\.png is not in the collection"):
            collection.features(tmp_path / "gone.png")

    def test_a_change_is_seen_at_once_by_one_who_has_searched_before(self, collection, photos):
        with Collection.open(collection.layout.folder) as reader:
            assert len(reader.search(photos / "a.png")[0].hits) == 5
            collection.remove(photos / "trip")
            assert len(reader.search(photos / "a.png")[0].hits) == 3
            picture(photos / "new.png", 33)
            collection.add(photos / "new.png")
            assert_finds(reader.search(photos / "new.png", top=1)[0].hits, photos / "new.png")

    def test_nothing_is_read_again_while_nothing_changes(self, collection, photos):
        first = collection.view()
        collection.search(photos / "a.png")
        assert collection.view() is first
        collection.remove(photos / "a.png")
        assert collection.view() is not first


class TestBoxes:
    def test_only_what_lies_inside_counts(self, collection, photos):
        whole, part = (collection.search(photos / "a.png", box=box)[0] for box in (None, (0, 0, 70, 89)))
        assert 0 < part.features < whole.features
        assert part.hits[0].path == photos / "a.png"
        assert part.hits[0].score < 1
        assert collection.search(photos / "a.png", box=(-50, -50, 500, 500))[0] == whole

    def test_a_box_that_shows_nothing_finds_nothing(self, collection, photos):
        (answer,) = collection.search(photos / "a.png", box=(0, 0, 1, 1))
        assert (answer.features, answer.hits) == (0, [])

    @pytest.mark.parametrize(
        ("box", "words"),
        [
            ((500, 0, 600, 50), "lies outside the image, which is 120 x 90 pixels"),
            ((50, 50, 50, 90), "is empty"),
            ((90, 50, 50, 90), "is empty"),
            ((0, 0, 10), "expected four finite numbers"),
            ((0, 0, 10, float("inf")), "expected four finite numbers"),
        ],
        ids=["outside", "empty", "turned", "three", "endless"],
    )
    def test_a_wrong_box_is_explained(self, collection, photos, box, words):
        with pytest.raises(InputError, match=words):
            collection.search(photos / "a.png", box=box)

    def test_a_box_that_one_query_does_not_have_is_told_of_that_one(self, collection, photos, tmp_path):
        small = picture(tmp_path / "small.png", 3, size=(64, 48))
        answers, faults = collection.search_many([small, photos / "a.png"], box=(70, 10, 119, 80))
        assert [answer.query for answer in answers] == [str(photos / "a.png")]
        (sentence,) = faults
        assert str(small) in sentence


@pytest.mark.parametrize("kind", ["exact", "hnsw", "ivf-pq", "binary"])
class TestIndexes:
    @pytest.fixture(autouse=True)
    def library(self):
        pytest.importorskip("faiss")

    def test_all_give_the_same_answer_in_a_small_collection(self, collection, photos, kind):
        expected = collection.search(photos / "a.png")[0].hits
        assert collection.search(photos / "a.png", index=kind)[0].hits == expected

    def test_one_is_chosen_when_the_collection_is_made(self, tmp_path, photos, model, kind):
        with Collection.create(tmp_path / "new.faemb", model, index=kind) as made:
            made.add(photos)
            assert made.info().index == kind
            assert len(made.search(photos / "a.png")[0].hits) == 5
            assert len(list(made.layout.folder.glob(f"{kind}-1-5.faiss"))) == (kind != "exact")

    def test_it_follows_every_change(self, collection, photos, kind):
        """Also of the last images, whose slots were known to the index."""
        assert len(collection.search(photos / "a.png", index=kind)[0].hits) == 5
        collection.remove(photos / "trip")
        picture(photos / "new.png", 44)
        picture(photos / "c.jpg", 45)
        touch(photos / "c.jpg")
        collection.add(photos)
        for name in ("new.png", "c.jpg", "trip/e.png"):
            hits = collection.search(photos / name, top=5, index=kind)[0].hits
            assert hits == collection.search(photos / name, top=5, index="exact")[0].hits
            assert hits[0].path == photos / name

    def test_a_collection_of_one_image(self, empty, photos, kind):
        empty.add(photos / "a.png")
        assert_finds(empty.search(photos / "a.png", index=kind)[0].hits, photos / "a.png")

    def test_an_empty_collection(self, empty, photos, kind):
        assert empty.search(photos / "a.png", index=kind)[0].hits == []


def test_an_unknown_index_is_explained(collection, photos):
    with pytest.raises(InputError, match="index is 'tree'"):
        collection.search(photos / "a.png", index="tree")
    with pytest.raises(InputError, match="index is 'tree'"):
        collection.duplicates(index="tree")


def test_a_collection_without_codes_has_no_binary_index(tmp_path, photos):
    """Its model has learned from too little for them."""
    extractor = HessianAffine(max_features=40)
    few = new_tiny_model().fit([extractor.extract(photos / name).descriptors for name in NAMES])
    few.code = None
    with Collection.create(tmp_path / "new.faemb", few) as made:
        made.add(photos)
        assert made.info().bits == 0
        assert_finds(made.search(photos / "a.png", top=1)[0].hits, photos / "a.png")
        with pytest.raises(InputError, match="no binary codes"):
            made.search(photos / "a.png", index="binary")
        assert made.remove(photos / "trip") == 2
        assert made.check() == []


class TestWithoutKeptFeatures:
    @pytest.fixture
    def lean(self, tmp_path, model, photos) -> Iterator[Collection]:
        with Collection.create(tmp_path / "lean.faemb", model, keep_features=False) as made:
            made.add(photos)
            yield made

    def test_it_is_searched_like_any_other(self, lean, collection, photos):
        assert lean.search(photos / "a.png") == collection.search(photos / "a.png")
        assert lean.duplicates(0.9) == []

    def test_features_are_gone_and_it_is_said(self, lean, photos):
        with pytest.raises(InputError, match=r"a\.png are not kept in this collection"):
            lean.features(photos / "a.png")
        assert all(entry.offset is None for entry in lean.entries())

    def test_it_can_be_changed_like_any_other(self, lean, photos):
        picture(photos / "new.png", 51)
        picture(photos / "a.png", 52)
        touch(photos / "a.png")
        (photos / "b.png").unlink()
        assert counts(lean.update()) == (1, 1, 3, 1)
        for name in ("a.png", "new.png"):
            assert_finds(lean.search(photos / name, top=1)[0].hits, photos / name)
        assert lean.check() == []

    def test_it_learns_its_model_first(self, tmp_path, photos):
        with Collection.create(tmp_path / "new.faemb", new_tiny_model(), keep_features=False) as made:
            made.add(photos)
            assert len(made.search(photos / "a.png")[0].hits) == 5
            assert all(entry.offset is None for entry in made.entries())


# Looked at


def test_a_whole_collection_has_no_faults(collection):
    assert collection.check() == []
    assert collection.check(repair=True) == []


def test_a_damaged_vector_is_found_and_mended(collection, photos):
    expected = collection.search(photos / "a.png")
    path = collection.layout.vectors(1)
    content = bytearray(path.read_bytes())
    content[0] ^= 0xFF
    path.write_bytes(content)
    with Collection.open(collection.layout.folder) as opened:
        (sentence,) = opened.check()
        assert "a.png" in sentence
        assert "vector is damaged" in sentence
        assert len(opened.check(repair=True)) == 1
        assert opened.check() == []
        assert [hit.path for hit in opened.search(photos / "a.png")[0].hits] == [hit.path for hit in expected[0].hits]


def test_a_newer_format_is_refused(collection):
    collection.close()
    catalogue = Catalogue(collection.layout.catalogue)
    catalogue.say("version", "99")
    catalogue.close()
    with pytest.raises(FormatError, match="format version 99; this faemb reads up to 1: pip install --upgrade faemb"):
        Collection.open(collection.layout.folder)
