"""Collections of files of local features: learned, searched and updated as those of images."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from faemb.collection import Collection, encode_images, fit_model, images_in, new_model
from faemb.errors import InputError
from faemb.features import FeatureFiles
from faemb.features.feature_files import FEATURES
from faemb.features.files import write_fvecs
from faemb.features.folders import IMAGES
from faemb.pages.contact_sheet import answers_page
from pictures import picture
from small_collections import counts, make_features, names_below, tiny_model


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Six files of features."""
    for number in range(6):
        make_features(tmp_path / "features" / f"{number}.jpg.npz", number)
    return tmp_path / "features"


@pytest.fixture
def files(stored: Path, tmp_path: Path) -> Iterator[Collection]:
    with Collection.create(tmp_path / "f.faemb", new_model(FeatureFiles.of(stored.iterdir()))) as made:
        made.add(stored)
        yield made


def test_each_file_finds_itself(files: Collection, stored: Path) -> None:
    for path in stored.iterdir():
        (answer,) = files.search(path, top=1)
        assert [(hit.path, hit.similarity) for hit in answer.hits] == [(path, 1)]


def test_descriptors_without_geometry_are_judged_by_vectors_which_is_said(tmp_path: Path) -> None:
    (tmp_path / "flat").mkdir()
    for number in range(6):
        descriptors = np.random.default_rng(number % 5).random((40, 16)).astype(np.float32)  # the last is the first
        write_fvecs(tmp_path / "flat" / f"{number}.fvecs", descriptors)
    with Collection.create(tmp_path / "f.faemb", new_model(FeatureFiles(16))) as made:
        made.add(tmp_path / "flat")
        (answer,) = made.search(tmp_path / "flat" / "1.fvecs")
        groups = made.duplicates()
    assert all(hit.verification is None and hit.confidence is not None for hit in answer.hits)
    assert answer.note == (
        "descriptors without geometry cannot be compared: the confidence of 6 candidates is that of the vectors alone"
    )
    assert [group.kind for group in groups] == ["similar"]
    assert groups.note == (
        "descriptors without geometry cannot be compared: their images are joined by similarity alone"
    )


def test_update_follows_the_files_and_takes_no_image(files: Collection, stored: Path) -> None:
    make_features(stored / "new.npz", 9)
    make_features(stored / "1.jpg.npz", 10)
    (stored / "2.jpg.npz").unlink()
    picture(stored / "a.png")
    assert counts(files.update()) == (1, 1, 4, 1)
    assert "new.npz" in names_below(files, stored)


def test_a_file_of_another_length_is_reported_and_the_rest_added(files: Collection, stored: Path) -> None:
    make_features(stored / "short.npz", 9, dimension=8)
    make_features(stored / "new.npz", 10)
    report = files.update()
    assert counts(report) == (1, 0, 6, 0)
    assert [sentence.partition("short.npz ")[2] for sentence in report.failed] == [
        "holds descriptors of length 8, and this model takes 16; give files of one kind of features"
    ]


def test_images_do_not_join_features_nor_features_images(
    files: Collection, collection: Collection, stored: Path, photos: Path
) -> None:
    either = "a model takes either images or features"
    for place in (photos, photos / "a.png"):
        with pytest.raises(InputError, match=f"^{place} is given where local features .* are expected; {either}"):
            files.add(place)
    for place in (stored, stored / "1.jpg.npz"):
        with pytest.raises(InputError, match=f"^{place} holds local features where images are expected; {either}"):
            collection.add(place)
    with pytest.raises(InputError, match=either):
        collection.add(images_in(stored))


def test_kinds_of_places_are_recognised(stored: Path, photos: Path) -> None:
    (photos / "vectors.npz").touch()  # beside images it is any other file
    assert images_in(photos).kind is IMAGES
    assert images_in(stored).kind is FEATURES
    assert images_in([stored, stored / "1.jpg.npz"]).kind is FEATURES
    with pytest.raises(InputError, match="holds local features where images are expected"):
        images_in([photos, stored])
    with pytest.raises(
        InputError, match=r"1\.jpg\.npz holds local features and .*a\.png does not; give images or feat"
    ):
        images_in([photos / "a.png", stored / "1.jpg.npz"])


def test_a_model_is_learned_from_files_and_encodes_them(stored: Path, tmp_path: Path) -> None:
    model, report = fit_model(stored, new_model(FeatureFiles.of(stored.iterdir())))
    assert (model.is_fitted, report.added) == (True, 6)
    assert encode_images(stored, model, tmp_path / "vectors.npz").added == 6
    with pytest.raises(InputError, match="a model takes either images or features"):
        encode_images(stored, tiny_model(), tmp_path / "vectors.npz")


def test_a_page_shows_the_image_beside_a_file_or_its_name(files: Collection, stored: Path) -> None:
    picture(stored / "1.jpg")
    page = answers_page(files.search(stored / "1.jpg.npz", top=6), title="Features")
    assert page.count("data:image/jpeg") == 1
    assert "2.jpg.npz" in page
    assert "holds local features, and no image is beside it" in page


@pytest.mark.parametrize(("dimension", "count"), [(8, 40), (12, 300), (16, 300)])
def test_short_descriptors_can_be_learned_from(tmp_path: Path, dimension: int, count: int) -> None:
    """Presets expect SIFT, whose descriptors have 128 dimensions."""
    for number in range(4):
        make_features(tmp_path / f"{number}.npz", number, dimension=dimension, count=count)
    model, _ = fit_model(tmp_path, new_model(FeatureFiles(dimension)))
    assert model.is_fitted


def test_descriptors_that_are_too_short_are_explained(tmp_path: Path) -> None:
    make_features(tmp_path / "a.npz", 0, dimension=4)
    with pytest.raises(InputError, match="descriptors have 4 dimensions; expected 8 or more"):
        fit_model(tmp_path, new_model(FeatureFiles(4)))
