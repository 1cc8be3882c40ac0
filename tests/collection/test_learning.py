"""What a collection learns from its images, from how few; and models that are used without one."""

import os
import sys

import numpy as np
import pytest

from faemb.collection import Collection, Model, encode_images, fit_model, gathering, new_model
from faemb.collection.thumbnails import make_thumbnail
from faemb.embedding import VLAD
from faemb.encoder import Encoder
from faemb.errors import FormatError, InputError, MissingExtraError
from faemb.features import HessianAffine
from faemb.presets import preset
from faemb.projection import Projection
from pictures import blank, picture, pixels
from recording import recording
from small_collections import NAMES, counts, exported_vectors, new_tiny_model

BLANK = "flat.png"


class TestModels:
    def test_one_model_serves_two_collections(self, tmp_path, photos, model):
        model.save(tmp_path / "model")
        answers = []
        for name in ("one.faemb", "two.faemb"):
            with Collection.create(tmp_path / name, Model.load(tmp_path / "model")) as made:
                made.add(photos)
                answers.append(made.search(photos / "a.png"))
        assert answers[0] == answers[1]

    def test_a_device_that_needs_pytorch(self, collection, photos, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch", None)
        with Collection.open(collection.layout.folder, device="cuda") as opened:
            with pytest.raises(MissingExtraError, match="device='cuda' needs the extra 'torch'"):
                opened.search(photos / "a.png")
            assert len(opened) == 5

    def test_another_device_gives_the_same_answers(self, tmp_path, collection, photos, model):
        pytest.importorskip("torch")
        expected = collection.search(photos / "a.png")[0].hits
        with Collection.create(tmp_path / "new.faemb", model, device="torch:cpu") as made:
            made.add(photos)
            hits = made.search(photos / "a.png")[0].hits
        assert [hit.path for hit in hits] == [hit.path for hit in expected]
        assert [hit.similarity for hit in hits] == pytest.approx([hit.similarity for hit in expected], abs=1e-4)

    def test_another_model_is_refused(self, collection, photos):
        collection.close()
        extractor = new_tiny_model().extractor
        other = new_tiny_model().fit([extractor.extract(pixels(seed)).descriptors for seed in range(5)])
        other.save(collection.layout.model())
        with Collection.open(collection.layout.folder) as opened:
            assert "is not the model that encoded this collection" in (opened.info().model_fault or "")
            for use in (lambda: opened.search(photos / "a.png"), lambda: opened.add(photos)):
                with pytest.raises(FormatError, match="is not the model that encoded this collection"):
                    use()

    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_a_model_is_learned_from_few_images(self, tmp_path, count):
        """A preset's encoder becomes smaller."""
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
            with pytest.raises(InputError, match=r"1 images with 4 local features in all are too few to learn from"):
                made.add(photos / "a.png")
            with pytest.raises(InputError, match=r"no encoded images yet; run: faemb update .*, or with more images:"):
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

    def test_neither_makes_thumbnails(self, photos, tmp_path, model, monkeypatch):
        made: list[object] = []
        monkeypatch.setattr(gathering, "make_thumbnail", recording(made.append, make_thumbnail))
        fit_model(photos, new_tiny_model())
        encode_images(photos, model, tmp_path / "out.npz")
        assert made == []

    def test_vectors_without_a_collection(self, collection, photos, tmp_path, model):
        blank(photos / BLANK)
        report = encode_images(photos, model, tmp_path / "out.npz")
        assert report.without_features == [str(photos / BLANK)]
        with np.load(tmp_path / "out.npz") as held:
            assert sorted(held["paths"]) == [str(photos / name) for name in NAMES]
            found = dict(zip(map(os.path.basename, held["paths"]), held["vectors"], strict=True))
        for name, vector in exported_vectors(collection, tmp_path).items():
            np.testing.assert_allclose(found[name], vector, atol=1e-6)

    @pytest.mark.parametrize("place", ["gone/out.npz", "photos"])
    def test_a_place_where_nothing_can_be_written_is_told_first(self, photos, model, monkeypatch, place):
        monkeypatch.setattr(Collection, "add", None)
        with pytest.raises(InputError, match="cannot write"):
            encode_images(photos, model, photos.parent / place)
