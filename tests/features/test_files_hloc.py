"""hloc's HDF5 files."""

import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from files_reference import assert_refused, assert_same, some_cells, some_features

from faemb.errors import InputError, MissingExtraError
from faemb.features.files import hloc_names, read_features, read_hloc, write_hloc
from faemb.features.local_features import LocalFeatures


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "features.h5"


def stored(path: Path, name: str = "db/1.jpg", **arrays: Any) -> Path:
    """A file as hloc writes it, with one image."""
    with h5py.File(path, "a") as file:
        group = file.create_group(name)
        for key, array in arrays.items():
            group.create_dataset(key, data=array)
    return path


def one(path: Path) -> LocalFeatures:
    return dict(read_hloc(path))["db/1.jpg"]


def test_what_is_written_is_read_again(rng: np.random.Generator, path: Path) -> None:
    items = {name: some_features(rng, count) for name, count in {"b.jpg": 3, "db/2.jpg": 5, "db/day/1.jpg": 0}.items()}
    items["map.jpg"] = some_cells(rng)
    write_hloc(path, items.items())
    read = dict(read_hloc(path))
    assert list(read) == hloc_names(path) == sorted(items)
    for name, features in items.items():
        assert_same(read[name], features)


def test_hloc_finds_what_it_expects(rng: np.random.Generator, path: Path) -> None:
    features = some_features(rng, count=5, dimension=4)
    write_hloc(path, [("db/1.jpg", features)])
    with h5py.File(path) as file:
        group = file["db/1.jpg"]
        np.testing.assert_array_equal(group["keypoints"], features.centres)
        np.testing.assert_array_equal(group["descriptors"], features.descriptors.T)
        np.testing.assert_array_equal(group["scores"], features.scores)
        assert group["image_size"][()].tolist() == [320, 240]
        assert group.attrs["fingerprint"] == b"a fingerprint"


def test_a_file_of_no_images(path: Path) -> None:
    write_hloc(path, [])
    assert list(read_hloc(path)) == []


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_features_of_hloc_are_read(rng: np.random.Generator, path: Path, dtype: type[np.floating]) -> None:
    keypoints, descriptors = rng.uniform(0, 99, (6, 2)).astype(dtype), rng.random((3, 6)).astype(dtype)
    scores = rng.random(6).astype(dtype)
    stored(path, keypoints=keypoints, descriptors=descriptors, scores=scores, image_size=np.array([640, 480]))
    ((name, features),) = read_hloc(path)
    frames = np.concatenate([keypoints, np.tile([1, 0, 0, 1], (6, 1))], axis=1).astype(np.float32)
    expected = (np.ascontiguousarray(descriptors.T, np.float32), frames, scores.astype(np.float32))
    assert name == "db/1.jpg"
    assert_same(features, LocalFeatures(*expected, (640, 480)))


def test_scales_and_orientations_make_the_shape(path: Path) -> None:
    stored(path, keypoints=np.ones((2, 2)), descriptors=np.ones((3, 2)), scales=[2.0, 3.0], oris=[0.0, 90.0])
    np.testing.assert_allclose(one(path).shapes, [[[2, 0], [0, 2]], [[0, -3], [3, 0]]], atol=1e-6)


def test_scores_and_image_size_may_be_missing(path: Path) -> None:
    features = one(stored(path, keypoints=np.ones((2, 2)), descriptors=np.ones((3, 2)), scales=[2.0, 3.0]))
    assert features.scores.tolist() == [0, 0]
    assert features.image_size == (0, 0)
    assert features.fingerprint == ""


def test_read_features_names_the_reader_of_many(path: Path) -> None:
    with pytest.raises(InputError, match=r"many images; read it with faemb\.features\.files\.read_hloc"):
        read_features(path)


def test_a_write_that_fails_leaves_the_old_file(rng: np.random.Generator, path: Path) -> None:
    write_hloc(path, [("1.jpg", some_features(rng))])
    before = path.read_bytes()

    def items() -> Iterator[tuple[str, LocalFeatures]]:
        yield "2.jpg", some_features(rng)
        raise InputError("the next image cannot be read")

    with pytest.raises(InputError, match="the next image"):
        write_hloc(path, items())
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["", "/", "/a.jpg", "a//b.jpg", "a/", "./a.jpg", "a\0b"])
def test_names_that_would_not_come_back_are_refused(rng: np.random.Generator, path: Path, name: str) -> None:
    with pytest.raises(InputError, match="expected a name such as"):
        write_hloc(path, [(name, some_features(rng))])
    assert not path.exists()


@pytest.mark.parametrize("names", [("a", "a"), ("a", "a/keypoints"), ("a/keypoints", "a")])
def test_names_that_collide_are_refused(rng: np.random.Generator, path: Path, names: tuple[str, str]) -> None:
    with pytest.raises(InputError, match="share the name"):
        write_hloc(path, [(name, some_features(rng)) for name in names])


@pytest.mark.parametrize("names", [("a", "a/b"), ("a/b", "a"), ("ü 日.jpg", "..")])
def test_other_names_do_not_collide(rng: np.random.Generator, path: Path, names: tuple[str, str]) -> None:
    write_hloc(path, [(name, some_features(rng)) for name in names])
    assert hloc_names(path) == sorted(names)


def test_without_h5py_the_extra_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r'a file of hloc\'s features needs the extra .*"faemb\[hloc\]"'):
        read_hloc(path)
    with pytest.raises(MissingExtraError):
        write_hloc(path, [])


@pytest.mark.parametrize(
    ("arrays", "because"),
    [
        ({"descriptors": np.ones((4, 3))}, "descriptors .as rows. of shape"),
        ({"descriptors": np.ones(4)}, "descriptors .as rows. of shape"),
        ({"descriptors": 1.0}, "descriptors .as rows. of shape"),
        ({"descriptors": np.full((3, 4), np.nan)}, "12 NaN or infinite values in its descriptors"),
        ({"descriptors": [[b"a"] * 4]}, "descriptors of type"),
        ({"keypoints": np.ones((4, 3))}, "keypoints of shape .4, 3."),
        ({"keypoints": np.full((4, 2), np.inf)}, "8 NaN or infinite values in its keypoints"),
        ({"keypoints": np.full((4, 2), np.nan)}, "8 NaN or infinite values in its keypoints"),
        ({"scores": np.ones(3)}, "scores of shape"),
        ({"scales": np.ones(3)}, "scales of shape"),
        ({"scales": np.full(4, 3e38), "oris": np.full(4, np.nan)}, "oris"),
        ({"frames": np.ones((3, 6))}, "frames of shape"),
        ({"frames": np.array([[np.nan, 1, 1, 1, 1, 1]] * 4)}, "4 NaN"),
        ({"image_size": [1, 2, 3]}, "image size of shape"),
        ({"scores": h5py.Empty("f4")}, "damaged"),
    ],
)
def test_arrays_that_do_not_fit_are_explained(path: Path, arrays: dict[str, Any], because: str) -> None:
    stored(path, **{"keypoints": np.ones((4, 2)), "descriptors": np.ones((3, 4))} | arrays)
    assert_refused(one, path, f"image 'db/1.jpg'.*{because}")


def test_a_claim_of_too_much_is_refused_before_it_is_read(path: Path) -> None:
    stored(path, keypoints=np.ones((4, 2)))
    with h5py.File(path, "a") as file:
        file["db/1.jpg"].create_dataset("descriptors", shape=(1 << 20, 1 << 20), dtype="f4", chunks=(64, 64))
    assert_refused(one, path, "needs 9,896 GB of memory; one file may take 1 GB")


@pytest.mark.parametrize("mark", ["of variable length", np.bytes_(b"x" * 2000), np.array([b"a", b"b"]), 3])
def test_a_fingerprint_of_another_form_is_none(path: Path, mark: Any) -> None:
    stored(path, keypoints=np.ones((2, 2)), descriptors=np.ones((3, 2)))
    with h5py.File(path, "a") as file:
        file["db/1.jpg"].attrs["fingerprint"] = mark
    assert one(path).fingerprint == ""


def test_a_group_without_descriptors_is_refused(path: Path) -> None:
    assert_refused(one, stored(path, keypoints=np.ones((4, 2))), "has keypoints without descriptors")


def test_a_file_of_global_descriptors_is_refused(path: Path) -> None:
    assert_refused(read_hloc, stored(path, global_descriptor=np.ones(4)), "holds no local features")


@pytest.mark.parametrize("content", [b"", b"\x89HDF\r\n\x1a\n", b"\x89HDF\r\n\x1a\n" + bytes(500), b"text " * 100])
def test_what_is_no_hdf5_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert_refused(read_hloc, path)


def test_missing_files_and_folders_are_refused_at_once(tmp_path: Path) -> None:
    assert_refused(read_hloc, tmp_path / "none.h5", "there is no file")
    assert_refused(read_hloc, tmp_path, "is a folder")


SECRET = bytes(range(1, 33))


def plain(path: Path, **changed: Any) -> Path:
    return stored(path, **{"keypoints": np.ones((4, 2)), "descriptors": np.ones((2, 4), "f4")} | changed)


def with_external_storage(group: Any, secret: Path) -> None:
    group.create_dataset("descriptors", (2, 4), "f4", external=[(str(secret), 0, 32)])


def with_external_link(group: Any, secret: Path) -> None:
    with h5py.File(secret.with_suffix(".h5"), "w") as other:
        other["descriptors"] = np.ones((2, 4))
    group["descriptors"] = h5py.ExternalLink(str(secret.with_suffix(".h5")), "/descriptors")


def with_soft_link(group: Any, secret: Path) -> None:
    group.file["elsewhere/values"] = np.ones((2, 4))
    group["descriptors"] = h5py.SoftLink("/elsewhere/values")


def with_virtual_source(group: Any, secret: Path) -> None:
    with h5py.File(secret.with_suffix(".h5"), "w") as other:
        other["descriptors"] = np.ones((2, 4), "f4")
    layout = h5py.VirtualLayout((2, 4), "f4")
    layout[:] = h5py.VirtualSource(str(secret.with_suffix(".h5")), "descriptors", (2, 4))
    group.create_virtual_dataset("descriptors", layout)


@pytest.mark.parametrize("refer", [with_external_storage, with_external_link, with_soft_link, with_virtual_source])
def test_no_other_file_is_read(tmp_path: Path, path: Path, refer: Any) -> None:
    (tmp_path / "secret").write_bytes(SECRET)
    with h5py.File(plain(path), "a") as file:
        del file["db/1.jpg/descriptors"]
        refer(file["db/1.jpg"], tmp_path / "secret")
    assert_refused(one, path, "in another file, which is not read|holds a link at .*, which is not followed")
    assert_refused(lambda place: list(read_hloc(place)), path, "another file|holds a link at")


@pytest.mark.parametrize("link", [h5py.SoftLink("/db"), h5py.ExternalLink("other.h5", "/db")], ids=["soft", "external"])
def test_links_to_groups_are_not_followed(path: Path, link: Any) -> None:
    with h5py.File(plain(path), "a") as file:
        file["linked"] = link
    assert_refused(hloc_names, path, "holds a link at '/linked', which is not followed")


def test_a_group_that_contains_itself_is_visited_once(path: Path) -> None:
    with h5py.File(plain(path), "a") as file:
        file["db/again"] = file["/"]
        file["db/1.jpg/self"] = file["db/1.jpg"]
    assert hloc_names(path) == ["db/1.jpg"]


def test_groups_ten_thousand_levels_deep_are_refused(path: Path) -> None:
    with h5py.File(path, "w") as file:
        group = file.id
        for _ in range(10_000):
            group = h5py.h5g.create(group, b"g")
    assert_refused(hloc_names, path, "more than 64 levels deep")


GZIP: dict[str, Any] = {"compression": "gzip"}


@pytest.mark.parametrize(
    "options",
    [GZIP, GZIP | {"shuffle": True}, {"chunks": True}, GZIP | {"fletcher32": True, "chunks": (1, 1)}],
    ids=str,
)
def test_compressed_arrays_are_read(path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "10KB")  # so that every chunk is checked before it is read
    values = np.arange(128, dtype=np.float32).reshape(32, 4)
    with h5py.File(plain(path), "a") as file:
        del file["db/1.jpg/descriptors"]
        file["db/1.jpg"].create_dataset("descriptors", data=values, **options)
    np.testing.assert_array_equal(one(path).descriptors, values.T)


@pytest.mark.parametrize("compression", ["lzf", "szip"])
def test_other_compressions_are_refused(path: Path, compression: str) -> None:
    if not h5py.h5z.filter_avail({"lzf": h5py.h5z.FILTER_LZF, "szip": h5py.h5z.FILTER_SZIP}[compression]):
        pytest.skip("not in this HDF5")
    with h5py.File(plain(path), "a") as file:
        del file["db/1.jpg/descriptors"]
        file["db/1.jpg"].create_dataset("descriptors", data=np.ones((64, 4)), compression=compression, chunks=(64, 4))
    assert_refused(one, path, "in a compression that is not read; save it with gzip")


def test_small_files_of_large_arrays_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "10MB")
    with h5py.File(plain(path), "a") as file:
        for name, dtype in (("scores", "f8"), ("scales", "f4")):
            file["db/1.jpg"].create_dataset(name, (500_000,), dtype, compression="gzip", chunks=(1000,))
    assert_refused(one, path, "needs 11 MB of memory; one file may take 10 MB")


def test_large_chunks_are_counted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "10MB")
    with h5py.File(plain(path), "a") as file:
        options: dict[str, Any] = {"chunks": (2_000_000,), "maxshape": (None,), "compression": "gzip"}
        file["db/1.jpg"].create_dataset("scores", (4,), "f4", **options)
    assert_refused(one, path, "needs 16 MB of memory")


def test_chunks_that_grow_beyond_their_size_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "1MB")
    with h5py.File(plain(path), "a") as file:
        scores = file["db/1.jpg"].create_dataset("scores", (4,), "f4", chunks=(4,), compression="gzip")
        scores.id.write_direct_chunk((0,), zlib.compress(bytes(5_000_000)))
    assert_refused(one, path, "its scores hold more than their declared size")
