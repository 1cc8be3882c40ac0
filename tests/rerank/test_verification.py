"""Verification: planted transforms are found among wrong matches, and what cannot be verified is no evidence."""

from dataclasses import replace

import numpy as np
import pytest
from planted import (
    SIZE,
    about_the_middle,
    corners,
    descriptors,
    mapped,
    perspective,
    prepared,
    regions,
    scene,
    seen,
    turned,
)

from faemb.features import LocalFeatures
from faemb.features.local_features import discs, frames_from
from faemb.rerank import UPRIGHT, Verification, verify

Transform = np.ndarray

TRANSFORMS: dict[str, Transform] = {
    "nothing moves": np.eye(3),
    "shift": np.array([[1, 0, 60], [0, 1, -40], [0, 0, 1.0]]),
    "similarity": turned(20, 0.7),
    "enlarged": turned(-10, 1.6),
    "affine": about_the_middle(np.array([[1.1, 0.25], [-0.15, 0.8]])),
    "mirror": about_the_middle(np.diag([-1.0, 1.0])),
    "perspective": perspective(0.25),
}


def compared(a: LocalFeatures, b: LocalFeatures, turn: float = np.pi) -> Verification:
    return verify(*prepared(a, b), turn=turn)


def transform_of(found: Verification) -> Transform:
    assert found.transform is not None
    return found.transform


def corner_error(found: Verification, transform: Transform) -> float:
    """Largest error at the corners of the image, in pixels."""
    apart = mapped(transform_of(found), corners()) - mapped(transform, corners())
    return float(np.linalg.norm(apart, axis=1).max())


@pytest.mark.parametrize("wrong", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_planted_transform_is_found(rng, name, wrong):
    transform, a = TRANSFORMS[name], scene(rng, 150)
    b = seen(a, transform, rng, wrong=wrong)
    found = compared(a, b)
    within = np.linalg.norm(mapped(transform, a.centres[found.matches[:, 0]]) - b.centres[found.matches[:, 1]], axis=1)
    assert found.evidence > 60
    assert corner_error(found, transform) < 12
    assert found.agreeing[within < 2].mean() > 0.9
    assert (within[found.agreeing] < 40).all()
    assert round((1 - wrong) * 150 * 0.8) <= found.agreeing.sum() <= round((1 - wrong) * 150) + 5


def test_a_perspective_transform_is_used_where_it_explains_more(rng):
    a = scene(rng, 200)
    strong, none = perspective(0.5), turned(8, 0.9)
    bent, straight = (transform_of(compared(a, seen(a, each, rng))) for each in (strong, none))
    assert abs(bent[2, 0]) * SIZE[0] > 0.2
    assert abs(straight[2, 0]) * SIZE[0] < 0.02
    assert bent[2, 2] == straight[2, 2] == 1


def test_more_agreement_is_more_evidence(rng):
    a = scene(rng, 120)
    found = [
        compared(a, seen(a, turned(10), np.random.default_rng(1), wrong=wrong)).evidence for wrong in (0.9, 0.7, 0.4, 0)
    ]
    assert found == sorted(found)
    assert found[-1] > 3 * found[0] > 0


def test_identical_images(rng):
    a = scene(rng, 80)
    found = compared(a, a)
    assert found.agreeing.all()
    assert len(found.matches) == 80
    np.testing.assert_allclose(transform_of(found), np.eye(3), atol=1e-6)


def test_both_directions_say_much_the_same(rng):
    a = scene(rng, 150)
    b = seen(a, turned(15, 0.6), rng, wrong=0.6)
    forth, back = compared(a, b), compared(b, a)
    assert back.evidence == pytest.approx(forth.evidence, rel=0.2)
    assert corner_error(back, np.linalg.inv(transform_of(forth))) < 15


def test_two_parts_that_move_otherwise_are_more_evidence_than_one(rng):
    a = scene(rng, 160)
    one, other = turned(0), np.array([[1, 0, 90], [0, 1, 70], [0, 0, 1.0]])
    left = a.centres[:, 0] < SIZE[0] / 2
    first, second = seen(a, one, rng), seen(a, other, rng)
    both = replace(first, frames=np.where(left[:, None], first.frames, second.frames))
    lost = replace(first, frames=np.where(left[:, None], first.frames, seen(a, one, rng, wrong=1).frames))
    assert compared(a, both).evidence > 1.5 * compared(a, lost).evidence


def test_small_parts_that_move_otherwise_add_nothing(rng):
    """As words that two pages of text have in common, each in another place."""
    words, letters = 6, 3
    count = words * letters
    a, moves = scene(rng, 40 + count), np.repeat(rng.uniform(-150, 150, (words, 2)), letters, axis=0)
    a.frames[40:, :2] = np.repeat(rng.uniform(160, 320, (words, 2)), letters, axis=0) + rng.uniform(0, 60, (count, 2))
    b = seen(a, turned(0), rng)
    b.frames[40:, :2] += moves + rng.uniform(-8, 8, (count, 2))
    found = compared(a, b)
    b.frames[40:, :2] = rng.uniform(0, 1, (count, 2)) * SIZE
    without = compared(a, b)
    assert found.evidence == pytest.approx(without.evidence, abs=2)


class TestTurns:
    @pytest.mark.parametrize("degrees", [-60, 90, 180])
    def test_upright_features_do_not_turn_far(self, rng, degrees):
        a = scene(rng, 100)
        b = seen(a, turned(degrees), rng)
        assert compared(a, b, UPRIGHT).evidence == 0
        assert compared(a, b).evidence > 60

    @pytest.mark.parametrize("degrees", [-40, 0, 40])
    def test_smaller_turns_are_found_in_both_ways(self, rng, degrees):
        a = scene(rng, 100)
        b = seen(a, turned(degrees), rng)
        assert compared(a, b, UPRIGHT).evidence == pytest.approx(compared(a, b).evidence)


class TestBursts:
    """Many matches in one place are one piece of evidence."""

    def at(self, centres: np.ndarray, rng: np.random.Generator) -> LocalFeatures:
        count = len(centres)
        shapes = discs(np.full(count, 8.0), np.zeros(count))
        return LocalFeatures(descriptors(rng, count), frames_from(centres, shapes), np.ones(count), SIZE)

    def test_in_one_place(self, rng):
        burst = rng.uniform(200, 203, (100, 2))
        a = self.at(burst, rng)
        assert compared(a, seen(a, turned(0), rng, noise=0)).evidence < 5

    def test_a_burst_adds_as_much_as_one_match(self, rng):
        spread = rng.uniform(0, 1, (15, 2)) * SIZE
        burst = np.concatenate([spread, spread[0] + rng.uniform(-1, 1, (60, 2))])
        alone, more = self.at(spread, rng), self.at(burst, rng)
        few, many = (compared(a, seen(a, turned(5), rng, noise=0)) for a in (alone, more))
        assert many.agreeing.sum() > 4 * few.agreeing.sum()
        assert many.places <= few.places + 4
        assert many.evidence < 1.3 * few.evidence

    def test_they_do_not_hide_the_transform_of_the_scene(self, rng):
        """Wrong matches within a few patches of texture have more votes than the right ones, from fewer places."""
        spread, patches = rng.uniform(0, 1, (15, 2)) * SIZE, 6
        here, there = rng.uniform(60, 400, (2, patches, 1, 2))
        texture = np.concatenate(here + rng.uniform(-15, 15, (patches, 33, 2)))
        elsewhere = np.concatenate(there + rng.uniform(-15, 15, (patches, 33, 2)))
        a, wrong = self.at(np.concatenate([spread, texture]), rng), len(texture)
        b = seen(a, turned(6, 0.9), rng)
        b.frames[-wrong:] = frames_from(elsewhere, regions(rng, wrong))
        found = compared(a, b, UPRIGHT)
        assert (found.matches[found.agreeing, 0] < len(spread)).sum() > 0.8 * len(spread)

    def test_in_the_second_image_only(self, rng):
        """All features of a small sign that fills the first image are one place of the second."""
        a = scene(rng, 100)
        tiny = about_the_middle(0.02 * np.eye(2))
        assert compared(a, seen(a, tiny, rng, noise=0)).places <= 4


class TestTooLittle:
    @pytest.mark.parametrize("count", [0, 1, 2])
    def test_fewer_than_three_matches(self, rng, count):
        a = scene(rng, count)
        found = compared(a, a)
        assert len(found.matches) == count
        assert (found.evidence, found.transform, found.places) == (0, None, 0)
        assert found.agreeing.tolist() == [False] * count

    @pytest.mark.parametrize("count", [3, 4])
    def test_three_or_four_matches_are_little_evidence(self, rng, count):
        a = scene(rng, count)
        assert compared(a, a).evidence < 25

    @pytest.mark.parametrize("apart", [0.0, 10.0])
    def test_points_on_a_line(self, rng, apart):
        """Of exactly collinear points no affine transform is known; a little apart, they are evidence."""
        line = np.linspace([50, 60], [600, 400], 40) + apart * rng.standard_normal((40, 2))
        a = LocalFeatures(descriptors(rng, 40), frames_from(line, regions(rng, 40)), np.ones(40), SIZE)
        found = compared(a, seen(a, turned(0), rng, noise=0))
        assert found.evidence > 50 if apart else found.evidence == 0

    def test_all_points_in_one_place(self, rng):
        a = LocalFeatures(
            descriptors(rng, 30), frames_from(np.full((30, 2), 99.0), regions(rng, 30)), np.ones(30), SIZE
        )
        assert compared(a, a).evidence < 10

    def test_no_geometry(self, rng):
        a = scene(rng, 30)
        nothing = replace(a, frames=np.full_like(a.frames, np.nan))
        for pair in ((a, nothing), (nothing, a), (nothing, nothing)):
            assert compared(*pair).evidence == 0

    def test_regions_of_extreme_size(self, rng):
        """Nothing overflows, warns or is found."""
        a = scene(rng, 40)
        b = seen(a, turned(0), rng)
        b.frames[:, 2:] *= np.where(np.arange(40) % 2, 1e15, 1e-15)[:, None].astype(np.float32)
        assert compared(a, b).evidence == compared(b, a).evidence == 0


@pytest.mark.parametrize("size", [(0, 0), (1, 1), SIZE, (10_000, 20)], ids=str)
def test_any_stated_size_of_the_image(rng, size):
    """Files of other tools may not state it, or state another."""
    a = scene(rng, 60)
    b = seen(a, turned(5, 0.9), rng, wrong=0.3)
    found = compared(replace(a, image_size=size), replace(b, image_size=size))
    assert np.isfinite(found.evidence)
    if size in ((0, 0), SIZE):
        assert found.evidence > 40
        assert corner_error(found, turned(5, 0.9)) < 12


def test_numbers_of_matches_are_those_of_the_given_features(rng):
    """Features that are left out do not shift the numbers of the others."""
    a = scene(rng, 60)
    b = seen(a, turned(5), rng)
    a.frames[:20] = np.nan
    order = rng.permutation(60)
    found = compared(a, b.select(order))
    assert sorted(found.matches[:, 0].tolist()) == list(range(20, 60))
    assert (order[found.matches[:, 1]] == found.matches[:, 0]).all()


def test_the_same_bits_every_time(rng):
    a = scene(rng, 150)
    b = seen(a, perspective(0.2), rng, wrong=0.6)
    first, again = compared(a, b), compared(a, b)
    assert first.evidence == again.evidence
    np.testing.assert_array_equal(first.matches, again.matches)
    np.testing.assert_array_equal(first.agreeing, again.agreeing)
    np.testing.assert_array_equal(transform_of(first), transform_of(again))


def test_many_features_at_once(rng):
    """The bounds on features and matches hold together."""
    a = scene(rng, 4500)
    b = seen(a, turned(5), rng, wrong=0.5)
    found = compared(a, b)
    assert len(found.matches) == 400
    assert corner_error(found, turned(5)) < 6


def test_in_words(rng):
    a = scene(rng, 20)
    assert repr(compared(a, a)).startswith("Verification(20 of 20 matches agree, evidence ")
