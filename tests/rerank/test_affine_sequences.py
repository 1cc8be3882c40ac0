"""Real photographs with known homographies: the transform beside that of OpenCV's MAGSAC from the same matches."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import pytest
from planted import corners, mapped

from faemb.features import HessianAffine, LocalFeatures
from faemb.rerank import Matchable, Verification, matches, verify
from faemb.rerank.matching import MOST_MATCHES, RATIO
from reference import matches_by_the_book

PAIRS = [("graf", 2), ("graf", 4), ("boat", 3), ("boat", 5), ("bikes", 6), ("leuven", 5), ("ubc", 6)]
EXTRACTOR = HessianAffine(max_features=800, rotation_invariant=True)

Read = Callable[[str, int], LocalFeatures]


@pytest.fixture(scope="module")
def read(data) -> Read:
    return cache(lambda sequence, k: EXTRACTOR.extract(data / "affine" / sequence / f"img{k}.png"))


def error(transform: np.ndarray, homography: Path, size: tuple[int, int]) -> float:
    """Mean over the corners, in pixels."""
    truth = np.loadtxt(homography)
    return float(np.linalg.norm(mapped(transform, corners(size)) - mapped(truth, corners(size)), axis=1).mean())


def magsac(first: LocalFeatures, second: LocalFeatures, found: Verification) -> np.ndarray:
    x = first.centres[found.matches[:, 0]].astype(np.float64)
    y = second.centres[found.matches[:, 1]].astype(np.float64)
    return np.asarray(cv2.findHomography(x, y, cv2.USAC_MAGSAC, 3.0)[0])


@pytest.mark.parametrize(("sequence", "k"), PAIRS)
def test_as_exact_as_magsac(data, read, sequence, k):
    first, second = read(sequence, 1), read(sequence, k)
    found = verify(Matchable.of(first), Matchable.of(second), turn=EXTRACTOR.largest_turn)
    truth = data / "affine" / sequence / f"H1to{k}p.txt"
    assert found.evidence > 60
    assert found.transform is not None
    ours, theirs = (error(each, truth, first.image_size) for each in (found.transform, magsac(first, second, found)))
    assert ours < max(2 * theirs, 0.01 * np.hypot(*first.image_size))


@pytest.mark.parametrize(("sequence", "k"), [("graf", 2), ("boat", 5), ("leuven", 5)])
def test_matches_in_the_subspace_are_those_by_the_book(read, sequence, k):
    a, b = Matchable.of(read(sequence, 1)), Matchable.of(read(sequence, k))
    found = {tuple(each) for each in matches(a, b).tolist()}
    expected = set(matches_by_the_book(a.descriptors, b.descriptors, RATIO)[:MOST_MATCHES])
    assert a.subspace.shape[1] < 80
    assert len(found & expected) > 0.95 * max(len(found), len(expected)) > 50


@pytest.mark.parametrize("k", [2, 5])
def test_photographs_of_different_things(read, k):
    first = Matchable.of(read("graf", 1))
    for other in ("boat", "leuven", "ubc"):
        assert verify(first, Matchable.of(read(other, k)), turn=np.pi).evidence < 20
