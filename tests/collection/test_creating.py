"""Collections that are made, opened, moved and gone on with."""

import os
import re
import shutil
from collections.abc import Iterator

import pytest

from faemb.collection import Collection, Model, new_model
from faemb.collection.catalogue import Catalogue
from faemb.errors import FaembError, FormatError, InputError
from faemb.features import HessianAffine
from faemb.features.folders import SUFFIXES
from pictures import picture
from small_collections import assert_finds, counts, new_tiny_model, touch


def stopped(*_: object) -> None:
    raise KeyboardInterrupt


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
        with pytest.raises(InputError, match="expected one of auto, exact, rabitq, hnsw, ivf-pq, binary"):
            Collection.create(tmp_path / "new.faemb", model, index=name)
        assert not (tmp_path / "new.faemb").exists()

    def test_settings_that_cannot_be_used_are_refused(self, tmp_path):
        with pytest.raises(InputError, match="max_features"):
            Collection.create(tmp_path / "new.faemb", new_model(HessianAffine(max_features=0)))
        assert not (tmp_path / "new.faemb").exists()

    def test_a_file_in_its_place_is_explained(self, tmp_path, model):
        (tmp_path / "file").write_text("precious")
        for place in (tmp_path / "file", tmp_path / "file" / "below"):
            with pytest.raises(FaembError, match="file is a file, where a folder is expected; give another name"):
                Collection.create(place, model)
        assert (tmp_path / "file").read_text() == "precious"

    def test_a_folder_with_other_files_is_refused_and_left_alone(self, photos, model):
        words = (
            r"photos holds files that do not belong to a collection: a\.png, b\.png, c\.jpg, \.\.\.; give a new folder"
        )
        with pytest.raises(InputError, match=words):
            Collection.create(photos, model)
        assert sorted(os.listdir(photos)) == ["a.png", "b.png", "c.jpg", "trip"]

    def test_a_model_of_the_user_is_not_overwritten(self, tmp_path, model):
        theirs = tmp_path / "mine" / "model.faemb"
        theirs.parent.mkdir()
        for content in (lambda: new_tiny_model().save(theirs), lambda: theirs.write_text("precious")):
            content()
            before = theirs.read_bytes()
            with pytest.raises(InputError, match=r"holds files that do not belong to a collection: model\.faemb"):
                Collection.create(theirs.parent, model)
            assert theirs.read_bytes() == before

    def test_hidden_files_are_not_in_the_way(self, tmp_path, model):
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / ".DS_Store").touch()
        Collection.create(tmp_path / "new", model).close()

    def test_a_creation_that_was_stopped_before_its_end_goes_on(self, tmp_path, model, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(Catalogue, "create", stopped)
            with pytest.raises(KeyboardInterrupt):
                Collection.create(tmp_path / "new", model)
        assert (tmp_path / "new" / "model.faemb").is_file()
        Collection.create(tmp_path / "new", model).close()

    def test_it_does_not_lie_in_another_collection(self, collection, model):
        with pytest.raises(InputError, match="collection"):
            Collection.create(collection.layout.folder / "new", model)

    def test_it_may_lie_among_its_images(self, photos, model):
        """Its own folder is not searched."""
        with Collection.create(photos / "below" / "new", model) as made:
            made.add(photos)
            for file in (photos / "below" / "new").iterdir():
                assert file.suffix not in SUFFIXES
            picture(photos / "below" / "new" / "z.png", 9)
            assert counts(made.update()) == (0, 0, 5, 0)

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


class TestWithoutKeptFeatures:
    @pytest.fixture
    def lean(self, tmp_path, model, photos) -> Iterator[Collection]:
        with Collection.create(tmp_path / "lean.faemb", model, keep_features=False) as made:
            made.add(photos)
            yield made

    def test_it_is_searched_like_any_other(self, lean, collection, photos):
        assert lean.search(photos / "a.png", verify=0) == collection.search(photos / "a.png", verify=0)

    def test_its_confidence_is_that_of_the_vectors_and_it_is_said(self, lean, photos):
        (answer,) = lean.search(photos / "a.png")
        assert all(hit.confidence is not None and hit.verification is None for hit in answer.hits)
        assert re.search(r"local features of \d of them are not kept; index the images into a new", answer.note)

    def test_it_has_duplicates_like_any_other(self, lean):
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


def test_a_newer_format_is_refused(collection):
    collection.close()
    catalogue = Catalogue(collection.layout.catalogue)
    catalogue.set("version", "99")
    catalogue.close()
    with pytest.raises(FormatError, match="format version 99; this faemb reads up to 5: pip install --upgrade faemb"):
        Collection.open(collection.layout.folder)
