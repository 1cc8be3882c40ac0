"""Hessian-affine features as a whole: properties, covariance, invariance, refused settings."""

import contextlib
import math
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import PIL.Image
import pytest
from scipy.spatial import cKDTree
from sklearn.base import clone
from sklearn.datasets import load_sample_image
from threadpoolctl import threadpool_limits

from faemb import persistence
from faemb.errors import InputError
from faemb.features.extractor import in_original_pixels
from faemb.features.hessian_affine import HessianAffine, root_sift
from faemb.features.hessian_affine.detector import Regions, turned, upright, within
from faemb.features.hessian_affine.patches import Gradients
from faemb.features.image import Image, as_image
from faemb.features.local_features import LocalFeatures

CHANGES: dict[str, Any] = {
    "max_features": 50,
    "rotation_invariant": True,
    "root": False,
    "affine": False,
    "max_side": 200,
    "enlarge": True,
    "threshold": 10.0,
    "edge_ratio": 5.0,
    "per_octave": 2,
    "sigma": 2.0,
    "iterations": 8,
    "convergence": 0.1,
    "measurement": 4.0,
    "patch": 31,
}
"""Every setting with a value that is not its default."""


@pytest.fixture(scope="module")
def photograph() -> np.ndarray:
    """Part of a photograph, grey. Sides of the form 128 n + 1: turned, all octaves have the same pixels."""
    return np.ascontiguousarray(cv2.cvtColor(load_sample_image("china.jpg"), cv2.COLOR_RGB2GRAY)[:385, :513])


@pytest.fixture(scope="module")
def features(photograph: np.ndarray) -> LocalFeatures:
    return HessianAffine().extract(photograph)


@pytest.fixture(scope="module")
def turning(photograph: np.ndarray) -> LocalFeatures:
    return HessianAffine(rotation_invariant=True).extract(photograph)


@pytest.fixture
def small(photograph: np.ndarray) -> np.ndarray:
    """A detail of 161 x 129 pixels, with some hundred features."""
    return np.ascontiguousarray(photograph[150:279, 180:341])


def check_contract(found: LocalFeatures, size: tuple[int, int]) -> None:
    """What holds for the features of any image."""
    count = len(found.scores)
    assert len(found) == count
    assert (found.descriptors.shape, found.frames.shape, found.scores.shape) == ((count, 128), (count, 6), (count,))
    for array in (found.descriptors, found.frames, found.scores):
        assert array.dtype == np.float32
        assert array.flags.c_contiguous
        assert np.isfinite(array).all()
    assert found.image_size == size
    assert (np.diff(found.scores) <= 0).all()
    assert (found.scores > 0).all()
    np.testing.assert_allclose(np.linalg.norm(found.descriptors, axis=1), 1, rtol=1e-5)
    assert (np.linalg.det(found.shapes) > 0).all()
    extent = np.linalg.norm(found.shapes, axis=2)
    assert (found.centres - extent >= -1e-3).all()
    assert (found.centres + extent <= np.array(size) - 1 + 1e-3).all()


def assert_same_bits(one: LocalFeatures, other: LocalFeatures) -> None:
    assert len(one) > 0
    for name in ("descriptors", "frames", "scores"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def assert_close(one: LocalFeatures, other: LocalFeatures, atol: float) -> None:
    assert len(one) > 0
    np.testing.assert_allclose(one.frames, other.frames, atol=atol)
    np.testing.assert_allclose(one.descriptors, other.descriptors, atol=atol)


def refound(centres: np.ndarray, shapes: np.ndarray, found: LocalFeatures, descriptors: np.ndarray) -> np.ndarray:
    """Similarity of each descriptor to that of the region with its place and shape; 0 if there is none."""
    tree = cKDTree(found.centres)
    similar = np.zeros(len(centres))
    for i, near in enumerate(tree.query_ball_point(centres, 0.5)):
        for j in near:
            if np.linalg.norm(found.shapes[j] - shapes[i]) < 0.1 * np.linalg.norm(shapes[i]):
                similar[i] = max(similar[i], float(descriptors[i] @ found.descriptors[j]))
    return similar


# Properties


@pytest.mark.parametrize("setting", [None, *CHANGES])
def test_features_keep_the_contract_under_every_setting(setting: str | None, small: np.ndarray) -> None:
    extractor = HessianAffine(**{setting: CHANGES[setting]} if setting else {})
    found = extractor.extract(small)
    check_contract(found, (161, 129))
    assert len(found) > 20
    assert found.fingerprint == extractor.fingerprint


def test_a_photograph_has_many(features: LocalFeatures, turning: LocalFeatures) -> None:
    check_contract(features, (513, 385))
    check_contract(turning, (513, 385))
    assert len(features) > 600
    assert len(turning) > len(features)


def test_upright_shapes_are_lower_triangular(features: LocalFeatures) -> None:
    """What is vertical in the image is vertical in the patch."""
    a11, a12, _, a22 = features.frames[:, 2:].T
    assert (a12 == 0).all()
    assert (a11 > 0).all()
    assert (a22 > 0).all()


def test_turned_regions_are_the_same_ellipses(features: LocalFeatures, turning: LocalFeatures) -> None:
    """Each once for every dominant orientation: A A^T is that of the upright region."""

    def ellipses(found: LocalFeatures) -> np.ndarray:
        squares = found.shapes @ found.shapes.transpose(0, 2, 1)
        return np.concatenate([found.centres, squares.reshape(-1, 4) / np.linalg.det(found.shapes)[:, None]], axis=1)

    distance, twin = cKDTree(ellipses(features)).query(ellipses(turning))
    assert distance.max() < 1e-2
    assert set(twin.tolist()) == set(range(len(features)))
    np.testing.assert_array_equal(turning.scores, features.scores[twin])


def test_without_adaptation_regions_are_discs(small: np.ndarray) -> None:
    found = HessianAffine(affine=False).extract(small)
    radii = found.shapes[:, 0, 0]
    np.testing.assert_array_equal(found.shapes, radii[:, None, None] * np.eye(2, dtype=np.float32))
    assert radii.min() >= 3 * math.sqrt(3) * 1.6 * 2 ** (0.4 / 3) * 0.999  # the first level, less 0.6 of a step
    adapted = HessianAffine().extract(small)
    places = {tuple(centre) for centre in found.centres.tolist()}
    assert np.mean([tuple(centre) in places for centre in adapted.centres.tolist()]) > 0.9


def test_a_blob_has_the_size_and_the_shape_of_its_covariance() -> None:
    """Radius 3 sqrt(3) sigma, where sigma is the geometric mean of the blob's axes.

    The shape is seen in the level below the extremum, here blurred by 2^(5/3) 1.6, and so is a little rounder.
    """
    y, x = np.mgrid[:161, :161]
    spread = np.array([[50.0, 20.0], [20.0, 30.0]])
    offsets = np.stack([x - 80, y - 75], axis=-1)
    image = 0.1 + 0.8 * np.exp(-0.5 * np.einsum("...i,ij,...j", offsets, np.linalg.inv(spread), offsets))
    found = HessianAffine(max_features=5).extract(image)
    np.testing.assert_allclose(found.centres[0], [80, 75], atol=0.2)
    sigma = np.linalg.det(spread) ** 0.25
    seen = np.linalg.cholesky(spread + (1.6**2 * 2 ** (10 / 3) - 0.25) * np.eye(2))
    expected = 3 * math.sqrt(3) * sigma * seen / math.sqrt(np.linalg.det(seen))
    np.testing.assert_allclose(found.shapes[0], expected, atol=0.03 * expected.max())


def test_measurement_scales_the_regions_alone(small: np.ndarray) -> None:
    wide, narrow = (HessianAffine(measurement=m).extract(small) for m in (4.0, 2.0))
    assert len(narrow) >= len(wide) > 20  # a smaller region more often lies within the image
    rows = {tuple(frame[:2]): k for k, frame in enumerate(narrow.frames.tolist())}
    twins = [rows[tuple(centre)] for centre in wide.centres.tolist()]
    np.testing.assert_allclose(wide.shapes, 2 * narrow.shapes[twins], rtol=1e-5)


def test_plain_sift_is_what_the_root_is_taken_of(small: np.ndarray, rng: np.random.Generator) -> None:
    plain, rooted = (HessianAffine(root=root).extract(small) for root in (False, True))
    np.testing.assert_array_equal(plain.frames, rooted.frames)
    np.testing.assert_allclose(root_sift(plain.descriptors), rooted.descriptors, atol=1e-6)


def test_enlarging_adds_small_regions_and_keeps_the_others(small: np.ndarray) -> None:
    plain, fine = (HessianAffine(enlarge=enlarge).extract(small) for enlarge in (False, True))
    check_contract(fine, (161, 129))
    assert len(fine) > 2 * len(plain)
    again = refound(plain.centres, plain.shapes, fine, plain.descriptors)
    assert np.mean(again > 0.9) > 0.7
    sizes = [np.sqrt(np.linalg.det(each.shapes)) for each in (plain, fine)]
    assert sizes[1].min() < 0.6 * sizes[0].min()


# The strongest


@pytest.mark.parametrize("most", [3, 300])
@pytest.mark.parametrize("rotation_invariant", [False, True])
def test_the_strongest_are_the_first_of_all(
    most: int, rotation_invariant: bool, photograph: np.ndarray, features: LocalFeatures, turning: LocalFeatures
) -> None:
    everything = turning if rotation_invariant else features
    found = HessianAffine(max_features=most, rotation_invariant=rotation_invariant).extract(photograph)
    assert len(found) == most
    check_contract(found, (513, 385))
    assert_close(found, everything.select(slice(most)), atol=1e-3)


@pytest.mark.parametrize(("size", "most"), [("detail", 20), ("photograph", 1)])
def test_an_image_with_enough_features_gives_as_many_as_are_asked_for(size: str, most: int, small: np.ndarray) -> None:
    """Also where more than a third of the strongest do not converge or leave the image."""
    image = small if size == "detail" else load_sample_image("china.jpg")
    assert len(HessianAffine().extract(image)) > 80
    assert len(HessianAffine(max_features=most).extract(image)) == most


def test_more_than_there_are_is_all_of_them(small: np.ndarray) -> None:
    assert_same_bits(HessianAffine(max_features=100_000).extract(small), HessianAffine().extract(small))


# Covariance


@pytest.mark.parametrize("quarters", [1, 2])
def test_a_turned_image_has_the_same_features_turned(
    quarters: int, photograph: np.ndarray, turning: LocalFeatures
) -> None:
    """94 % and more are found again, with shape, orientation and nearly the same descriptor.

    The rest have a second orientation near the limit of 0.8. np.rot90 takes (x, y) to (y, W - 1 - x).
    """
    quarter = np.array([[0.0, 1.0], [-1.0, 0.0]])
    centres, shapes = turning.centres.astype(float), turning.shapes.astype(float)
    width, height = 513, 385
    for _ in range(quarters):
        centres = centres @ quarter.T + [0, width - 1]
        shapes = quarter @ shapes
        width, height = height, width
    after = HessianAffine(rotation_invariant=True).extract(np.rot90(photograph, quarters))
    similar = refound(centres, shapes, after, turning.descriptors)
    assert np.mean(similar > 0.98) > 0.9
    assert np.median(similar) > 0.999


def test_upright_features_do_not_follow_a_turn(photograph: np.ndarray, features: LocalFeatures) -> None:
    """The regions do, the descriptors do not: up is up."""
    after = HessianAffine().extract(np.rot90(photograph, 2))
    distance, twin = cKDTree(after.centres).query([512, 384] - features.centres)
    same = distance < 0.1
    assert same.mean() > 0.95
    similar = np.einsum("nd,nd->n", features.descriptors, after.descriptors[twin])[same]
    assert np.median(similar) < 0.9


@pytest.mark.parametrize(("right", "down"), [(32, 64)])
def test_what_is_seen_does_not_depend_on_where_the_image_ends(
    right: int, down: int, photograph: np.ndarray, features: LocalFeatures
) -> None:
    """A part of the image has the features of the whole, moved; small ones away from the cut, nearly exactly."""
    part = HessianAffine().extract(photograph[down:, right:])
    moved = features.centres - [right, down]
    radius = np.linalg.norm(features.shapes, axis=(1, 2))
    far = (moved > 80).all(axis=1) & (radius < 40)
    assert far.sum() > 100
    similar = refound(moved[far], features.shapes[far], part, features.descriptors[far])
    assert np.mean(similar > 0.999) > 0.98


def overlap(one: np.ndarray, other: np.ndarray, offset: np.ndarray) -> float:
    """Intersection over union of two ellipses, counted on a grid, the first as the unit disc."""
    k = np.linspace(-2, 2, 41)
    grid = np.stack(np.broadcast_arrays(k, k[:, None]), axis=-1).reshape(-1, 2)
    first = (grid**2).sum(axis=1) <= 1
    second = (np.linalg.solve(other, (grid @ one.T - offset).T) ** 2).sum(axis=0) <= 1
    return float((first & second).sum() / (first | second).sum())


@pytest.mark.parametrize(
    "warp", np.array([[[0.9, 0.25], [-0.1, 0.8]], [[1.1, -0.3], [0.2, 0.9]]]), ids=["smaller", "larger"]
)
def test_regions_follow_an_affine_warp(warp: np.ndarray, photograph: np.ndarray, features: LocalFeatures) -> None:
    """A clear majority of the 300 strongest that are still in view is found at the warped position."""
    middle = np.array([256.0, 192.0])
    matrix = np.column_stack([warp, middle - warp @ middle])
    warped = cv2.warpAffine(photograph, matrix, (513, 385), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
    before = features.select(slice(300))
    after = HessianAffine(max_features=600).extract(warped)
    centres, shapes = before.centres @ warp.T + matrix[:, 2], warp @ before.shapes
    visible = within(centres, shapes, (513, 385))
    assert visible.sum() > 150
    tree = cKDTree(after.centres)
    best = [
        max(
            (
                overlap(shapes[i], after.shapes[j].astype(float), after.centres[j] - centres[i])
                for j in tree.query_ball_point(centres[i], 3.0)
            ),
            default=0.0,
        )
        for i in np.flatnonzero(visible)
    ]
    assert np.mean(np.array(best) > 0.6) > 0.6


@pytest.mark.parametrize("shape", [(1155, 1539), (1100, 1539)], ids=["alike", "squeezed"])
def test_frames_are_in_pixels_of_the_image_as_it_was(
    shape: tuple[int, int], photograph: np.ndarray, features: LocalFeatures
) -> None:
    """An image enlarged threefold and reduced again by max_side: the same features, at their places there."""
    height, width = shape
    large = cv2.resize(photograph, (width, height), interpolation=cv2.INTER_CUBIC)
    extractor = HessianAffine(max_side=513)
    found = extractor.extract(large)
    check_contract(found, (width, height))
    scale = np.array([width / 513, height / 385])
    distance, twin = cKDTree(found.centres).query((features.centres + 0.5) * scale - 0.5)
    if shape == (1155, 1539):
        near = distance < 1
        assert near.mean() > 0.93
        ratio = np.sqrt(np.linalg.det(found.shapes[twin[near]]) / np.linalg.det(features.shapes[near]))
        assert np.median(ratio) == pytest.approx(3, rel=0.02)
    else:
        assert np.mean(distance < 3) > 0.6


def test_reduction_is_undone_along_each_axis() -> None:
    """A pixel of 2 x 4: places by centres of pixels, and rows of the shape by their own scale."""
    image = Image(np.zeros((10, 20), np.uint8), (40, 40), "a")
    frames = np.array([[0, 0, 1, 0, 0, 1], [19, 9, 2, 1, 3, 5]], np.float32)
    expected = [[0.5, 1.5, 2, 0, 0, 4], [38.5, 37.5, 4, 2, 12, 20]]
    np.testing.assert_array_equal(in_original_pixels(frames, image), expected)


# Invariance


@pytest.mark.parametrize("rotation_invariant", [False, True])
def test_the_same_image_gives_the_same_bits(rotation_invariant: bool, small: np.ndarray) -> None:
    extractor = HessianAffine(rotation_invariant=rotation_invariant)
    assert_same_bits(extractor.extract(small), extractor.extract(small))
    assert_same_bits(
        extractor.extract(small), HessianAffine(rotation_invariant=rotation_invariant).extract(small.copy())
    )


def test_one_thread_gives_the_same_bits(photograph: np.ndarray, turning: LocalFeatures) -> None:
    """As workers of a parallel job run."""
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        with threadpool_limits(1):
            alone = HessianAffine(rotation_invariant=True).extract(photograph)
    finally:
        cv2.setNumThreads(threads)
    assert_same_bits(turning, alone)


def test_a_file_gives_the_same_bits_as_its_pixels(small: np.ndarray, tmp_path: Path) -> None:
    colour = load_sample_image("china.jpg")[150:279, 180:341]
    extractor = HessianAffine()
    for name, pixels in (("grey.png", small), ("colour.png", colour)):
        PIL.Image.fromarray(pixels).save(tmp_path / name)
        expected = extractor.extract(pixels)
        assert_same_bits(extractor.extract(tmp_path / name), expected)
        assert_same_bits(extractor.extract(str(tmp_path / name)), expected)
        assert_same_bits(extractor.extract(as_image(pixels, None)), expected)


def test_types_of_pixels_agree(small: np.ndarray) -> None:
    extractor = HessianAffine()
    expected = extractor.extract(small)
    assert_same_bits(extractor.extract(np.repeat(small[..., None], 3, axis=2)), expected)
    for same in (small.astype(np.uint16) * 257, small / np.float32(255), small / 255.0):
        assert_close(extractor.extract(same), expected, atol=5e-3)
    black_and_white = cv2.resize((small[::4, ::4] > 120).astype(np.uint8), None, fx=6, fy=6) > 0
    assert_same_bits(extractor.extract(black_and_white), extractor.extract(black_and_white * np.uint8(255)))


def test_views_are_taken_and_the_image_is_not_changed(small: np.ndarray) -> None:
    given = small.copy()
    small.flags.writeable = False
    assert_same_bits(HessianAffine().extract(small[:, ::-1]), HessianAffine().extract(small[:, ::-1].copy()))
    np.testing.assert_array_equal(small, given)


@pytest.mark.parametrize(("contrast", "brightness"), [(1.0, 0.08), (1.1, 0.02)])
def test_brightness_and_a_little_contrast_leave_the_descriptors(
    contrast: float, brightness: float, photograph: np.ndarray
) -> None:
    """Higher contrast adds weak features; the others stay."""
    image = 0.1 + 0.6 * photograph / 255
    before, after = (HessianAffine().extract(each) for each in (image, contrast * image + brightness))
    similar = refound(before.centres, before.shapes, after, before.descriptors)
    assert np.mean(similar > 0.9999) > 0.99


def test_an_extractor_keeps_nothing_of_an_image(small: np.ndarray, photograph: np.ndarray) -> None:
    extractor = HessianAffine()
    before = vars(extractor).copy()
    first = extractor.extract(small)
    extractor.extract(photograph[:100, :100])
    assert vars(extractor) == before
    assert_same_bits(extractor.extract(small), first)


# Parts


def test_upright_is_the_cholesky_factor(rng: np.random.Generator) -> None:
    shapes = rng.normal(size=(50, 2, 2))
    shapes[np.linalg.det(shapes) < 0, 0] *= -1
    expected = np.linalg.cholesky(shapes @ shapes.transpose(0, 2, 1))
    np.testing.assert_allclose(upright(shapes), expected, atol=1e-9)
    assert upright(np.zeros((0, 2, 2))).shape == (0, 2, 2)


def test_within_asks_every_point_of_the_ellipse(rng: np.random.Generator) -> None:
    centres, shapes = rng.uniform(-2, 32, (300, 2)), rng.normal(size=(300, 2, 2)) * 4
    angles = np.linspace(0, 2 * np.pi, 720)
    rim = np.stack([np.cos(angles), np.sin(angles)])
    expected = []
    for centre, shape in zip(centres, shapes, strict=True):
        x, y = centre[:, None] + shape @ rim
        expected.append(x.min() >= 0 and y.min() >= 0 and x.max() <= 29 and y.max() <= 24)
    assert 20 < sum(expected) < 280
    np.testing.assert_array_equal(within(centres, shapes, (30, 25)), expected)


def test_turned_points_the_first_axis_along_the_gradient(rng: np.random.Generator) -> None:
    """A patch with a gradient at angle t is looked at so that t lies along x; a flat one is dropped."""
    angles = np.array([0.3, 2.0, 5.5])
    each = np.ones((4, 41, 41), np.float32)
    lengths = np.array([1, 1, 0, 1], np.float32)[:, None, None]
    directions = np.array([angles[0], angles[1], 0, angles[2]])[:, None, None]
    seen = Gradients(
        (each * lengths * np.cos(directions)).astype(np.float32),
        (each * lengths * np.sin(directions)).astype(np.float32),
    )
    shapes = rng.normal(size=(4, 2, 2))
    regions = Regions(rng.uniform(0, 9, (4, 2)), shapes, np.array([4.0, 3.0, 2.0, 1.0]))
    result = turned(regions, seen)
    assert result.scores.tolist() == [4, 3, 1]
    np.testing.assert_array_equal(result.centres, regions.centres[[0, 1, 3]])
    for shape, before, angle in zip(result.shapes, shapes[[0, 1, 3]], angles, strict=True):
        np.testing.assert_allclose(shape @ [1, 0], before @ [np.cos(angle), np.sin(angle)], atol=0.02)
        assert np.linalg.det(shape) == pytest.approx(np.linalg.det(before))


# Images with few or no features


@pytest.mark.parametrize(
    "shape", [(1, 1), (3, 3), (1, 500), (12, 12), (200, 12), (13, 13), (5, 3000), (3000, 5), (14, 40)]
)
@pytest.mark.parametrize("settings", [{}, {"rotation_invariant": True}, {"enlarge": True}], ids=str)
def test_small_and_thin_images_have_few_features_or_none(
    shape: tuple[int, int], settings: dict, rng: np.random.Generator
) -> None:
    noise = rng.integers(0, 256, shape).astype(np.uint8)
    found = HessianAffine(**settings).extract(noise)
    check_contract(found, shape[::-1])
    if min(shape) < 13:
        assert len(found) == 0


@pytest.mark.parametrize("level", [0, 255])
@pytest.mark.parametrize("settings", [{"rotation_invariant": True}, {"threshold": 0.0}, {"enlarge": True}], ids=str)
def test_a_flat_image_has_none(level: int, settings: dict) -> None:
    found = HessianAffine(**settings).extract(np.full((60, 80), level, np.uint8))
    assert len(found) == 0
    check_contract(found, (80, 60))
    assert found.fingerprint == HessianAffine(**settings).fingerprint


@pytest.mark.parametrize("settings", [{"rotation_invariant": True}, {"affine": False}], ids=str)
@pytest.mark.parametrize("cell", [1, 2, 13])
def test_a_checkerboard_keeps_the_contract(cell: int, settings: dict) -> None:
    rows, columns = np.indices((80, 90)) // cell
    board = ((rows + columns) % 2 * 255).astype(np.uint8)
    check_contract(HessianAffine(**settings).extract(board), (90, 80))


@pytest.mark.parametrize("cell", [1, 3])
def test_noise_keeps_the_contract(cell: int, rng: np.random.Generator) -> None:
    noise = rng.integers(0, 256, (80, 90)).astype(np.uint8)
    found = HessianAffine(rotation_invariant=True).extract(noise.repeat(cell, axis=0).repeat(cell, axis=1))
    check_contract(found, (90 * cell, 80 * cell))
    assert len(found) > 20


@pytest.mark.parametrize(("angle", "width"), [(0, 0.1), (45, 0.1), (30, 1.5), (45, 1.5)])
def test_a_straight_edge_has_none(angle: float, width: float) -> None:
    y, x = np.mgrid[-50:51, -50:51]
    side = x * math.cos(math.radians(angle)) + y * math.sin(math.radians(angle))
    assert len(HessianAffine().extract(0.5 + 0.5 * np.tanh(side / width))) == 0


def test_nothing_is_found_twice() -> None:
    """Dots whose centre lies between pixels, as in drawings: the response has several equal pixels."""
    y, x = np.mgrid[:80, :80] % 40 - 20.5
    found = HessianAffine().extract(x**2 + y**2 <= 16)
    assert len(found) > 10
    assert cKDTree(found.centres).query_pairs(0.3) == set()


@pytest.mark.parametrize("settings", [{}, {"enlarge": True}], ids=str)
def test_features_appear_once_an_image_is_large_enough(settings: dict) -> None:
    """A blob in the middle of an ever larger image: none, then one at its middle."""
    counts = []
    for side in range(1, 60, 6):
        k = np.arange(side) - side // 2
        found = HessianAffine(**settings).extract(0.9 * np.exp(-(k[:, None] ** 2 + k**2) / (2 * 2.5**2)))
        check_contract(found, (side, side))
        counts.append(int((np.abs(found.centres - side // 2) < 0.3).all(axis=1).sum()))
    assert counts[0] == 0
    assert counts[-1] == 1
    assert counts == sorted(counts)


@pytest.mark.parametrize(
    ("image", "fault"),
    [
        (np.full((50, 50), np.nan), "the array holds NaN or infinity"),
        (np.full((50, 50), 200.0), "the array reaches 200, but floats are taken as 0..1"),
        (np.zeros((50, 50), np.int32), "the array holds int32"),
        (np.zeros((0, 50), np.uint8), "not empty"),
        (np.zeros((50, 50, 2), np.uint8), "has the shape"),
        (None, "an image is given as NoneType"),
    ],
)
def test_what_is_no_image_is_refused(image: Any, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        HessianAffine().extract(image)


@pytest.mark.parametrize("shape", [(20, 16_400), (16_400, 20)])
def test_an_image_too_long_to_be_enlarged_is_described_or_refused(
    shape: tuple[int, int], rng: np.random.Generator
) -> None:
    image = cv2.GaussianBlur(rng.uniform(0, 1, shape), (0, 0), 1.0)
    with contextlib.suppress(InputError):
        check_contract(HessianAffine(max_side=None, enlarge=True).extract(image), shape[::-1])


# Settings


def with_settings(settings: dict) -> HessianAffine:
    """Set after construction: in tests, but not in use, the constructor's types are checked."""
    return HessianAffine().set_params(**settings)


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"max_features": 0}, "max_features is 0; expected a whole number, 1 or more"),
        ({"max_features": -1}, "max_features is -1"),
        ({"max_features": 2.0}, "max_features is 2.0"),
        ({"max_features": True}, "max_features is True"),
        ({"max_features": "10"}, "max_features is '10'"),
        ({"max_side": 15}, "max_side is 15; expected a whole number, 16 to"),
        ({"max_side": 100.0}, "max_side is 100.0"),
        ({"threshold": -0.1}, "threshold is -0.1; expected a number, at least 0"),
        ({"threshold": math.nan}, "threshold is nan"),
        ({"threshold": math.inf}, "threshold is inf"),
        ({"threshold": "5"}, "threshold is '5'"),
        ({"threshold": None}, "threshold is None"),
        ({"edge_ratio": 0.9}, "edge_ratio is 0.9; expected a number, at least 1"),
        ({"edge_ratio": math.inf}, "edge_ratio is inf"),
        ({"per_octave": 0}, "per_octave is 0; expected a whole number, 1 to 16"),
        ({"per_octave": 17}, "per_octave is 17"),
        ({"per_octave": 3.0}, "per_octave is 3.0"),
        ({"sigma": 1.0}, "sigma is 1.0; expected a number, at least 1.1, at most 8"),
        ({"sigma": 9}, "sigma is 9"),
        ({"iterations": 1}, "iterations is 1; expected a whole number, 2"),
        ({"iterations": None}, "iterations is None"),
        ({"convergence": 0}, "convergence is 0; expected a number, more than 0"),
        ({"convergence": 1.5}, "convergence is 1.5"),
        ({"measurement": 0.0}, "measurement is 0.0; expected a number"),
        ({"measurement": -3}, "measurement is -3"),
        ({"patch": 8}, "patch is 8; expected"),
        ({"patch": 1000}, "patch is 1000"),
        ({"patch": 41.0}, "patch is 41.0"),
    ],
    ids=lambda value: ", ".join(f"{name}={each!r}" for name, each in value.items()) if isinstance(value, dict) else "",
)
def test_settings_that_cannot_be_used_are_explained(settings: dict, fault: str, small: np.ndarray) -> None:
    with pytest.raises(InputError, match=fault):
        with_settings(settings).extract(small)


@pytest.mark.parametrize(
    "settings",
    [
        {"patch": 40},
        {"patch": 183},
        {"patch": 255},
        {"root": "no"},
        {"affine": None},
        {"enlarge": 2},
        {"rotation_invariant": "no"},
        {"threshold": 1e200},
        {"edge_ratio": 1e200},
        {"measurement": 1e308},
        {"measurement": 1e-300},
    ],
    ids=str,
)
def test_more_settings_that_cannot_be_used_are_explained(settings: dict, small: np.ndarray) -> None:
    with pytest.raises(InputError, match=next(iter(settings))):
        with_settings(settings).extract(small)


@pytest.mark.parametrize("patch", [9, 21, 181])
def test_patches_of_every_allowed_size_work(patch: int, small: np.ndarray) -> None:
    found = HessianAffine(max_features=20, patch=patch).extract(small)
    check_contract(found, (161, 129))
    assert len(found) == 20


@pytest.mark.parametrize(
    "settings",
    [
        {"max_features": np.int64(20)},
        {"threshold": np.float64(8), "measurement": np.float64(4)},
        {"patch": np.int64(31)},
    ],
    ids=str,
)
def test_numbers_of_numpy_are_numbers(settings: dict, small: np.ndarray) -> None:
    plain = {name: value.item() for name, value in settings.items()}
    found, expected = (with_settings(each).extract(small) for each in (settings, plain))
    assert_close(found, expected, atol=1e-3)
    assert found.fingerprint == expected.fingerprint


def test_every_setting_has_its_own_fingerprint() -> None:
    assert set(CHANGES) == set(HessianAffine().get_params())
    marks = {HessianAffine(**{name: value}).fingerprint for name, value in CHANGES.items()}
    assert len(marks | {HessianAffine().fingerprint}) == len(CHANGES) + 1
    assert HessianAffine().fingerprint == HessianAffine(max_features=None).fingerprint
    assert HessianAffine(**CHANGES).fingerprint == HessianAffine(**CHANGES).fingerprint


@pytest.mark.parametrize("settings", [{}, CHANGES, {"max_features": 7}], ids=["default", "all changed", "one"])
def test_saved_and_loaded_it_is_the_same(settings: dict, small: np.ndarray, tmp_path: Path) -> None:
    extractor = HessianAffine(**settings)
    mark = persistence.save(extractor, tmp_path / "extractor.faemb")
    loaded = persistence.load(tmp_path / "extractor.faemb")
    assert isinstance(loaded, HessianAffine)
    assert loaded.get_params() == extractor.get_params()
    assert loaded.fingerprint == mark == extractor.fingerprint
    assert_same_bits(loaded.extract(small), extractor.extract(small))


def test_a_clone_is_the_same() -> None:
    extractor = HessianAffine(**CHANGES)
    copy = clone(extractor)
    assert copy is not extractor
    assert copy.get_params() == CHANGES
    assert copy.fingerprint == extractor.fingerprint
    assert copy.set_params(patch=21).fingerprint != extractor.fingerprint


# Real photographs


def correct_matches(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray], homography: np.ndarray
) -> int:
    """Mutual nearest neighbours that the homography takes within 3 pixels of each other."""
    similarity = first[1] @ second[1].T
    forth, back = similarity.argmax(axis=1), similarity.argmax(axis=0)
    rows = np.flatnonzero(back[forth] == np.arange(len(forth)))
    ahead = np.column_stack([first[0][rows], np.ones(len(rows))]) @ homography.T
    return int((np.linalg.norm(ahead[:, :2] / ahead[:, 2:] - second[0][forth[rows]], axis=1) < 3).sum())


def ours(path: Path, rotation_invariant: bool) -> tuple[np.ndarray, np.ndarray]:
    found = HessianAffine(max_features=1000, rotation_invariant=rotation_invariant).extract(path)
    return found.centres, found.descriptors


def opencv(path: Path) -> tuple[np.ndarray, np.ndarray]:
    image = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    assert image is not None
    keypoints, descriptors = cv2.SIFT.create(1000).detectAndCompute(image, None)
    return np.array([keypoint.pt for keypoint in keypoints]), root_sift(descriptors)


@pytest.mark.parametrize(("sequence", "rotation_invariant", "floor"), [("graf", False, 155), ("boat", True, 310)])
def test_photographs_of_one_scene_match(data: Path, sequence: str, rotation_invariant: bool, floor: int) -> None:
    """Four fifths of 194 and 388 correct matches of 1000 features: a change of view, and a turn with zoom."""
    folder = data / "affine" / sequence
    first, second = (ours(folder / f"img{k}.png", rotation_invariant) for k in (1, 3))
    assert correct_matches(first, second, np.loadtxt(folder / "H1to3p.txt")) >= floor


def test_a_change_of_view_is_matched_at_least_as_well_as_by_sift(data: Path) -> None:
    """271 to 254 on graf, 1 to 3: both rotation-invariant, both RootSIFT."""
    folder = data / "affine" / "graf"
    homography = np.loadtxt(folder / "H1to3p.txt")
    affine, round_ = (
        correct_matches(method(folder / "img1.png"), method(folder / "img3.png"), homography)
        for method in (lambda path: ours(path, True), opencv)
    )
    assert affine >= 217
    assert affine >= round_
