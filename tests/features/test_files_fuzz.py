"""Damaged files of every format: reading gives consistent features or one error of this package."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files_reference import ellipses, oxford_text, siftgeo_bytes, some_cells, some_features, vecs_bytes

from faemb.errors import FaembError
from faemb.features.files import read_features, read_hloc, read_npz_header, write_hloc, write_npz
from faemb.features.local_features import LocalFeatures

SEED = 20170306
CUTS = 40
FLIPS = 150


def siftgeo(path: Path, rng: np.random.Generator) -> None:
    path.write_bytes(siftgeo_bytes(rng, 3))


def sift(path: Path, rng: np.random.Generator) -> None:
    path.write_text(oxford_text(ellipses(rng, 3).round(4), rng.integers(0, 256, (3, 8))))


def fvecs(path: Path, rng: np.random.Generator) -> None:
    path.write_bytes(vecs_bytes(rng.standard_normal((4, 6)), "f"))


def bvecs(path: Path, rng: np.random.Generator) -> None:
    path.write_bytes(vecs_bytes(rng.integers(0, 256, (4, 6)), "B"))


def npz(path: Path, rng: np.random.Generator) -> None:
    write_npz(path, some_cells(rng, 3), image_hash="abc")


def plain_npz(path: Path, rng: np.random.Generator) -> None:
    np.savez_compressed(path, keypoints=rng.random((3, 2)), descriptors=rng.random((4, 3)), scores=rng.random(3))


def hloc(path: Path, rng: np.random.Generator) -> None:
    write_hloc(path, [("1.jpg", some_features(rng, 2)), ("db/2.jpg", some_cells(rng, 3))])


FILES: dict[str, tuple[str, Callable[[Path, np.random.Generator], None]]] = {
    "siftgeo": ("a.siftgeo", siftgeo),
    "oxford": ("a.hesaff.sift", sift),
    "fvecs": ("a.fvecs", fvecs),
    "bvecs": ("a.bvecs", bvecs),
    "npz": ("a.npz", npz),
    "plain-npz": ("a.npz", plain_npz),
    "hloc": ("a.h5", hloc),
}


def cut(raw: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    for length in rng.integers(0, len(raw), CUTS):
        yield raw[:length]


def flipped(raw: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    """One bit, or several at once."""
    for count in rng.choice([1, 1, 1, 4, 16], FLIPS):
        damaged = np.frombuffer(raw, np.uint8).copy()
        np.bitwise_xor.at(damaged, rng.integers(0, len(raw), count), 1 << rng.integers(0, 8, count).astype(np.uint8))
        yield damaged.tobytes()


def foreign(raw: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    """Random bytes, and the original ones with random bytes inside or at the end."""
    for length in rng.integers(1, 400, CUTS):
        noise, place = rng.bytes(length), int(rng.integers(0, len(raw)))
        yield from (noise, raw[:place] + noise + raw[place + length :], raw + noise)


def everything_in(path: Path) -> list[LocalFeatures]:
    if path.suffix == ".h5":
        return [features for _, features in read_hloc(path)]
    return [read_features(path)]


def assert_whole(features: LocalFeatures) -> None:
    count = len(features.scores)
    assert features.descriptors.shape[0] == features.frames.shape[0] == count
    assert features.frames.shape[1] == 6
    assert features.descriptors.dtype == features.frames.dtype == features.scores.dtype == np.float32
    assert np.isfinite(features.descriptors).all()
    assert np.isfinite(features.scores).all()
    assert np.isfinite(features.frames).all() or np.isnan(features.frames).all()


def outcome(read: Callable[[Path], Any], path: Path, raw: bytes) -> Any:
    """What is read, or the message of the error; any other error fails the test."""
    path.write_bytes(raw)
    try:
        return read(path)
    except FaembError as error:
        return str(error)


def assert_a_sentence(message: str, path: Path) -> None:
    assert str(path) in message
    assert "\n" not in message
    assert "TypeCheckError" not in message


@pytest.mark.parametrize("damage", [cut, flipped, foreign], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, name: str, damage: Callable[..., Iterator[bytes]]) -> None:
    file, write = FILES[name]
    path, rng = tmp_path / file, np.random.default_rng(SEED)
    write(path, rng)
    for raw in list(damage(path.read_bytes(), rng)):
        found = outcome(everything_in, path, raw)
        if isinstance(found, str):
            assert_a_sentence(found, path)
        else:
            for features in found:
                assert_whole(features)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_needs_too_much_memory_is_refused(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, write = FILES[name]
    write(tmp_path / file, np.random.default_rng(SEED))
    everything_in(tmp_path / file)
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "60")
    with pytest.raises(FaembError, match="of memory; one file may take 60 bytes"):
        everything_in(tmp_path / file)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", FILES)
def test_a_pipe_is_refused_without_waiting(tmp_path: Path, name: str) -> None:
    path = tmp_path / FILES[name][0]
    os.mkfifo(path)
    with pytest.raises(FaembError, match="is a pipe, a socket or a device; expected a file of local features"):
        everything_in(path)


@pytest.mark.parametrize("name", ["npz", "plain-npz"])
def test_the_header_of_a_damaged_file_is_read_or_refused(tmp_path: Path, name: str) -> None:
    path, rng = tmp_path / "a.npz", np.random.default_rng(SEED)
    FILES[name][1](path, rng)
    for raw in list(flipped(path.read_bytes(), rng)):
        header = outcome(read_npz_header, path, raw)
        if isinstance(header, str):
            assert_a_sentence(header, path)
        else:
            assert all(isinstance(text, str) for text in header)
