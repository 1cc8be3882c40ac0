"""Matching: mutual nearest neighbours with a ratio test, each feature at most once."""

from dataclasses import replace

import numpy as np
import pytest
from planted import SIZE, descriptors, prepared, regions, scene

from faemb.features import LocalFeatures
from faemb.features.local_features import frames_from, without_geometry
from faemb.rerank import UPRIGHT, Matchable, matches, matching, verify
from reference import matches_by_the_book


def alike(features: LocalFeatures, rng: np.random.Generator, noise: float) -> LocalFeatures:
    """The same features with changed descriptors."""
    changed = features.descriptors + noise * rng.standard_normal(features.descriptors.shape)
    return replace(features, descriptors=changed.astype(np.float32))


@pytest.mark.parametrize("noise", [0.02, 0.1, 0.2])
@pytest.mark.parametrize("counts", [(60, 40), (1, 30), (30, 1), (1, 1), (2, 2)], ids=str)
def test_as_by_the_book(rng, counts, noise):
    both = scene(rng, 80)
    a, b = prepared(alike(both, rng, noise).select(slice(counts[0])), both.select(slice(counts[1])))
    assert [tuple(pair) for pair in matches(a, b).tolist()] == matches_by_the_book(a.descriptors, b.descriptors, 0.9)


@pytest.mark.parametrize("ratio", [0.5, 0.8, 0.95])
def test_a_smaller_ratio_keeps_fewer(rng, ratio):
    both = scene(rng, 70)
    a, b = prepared(alike(both, rng, 0.12), both)
    found = {tuple(pair) for pair in matches(a, b, ratio).tolist()}
    assert found == set(matches_by_the_book(a.descriptors, b.descriptors, ratio))
    assert found <= {tuple(pair) for pair in matches(a, b, 1.0).tolist()}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_descriptor_of_no_numbers_is_left_out(rng, value):
    both = scene(rng, 40)
    changed = alike(both, rng, 0.05)
    changed.descriptors[7, 3] = value
    found = matches(Matchable.of(changed), Matchable.of(both))
    assert Matchable.of(changed).rows.tolist() == [row for row in range(40) if row != 7]
    assert len(found) >= 35
    others = np.delete(np.arange(40), 7)
    np.testing.assert_array_equal(found, matches(Matchable.of(changed.select(others)), Matchable.of(both)))


@pytest.mark.parametrize("size", [(640, 0), (0, 480), (0, 0)])
def test_a_size_without_area_is_unknown(rng, size):
    features = replace(scene(rng, 40), image_size=size)
    prepared_ones = Matchable.of(features)
    assert prepared_ones.size == pytest.approx(tuple(features.centres.max(0)))
    assert np.isfinite(verify(prepared_ones, prepared_ones, turn=UPRIGHT).evidence)


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_the_same_however_many_similarities_are_held_at_once(rng, monkeypatch, step):
    both = scene(rng, 50)
    a, b = prepared(alike(both, rng, 0.1), both)
    whole = matches(a, b)
    monkeypatch.setattr(matching, "_AT_ONCE", step * len(b))
    np.testing.assert_array_equal(matches(a, b), whole)


def test_the_nearest_pairs_come_first_and_each_feature_once(rng):
    both = scene(rng, 100)
    a, b = prepared(alike(both, rng, 0.1), both)
    found = matches(a, b)
    similarity = (a.descriptors[found[:, 0]] * b.descriptors[found[:, 1]]).sum(1)
    assert (np.diff(similarity) <= 1e-6).all()
    assert all(len(set(column)) == len(found) > 50 for column in found.T.tolist())


class TestSubspace:
    def test_holds_what_descriptors_are(self, rng):
        """Of descriptors near a plane, the plane; of all others, almost all directions."""
        plane = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 128))
        flat = Matchable.of(replace(scene(rng, 300), descriptors=plane.astype(np.float32)))
        assert flat.subspace.shape == (128, 2)
        np.testing.assert_allclose(flat.shortened @ flat.subspace.T, flat.descriptors, atol=1e-5)
        np.testing.assert_allclose(flat.subspace.T @ flat.subspace, np.eye(2), atol=1e-5)

    def test_of_zeros(self, rng):
        one = scene(rng, 5)
        nothing = replace(one, descriptors=np.zeros_like(one.descriptors))
        assert len(matches(*prepared(nothing, one))) == len(matches(*prepared(one, nothing))) == 0

    def test_the_ratio_test_is_exact(self, rng):
        """A descriptor that is partly outside of the subspace, where the second nearest is nearer than it seems."""
        axes = np.eye(128)
        plane = np.repeat([0.8 * axes[0] + 0.6 * axes[1], 0.8 * axes[0] - 0.6 * axes[1]], 50, axis=0)
        first = np.concatenate([plane, [0.95 * axes[0] + 0.31 * axes[5]]]).astype(np.float32)
        second = np.stack([axes[0], 0.9 * axes[0] + 0.44 * axes[5]]).astype(np.float32)
        a, b = prepared(*(replace(scene(rng, len(each)), descriptors=each) for each in (first, second)))
        assert a.subspace.shape == (128, 2)
        assert [rows.tolist() for rows in matching._mutual(a.shortened, b.descriptors @ a.subspace)] == [
            [100],
            [0],
            [1],
        ]
        assert matches(a, b).tolist() == []


class TestEqualDescriptors:
    def test_in_the_first_image_the_first_of_them_matches(self, rng):
        a, b = scene(rng, 3), scene(rng, 3)
        same = replace(a, descriptors=b.descriptors[[1, 1, 1]])
        assert matches(*prepared(same, b)).tolist() == [[0, 1]]

    def test_in_the_second_image_none_is_nearest(self, rng):
        """Even where their products with a third are rounded to more than 1."""
        for _ in range(200):
            one = descriptors(rng, 1)
            a, b = scene(rng, 1), scene(rng, 2)
            found = matches(*prepared(replace(a, descriptors=one), replace(b, descriptors=one[[0, 0]])))
            assert found.tolist() == []

    def test_all_equal_in_both(self, rng):
        a = replace(scene(rng, 20), descriptors=descriptors(rng, 1)[np.zeros(20, int)])
        assert len(matches(*prepared(a, a))) == 0

    def test_zeros_match_nothing_but_do_no_harm(self, rng):
        a = scene(rng, 10)
        a.descriptors[3] = 0
        found = matches(*prepared(a, a)).tolist()
        assert sorted(found) == [[k, k] for k in range(10) if k != 3]


def test_identical_images_match_everywhere(rng):
    a = Matchable.of(scene(rng, 90))
    assert sorted(matches(a, a).tolist()) == [[k, k] for k in range(90)]


@pytest.mark.parametrize("counts", [(0, 5), (5, 0), (0, 0)], ids=str)
def test_no_features_no_matches(rng, counts):
    a, b = prepared(scene(rng, counts[0]), scene(rng, counts[1]))
    assert matches(a, b).shape == (0, 2)


class TestMatchable:
    def test_features_without_geometry_are_left_out(self, rng):
        features = scene(rng, 6)
        features.frames[[1, 4]] = without_geometry(2)
        features.frames[5, 0] = np.inf
        found = Matchable.of(features)
        assert found.rows.tolist() == [0, 2, 3]
        assert len(Matchable.of(replace(features, frames=without_geometry(6)))) == 0

    @pytest.mark.parametrize("shape", [np.zeros((2, 2)), [[1, 2], [2, 4]], [[0, 0], [3, 1]]], ids=str)
    def test_regions_without_area_are_left_out(self, rng, shape):
        features = scene(rng, 4)
        features.frames[2, 2:] = np.ravel(shape)
        assert Matchable.of(features).rows.tolist() == [0, 1, 3]

    def test_of_very_many_the_strongest_in_their_order(self, rng, monkeypatch):
        monkeypatch.setattr(matching, "MOST_FEATURES", 10)
        features = scene(rng, 50)
        features.frames[7] = np.nan
        rows = [row for row in range(50) if row != 7]
        strongest = sorted(sorted(rows, key=lambda row: -features.scores[row])[:10])
        found = Matchable.of(features)
        assert found.rows.tolist() == strongest
        np.testing.assert_allclose(found.centres, features.centres[strongest])
        np.testing.assert_allclose(found.shapes, features.shapes[strongest])
        np.testing.assert_allclose(found.descriptors, features.descriptors[strongest], atol=1e-6)

    def test_of_very_many_matches_the_nearest(self, rng, monkeypatch):
        both = scene(rng, 60)
        a, b = prepared(alike(both, rng, 0.05), both)
        whole = matches(a, b)
        monkeypatch.setattr(matching, "MOST_MATCHES", 10)
        np.testing.assert_array_equal(matches(a, b), whole[:10])

    def test_the_size_of_an_unknown_image_holds_all_features(self, rng):
        features = replace(scene(rng, 30), image_size=(0, 0))
        assert Matchable.of(features).size == pytest.approx(tuple(features.centres.max(0)))
        assert Matchable.of(scene(rng, 30)).size == SIZE
        assert all(side > 0 for side in Matchable.of(features.select(slice(0))).size)

    def test_descriptors_become_unit_vectors_and_the_features_stay_as_they_were(self, rng):
        features = scene(rng, 12)
        longer = replace(features, descriptors=features.descriptors * rng.uniform(0.5, 3, (12, 1)).astype(np.float32))
        before = longer.descriptors.copy()
        np.testing.assert_allclose(np.linalg.norm(Matchable.of(longer).descriptors, axis=1), 1, atol=1e-6)
        np.testing.assert_array_equal(longer.descriptors, before)

    @pytest.mark.parametrize("scale", [1e-30, 1e-12, 1.0, 1e12, 1e30])
    def test_lengths_of_any_size(self, rng, scale):
        features = scene(rng, 12)
        scaled = replace(features, descriptors=(scale * features.descriptors).astype(np.float32))
        np.testing.assert_allclose(Matchable.of(scaled).descriptors, features.descriptors, atol=1e-5)

    def test_its_name_in_words(self, rng):
        assert repr(Matchable.of(scene(rng, 3))) == "Matchable(3 features of an image of 640 x 480 pixels)"


def test_frames_of_float32_that_are_nearly_flat_can_be_inverted(rng):
    """What is not left out must not be singular for a library that divides first."""
    shapes = regions(rng, 200)
    shapes[:, 1] = shapes[:, 0] * (1 + 2.0**-22)
    features = replace(scene(rng, 200), frames=frames_from(rng.uniform(0, 400, (200, 2)), shapes))
    found = Matchable.of(features)
    assert np.isfinite(np.linalg.inv(found.shapes)).all()
