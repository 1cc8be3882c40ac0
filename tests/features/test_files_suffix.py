"""The reader of a file is found by its suffix."""

from pathlib import Path

import numpy as np
import pytest
from files_reference import ellipses, oxford_text, siftgeo_bytes, some_features, vecs_bytes

from faemb.errors import InputError
from faemb.features.files import FORMATS, read_features, write_npz


@pytest.fixture
def folder(rng: np.random.Generator, tmp_path: Path) -> Path:
    """One file of each suffix, with three features each."""
    text = oxford_text(ellipses(rng, 3), np.ones((3, 2)))
    for name in ("a.sift", "a.hesaff.sift", "a.jpg.haff.sift", "a.SIFT"):
        (tmp_path / name).write_text(text)
    (tmp_path / "a.siftgeo").write_bytes(siftgeo_bytes(rng, 3))
    (tmp_path / "a.fvecs").write_bytes(vecs_bytes(np.ones((3, 2)), "f"))
    (tmp_path / "a.bvecs").write_bytes(vecs_bytes(np.ones((3, 2), int), "B"))
    write_npz(tmp_path / "a.npz", some_features(rng, 3))
    return tmp_path


def test_every_suffix_is_read_from_paths_and_texts(folder: Path) -> None:
    seen = set()
    for path in folder.iterdir():
        assert len(read_features(path)) == len(read_features(str(path))) == 3
        seen.add(path.suffix.lower())
    assert seen == set(FORMATS)


@pytest.mark.parametrize("name", ["a.jpg", "a", "a.sift.txt", ".npz"])
def test_an_unknown_suffix_names_the_known_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"end in \.npz, \.siftgeo, \.sift, \.fvecs, \.bvecs"):
        read_features(tmp_path / name)
