"""How improbable an agreement is, and which matches count once."""

from dataclasses import replace

import numpy as np
import pytest
from planted import SIZE, prepared, regions, scene

from faemb.features import LocalFeatures
from faemb.features.local_features import frames_from
from faemb.rerank import verify
from faemb.rerank.chance import CELL, Places, improbability
from reference import improbability_by_the_book


def improbable(agreeing: float, of: float, chance: float) -> float:
    return float(improbability(np.array(float(agreeing)), np.array(float(of)), np.array(chance)))


@pytest.mark.parametrize("chance", [1e-4, 0.01, 0.1, 0.4])
@pytest.mark.parametrize("of", [3, 10, 60])
def test_never_more_than_the_exact_probability_says(of, chance):
    """A bound on the probability: evidence is never overstated, and not understated by much."""
    for agreeing in range(1, of + 1):
        exact, bound = improbability_by_the_book(agreeing, of, chance), improbable(agreeing, of, chance)
        assert 0 <= bound <= exact + 1e-6
        if agreeing > 2 * chance * of:
            assert bound >= exact - 1 - 0.5 * np.log(of) - np.log(1 / (1 - 2 * chance if chance < 0.4 else 0.5))


def test_as_many_as_by_chance_say_nothing():
    assert improbable(10, 100, 0.1) == improbable(3, 100, 0.1) == improbable(0, 10, 0.1) == improbable(0, 0, 0.1) == 0


def test_grows_with_agreement_and_falls_with_chance():
    values = [improbable(agreeing, 50, 0.02) for agreeing in range(51)]
    assert values == sorted(values)
    assert improbable(10, 50, 0.01) > improbable(10, 50, 0.02) > improbable(10, 80, 0.02)
    assert np.isfinite(improbable(50, 50, 1e-9))


class TestPlaces:
    def count(self, x, y) -> int:
        places = Places(np.array(x, float), np.array(y, float))
        return int(places.count(np.ones((1, len(x)), bool))[0])

    def test_the_smaller_number_of_the_two_images(self, rng):
        apart = CELL * (np.arange(20)[:, None] * [1, 0] + 0.5)
        together = np.full((20, 2), 0.5 * CELL)
        assert self.count(apart, apart) == 20
        assert self.count(apart, together) == self.count(together, apart) == 1
        assert self.count(apart[:0], apart[:0]) == 0

    def test_only_the_chosen_count(self):
        points = CELL * (np.arange(6)[:, None] * [1, -2] + 0.5)
        chosen = np.array([[1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]], bool)
        assert Places(points, points).count(chosen).tolist() == [2, 0, 6]

    def test_cells_on_both_sides_of_the_middle_differ(self):
        points = np.array([[-0.1, -0.1], [0.1, 0.1], [-0.1, 0.1], [0.1, -0.1]]) * CELL
        assert self.count(points, points) == 4


def unrelated(rng: np.random.Generator, count: int) -> tuple[LocalFeatures, LocalFeatures]:
    """All descriptors match; places and sizes are independent, the sizes as different as a detector finds them."""
    a, centres = scene(rng, count), rng.uniform(0, 1, (2, count, 2)) * SIZE
    sizes = np.exp(rng.uniform(-1, 1, (2, count, 1, 1)))
    frames = [frames_from(places, size * regions(rng, count)) for places, size in zip(centres, sizes, strict=True)]
    return replace(a, frames=frames[0]), replace(a, frames=frames[1])


@pytest.mark.parametrize("count", [5, 30, 100])
def test_random_matches_are_little_evidence(count):
    """The best of many transforms, each fitted to what agrees with it, is slightly better than one that was given."""
    found = [verify(*prepared(*unrelated(np.random.default_rng(seed), count))).evidence for seed in range(100)]
    assert np.median(found) == 0
    assert np.quantile(found, 0.95) < 10
    assert max(found) < 20
