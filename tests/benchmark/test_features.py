"""The store of local features: few files, nothing extracted twice, and runs that are killed."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from faemb.benchmark import features as stored
from faemb.benchmark.features import FeatureStore, StoredFeatures
from faemb.benchmark.workbench import kept, load_spectrum, load_vectors, save_spectrum
from faemb.errors import FaembError, FormatError, InputError, LimitError
from faemb.features import HessianAffine, LocalFeatures
from faemb.runtime.parallel import TaskFailed, spread
from faemb.whitening import Spectrum
from pictures import blank, picture, pictures
from processes import PATIENCE, wait_until
from recording import recording

EXTRACTOR = HessianAffine(max_features=30)
pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    return sorted(pictures(tmp_path / "photos", range(5)).iterdir())


@pytest.fixture
def extracted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the images that are extracted, as they come."""
    names: list[str] = []
    extract = recording(lambda own, image: names.append(image.name), HessianAffine.extract)
    monkeypatch.setattr(HessianAffine, "extract", extract)
    return names


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def features(folder: Path, images: list[Path]) -> StoredFeatures:
    return FeatureStore(folder, EXTRACTOR).features(images, sha256, jobs=1)


def assert_same(got: LocalFeatures, expected: LocalFeatures) -> None:
    for name in ("descriptors", "frames", "scores"):
        np.testing.assert_array_equal(getattr(got, name), getattr(expected, name))
        assert getattr(got, name).dtype == np.float32
    assert (got.image_size, got.fingerprint) == (expected.image_size, expected.fingerprint)


def test_features_are_those_of_the_extractor(tmp_path: Path, photos: list[Path], monkeypatch) -> None:
    monkeypatch.setattr(stored, "spread", spread)
    images = [*photos[::-1], blank(tmp_path / "blank.png"), photos[0]]
    for found in (features(tmp_path / "store", images), features(tmp_path / "store", images)):
        assert len(found) == 7
        for number, (got, image) in enumerate(zip(found.all(), images, strict=True)):
            assert_same(got, EXTRACTOR.extract(image))
            np.testing.assert_array_equal(found[number], got.descriptors)
    assert len(list((tmp_path / "store").iterdir())) == 1


def test_images_without_features_alone(tmp_path: Path) -> None:
    images = [blank(tmp_path / "blank.png")]
    for found in (features(tmp_path / "store", images), features(tmp_path / "store", images)):
        assert found[0].shape == (0, 128)


def test_nothing_is_extracted_twice(tmp_path: Path, photos: list[Path], extracted: list[str]) -> None:
    features(tmp_path / "store", photos[:3])
    features(tmp_path / "store", photos)
    assert extracted == [photo.name for photo in photos]
    assert len(list((tmp_path / "store").iterdir())) == 2


def test_a_changed_image_is_extracted_again(tmp_path: Path, photos: list[Path], extracted: list[str]) -> None:
    features(tmp_path / "store", photos)
    extracted.clear()
    picture(photos[2], 77)
    found = features(tmp_path / "store", photos)
    assert extracted == [photos[2].name]
    assert_same(found.features(2), EXTRACTOR.extract(photos[2]))


def test_an_image_that_was_moved_is_not(tmp_path: Path, photos: list[Path], extracted: list[str]) -> None:
    features(tmp_path / "store", photos)
    extracted.clear()
    moved = photos[0].rename(tmp_path / "moved.png")
    features(tmp_path / "store", [moved, *photos[1:]])
    assert extracted == []


def test_files_are_written_when_they_are_large_enough(tmp_path: Path, photos: list[Path], monkeypatch) -> None:
    monkeypatch.setattr(stored, "FILE_BYTES", 20_000)  # two images
    found = features(tmp_path / "store", photos)
    assert len(list((tmp_path / "store").iterdir())) == 3
    assert_same(found.features(4), EXTRACTOR.extract(photos[4]))


def test_images_that_fail_are_reported_when_the_others_are_stored(
    tmp_path: Path, photos: list[Path], extracted: list[str]
) -> None:
    photos[0].write_text("no image")
    photos[1].write_text("none either")
    with pytest.raises(InputError, match=r"2 images cannot be used; repair or remove them: .*000\.png"):
        features(tmp_path / "store", photos)
    extracted.clear()
    features(tmp_path / "store", photos[2:])
    assert extracted == []


def test_an_unexpected_fault_is_reported_with_the_image(tmp_path: Path, photos: list[Path], monkeypatch) -> None:
    monkeypatch.setattr(
        stored, "spread", lambda task, items, jobs: ((item, TaskFailed("ZeroDivisionError: x")) for item in items)
    )
    with pytest.raises(InputError, match=r"000\.png: an unexpected fault, please report it \(ZeroDivisionError: x\)"):
        features(tmp_path / "store", photos)


def test_an_interrupt_stores_what_is_there(tmp_path: Path, photos: list[Path], extracted: list[str]) -> None:
    def stop(stage: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FeatureStore(tmp_path / "store", EXTRACTOR).features(photos, sha256, progress=stop)
    features(tmp_path / "store", photos)
    assert extracted == [photo.name for photo in photos]


@pytest.mark.parametrize("content", [b"", b"nothing like it", None], ids=["empty", "other", "cut"])
def test_a_file_that_is_none_is_ignored(
    tmp_path: Path, photos: list[Path], extracted: list[str], content: bytes | None
) -> None:
    features(tmp_path / "store", photos)
    (file,) = (tmp_path / "store").iterdir()
    file.write_bytes(file.read_bytes()[:-10] if content is None else content)
    extracted.clear()
    found = features(tmp_path / "store", photos)
    assert extracted == [photo.name for photo in photos]
    assert_same(found.features(1), EXTRACTOR.extract(photos[1]))


def test_changed_bytes_are_noticed(tmp_path: Path, photos: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which would read an image to check its type
    features(tmp_path / "store", photos)
    (file,) = (tmp_path / "store").iterdir()
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.unlink()
    file.write_bytes(content)
    found = features(tmp_path / "store", photos)
    assert len(found[0]) > 0
    with pytest.raises(FormatError, match=r"\.safetensors is damaged; delete it, and run the benchmark again"):
        list(found.all())


def rewritten(folder: Path, change: Callable[[list[dict[str, Any]], np.ndarray], np.ndarray]) -> None:
    """The one file of a store with another header or other rows, in its own format."""
    (file,) = folder.iterdir()
    with safe_open(file, framework="numpy") as opened:
        images, rows = json.loads(opened.metadata()["images"]), np.array(opened.get_tensor("features"))
    rows = change(images, rows)
    file.unlink()  # it may be mapped into memory
    save_file({"features": rows}, file, {"images": json.dumps(images)})


def with_entry(**changes: Any) -> Callable[[list[dict[str, Any]], np.ndarray], np.ndarray]:
    return lambda images, rows: (images[0].update(changes), rows)[1]


@pytest.mark.parametrize(
    "change",
    [
        with_entry(count=10**12),
        with_entry(count=-1),
        with_entry(count=True),
        with_entry(count=2.0),
        with_entry(sha256=[]),
        with_entry(width="wide"),
        with_entry(maps=[[1, 2, 3]]),
        with_entry(maps=7),
        lambda images, rows: rows[:-1],
        lambda images, rows: rows[:, :7].copy(),
        lambda images, rows: rows.ravel(),
        lambda images, rows: rows.astype(np.float64),
    ],
    ids=["huge", "negative", "truth", "fraction", "hash", "width", "map", "maps", "rows", "columns", "flat", "double"],
)
def test_a_header_that_does_not_fit_is_ignored(
    tmp_path: Path, photos: list[Path], extracted: list[str], change: Callable[..., np.ndarray]
) -> None:
    features(tmp_path / "store", photos)
    rewritten(tmp_path / "store", change)
    extracted.clear()
    found = features(tmp_path / "store", photos)
    assert extracted == [photo.name for photo in photos]
    assert_same(found.features(1), EXTRACTOR.extract(photos[1]))


def test_features_are_read_within_the_memory_of_one_item(
    tmp_path: Path, photos: list[Path], extracted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which would read an image to check its type
    found = features(tmp_path / "store", photos)
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "20KB")
    with pytest.raises(LimitError, match=r"\.safetensors needs .* of memory; one file may take 20 KB"):
        found.features(0)


@pytest.mark.parametrize("value", [np.nan, 5.0, -1.0], ids=["no number", "outside", "negative"])
def test_cells_outside_their_maps_are_damage(
    tmp_path: Path, photos: list[Path], extracted: list[str], value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which would read an image to check its type

    def with_maps(images: list[dict[str, Any]], rows: np.ndarray) -> np.ndarray:
        rows[:, 7:10] = 0
        rows[3, 8] = value
        images[0] |= {"maps": [[5, 5]], "crc32": zlib.crc32(rows[: images[0]["count"]].data)}
        return rows

    features(tmp_path / "store", photos)
    rewritten(tmp_path / "store", with_maps)
    with pytest.raises(FormatError, match=r"\.safetensors is damaged; delete it, and run the benchmark again"):
        features(tmp_path / "store", photos).features(0)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def written(path: Path, vectors: np.ndarray) -> None:
    """Vectors under a checksum that fits."""
    path.unlink()
    kept(path, lambda: vectors)


def flip(path: Path, place: int) -> None:
    """Change the lowest bit of one byte."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-10]),
        lambda path: path.write_bytes(path.read_bytes().replace(b"(3, 4)", b"(3999999999, 4)")),
        lambda path: path.write_bytes(path.read_bytes().replace(b"'<f2'", b"'<\\d'")),
        lambda path: written(path, np.zeros(5)),
        lambda path: written(path, np.array([["a"]])),
        lambda path: written(path, np.full((3, 4), np.nan)),
        lambda path: path.write_bytes(path.read_bytes().replace(b"'<f2'", b"'>f2'")),
        lambda path: np.save(path, np.zeros((3, 4))),
        lambda path: path.write_bytes(path.read_bytes() + b"more"),
        lambda path: flip(path, -1),
        lambda path: flip(path, -4 - 24),
        lambda path: flip(path, -4 - 1),
        lambda path: path.write_text("something else"),
        pytest.param(pipe, marks=pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")),
    ],
    ids=[
        "empty",
        "cut",
        "huge",
        "odd type",
        "flat",
        "text",
        "NaN",
        "bytes in another order",
        "without a checksum",
        "longer",
        "bit of the checksum",
        "first bit",
        "last bit",
        "other",
        "pipe",
    ],
)
def test_damaged_vectors_of_an_earlier_run_are_refused(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    path = tmp_path / "000000.npy"
    vectors = kept(path, lambda: np.arange(12, dtype=np.float16).reshape(3, 4))
    np.testing.assert_array_equal(kept(path, vectors.copy), vectors)
    damage(path)
    with pytest.raises(FaembError, match=r"^\S*000000\.npy is (damaged \(.*delete it, and run the benchmark|a pipe)"):
        kept(path, vectors.copy)


@pytest.mark.parametrize("vectors", [np.zeros((0, 4)), np.zeros((4, 0)), np.asfortranarray(np.eye(3)[:2])], ids=str)
def test_vectors_of_any_shape_and_order_are_read_as_they_were(tmp_path: Path, vectors: np.ndarray) -> None:
    kept(tmp_path / "000000.npy", lambda: vectors)
    np.testing.assert_array_equal(load_vectors(tmp_path / "000000.npy"), vectors)


def test_a_changed_bit_of_statistics_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "spectrum.npz"
    save_spectrum(Spectrum(7, np.arange(3.0) + 0.1, np.arange(3.0) + 0.2, np.eye(3) + 0.3), path)
    content = path.read_bytes()
    for part in (np.int64(7), np.arange(3.0) + 0.1, np.arange(3.0) + 0.2, (np.eye(3) + 0.3).astype(np.float32)):
        path.write_bytes(content)
        flip(path, content.index(part.tobytes()))
        with pytest.raises(FormatError, match=r"spectrum\.npz is damaged \(.*CRC"):
            load_spectrum(path)


def test_damaged_statistics_of_an_earlier_run_are_refused(tmp_path: Path) -> None:
    (tmp_path / "spectrum.npz").write_bytes(b"PK\3\4 something else")
    with pytest.raises(FormatError, match=r"spectrum\.npz is damaged \(.*delete it, and run the benchmark again"):
        load_spectrum(tmp_path / "spectrum.npz")


PROGRAM = """
import hashlib, sys
from pathlib import Path
from faemb.benchmark import features
from faemb.features import HessianAffine

features.FILE_BYTES = 20_000
images = sorted(Path(sys.argv[1]).iterdir())
store = features.FeatureStore(Path(sys.argv[2]), HessianAffine(max_features=30))
store.features(images, lambda path: hashlib.sha256(path.read_bytes()).hexdigest(), jobs=1)
"""


def test_a_killed_run_continues(tmp_path: Path, extracted: list[str]) -> None:
    folder, store = pictures(tmp_path / "many", range(60)), tmp_path / "store"
    run = subprocess.Popen([sys.executable, "-c", PROGRAM, folder, store])  # noqa: S603
    try:
        assert wait_until(lambda: len(list(store.glob("*.safetensors"))) >= 2)
        run.send_signal(signal.SIGKILL)
    finally:
        run.kill()
        assert run.wait(PATIENCE) == -signal.SIGKILL
    images = sorted(folder.iterdir())
    found = features(store, images)
    assert 0 < len(extracted) <= 60 - 4
    assert_same(found.features(59), EXTRACTOR.extract(images[59]))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_the_store_is_passed_over(tmp_path):
    os.mkfifo(tmp_path / "pipe.safetensors")
    FeatureStore(tmp_path, EXTRACTOR)
