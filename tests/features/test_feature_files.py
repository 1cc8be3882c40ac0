"""Files of local features in place of images: what is read, and what is refused in one sentence."""

from pathlib import Path

import numpy as np
import pytest

from faemb import persistence
from faemb.errors import InputError
from faemb.features import FeatureFiles, HessianAffine, LocalFeatures, root_sift
from faemb.features.feature_files import FEATURES, features_of_query, kind_of, picture_of
from faemb.features.files import FORMATS, write_fvecs, write_npz
from faemb.features.folders import IMAGES
from faemb.features.local_features import without_geometry
from pictures import picture, pixels


def features(seed: int = 0, count: int = 20, dimension: int = 16, fingerprint: str = "") -> LocalFeatures:
    rng = np.random.default_rng(seed)
    descriptors = rng.random((count, dimension), dtype=np.float32)
    scores = rng.random(count, dtype=np.float32)
    return LocalFeatures(descriptors, without_geometry(count), scores, (100, 80), fingerprint)


def stored(path: Path, seed: int = 0, **changes) -> Path:
    write_npz(path, features(seed, **changes))
    return path


def test_what_is_in_the_file_is_what_is_extracted(tmp_path: Path) -> None:
    path = stored(tmp_path / "a.npz")
    extractor = FeatureFiles.of([path])
    found = extractor.extract(path)
    np.testing.assert_array_equal(found.descriptors, features().descriptors)
    assert (found.image_size, found.fingerprint) == ((100, 80), extractor.fingerprint)
    assert repr(extractor) == "FeatureFiles(dimension=16)"


def test_the_first_file_with_features_shows_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "bad.npz").write_text("no features")
    files = [tmp_path / "bad.npz", stored(tmp_path / "none.npz", count=0), stored(tmp_path / "a.npz", fingerprint="ab")]
    made = FeatureFiles.of(files, max_features=3, root=True)
    assert (made.dimension, made.origin, made.max_features, made.root) == (16, "ab", 3, True)
    with pytest.raises(InputError, match=r"none of the files holds local features; .*bad\.npz is damaged"):
        FeatureFiles.of(files[:2])


def test_the_strongest_are_kept(tmp_path: Path) -> None:
    path = stored(tmp_path / "a.npz")
    found = FeatureFiles(16, max_features=5).extract(path)
    np.testing.assert_array_equal(found.scores, -np.sort(-features().scores)[:5])


def test_sift_becomes_root_sift(tmp_path: Path) -> None:
    found = FeatureFiles(16, root=True).extract(stored(tmp_path / "a.npz"))
    np.testing.assert_array_equal(found.descriptors, root_sift(features().descriptors))


def test_a_model_file_keeps_it(tmp_path: Path) -> None:
    made = FeatureFiles(16, origin="ab", max_features=3, root=True)
    persistence.save(made, tmp_path / "extractor.faemb")
    assert persistence.load(tmp_path / "extractor.faemb").settings() == made.settings()


def test_another_length_and_another_origin_are_refused(tmp_path: Path) -> None:
    extractor = FeatureFiles(16)
    write_fvecs(tmp_path / "b.fvecs", features(dimension=8).descriptors)
    with pytest.raises(InputError, match=r"b\.fvecs holds descriptors of length 8, and this model takes 16; give"):
        extractor.extract(tmp_path / "b.fvecs")
    with pytest.raises(InputError, match=r"c\.npz was extracted with other settings"):
        extractor.extract(stored(tmp_path / "c.npz", fingerprint="other"))
    assert len(extractor.extract(stored(tmp_path / "d.npz", count=0, dimension=8))) == 0


@pytest.mark.parametrize("source", ["a.jpg", pixels(0)], ids=["path", "array"])
def test_images_are_refused(source) -> None:
    name = "a.jpg" if isinstance(source, str) else "the array"
    with pytest.raises(InputError, match=rf"^{name} is not a file of local features \(\.npz, .*\), which this model"):
        FeatureFiles(16).extract(source)


@pytest.mark.parametrize("extractor", [FeatureFiles(16), HessianAffine()], ids=["features", "images"])
def test_a_file_of_many_images_is_to_be_converted(extractor) -> None:
    with pytest.raises(InputError, match=r"a\.h5 holds .* many .*: faemb convert-features a\.h5 --out a-features$"):
        features_of_query(extractor, "a.h5")


@pytest.mark.parametrize("changes", [{"dimension": 0}, {"max_features": 0}], ids=str)
def test_settings_are_checked(changes: dict, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{next(iter(changes))} is"):
        FeatureFiles(**{"dimension": 16, **changes}).extract(stored(tmp_path / "a.npz"))


def test_a_query_of_images_may_be_features_of_the_same_extractor(tmp_path: Path) -> None:
    extractor, image = HessianAffine(max_features=20), picture(tmp_path / "a.png")
    write_npz(tmp_path / "a.npz", extractor.extract(image))
    found = features_of_query(extractor, tmp_path / "a.npz")
    np.testing.assert_array_equal(found.descriptors, features_of_query(extractor, image).descriptors)
    with pytest.raises(InputError, match=r"a\.npz holds local features that were extracted in another way"):
        features_of_query(HessianAffine(max_features=10), tmp_path / "a.npz")


def test_kinds() -> None:
    assert (kind_of(HessianAffine()), kind_of(FeatureFiles(16))) == (IMAGES, FEATURES)
    assert FEATURES.suffixes == set(FORMATS)


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("a.jpg", "a.jpg"),
        ("a.jpg.npz", "a.jpg"),
        ("a.jpg.hesaff.sift", "a.jpg"),
        ("a.siftgeo", "a.jpg"),
        ("b.siftgeo", None),
        ("a.png.npz", None),
    ],
)
def test_the_image_of_a_file(tmp_path: Path, name: str, image: str | None) -> None:
    (tmp_path / "a.jpg").touch()
    assert picture_of(tmp_path / name) == (None if image is None else tmp_path / image)
