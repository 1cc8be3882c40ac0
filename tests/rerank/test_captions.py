"""What is written over two different pictures in the same place is no sign that they show the same thing."""

import numpy as np
import pytest
from planted import SIZE, scene, seen, turned

from faemb.features import LocalFeatures
from faemb.rerank import Matchable, verify

BAR = np.array([10.0, 440.0]), np.array([470.0, 470.0])
"""Where a caption is, near the lower left corner."""


def joined(*parts: LocalFeatures, size: tuple[int, int] = SIZE) -> Matchable:
    descriptors, frames, scores = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("descriptors", "frames", "scores")
    )
    return Matchable.of(LocalFeatures(descriptors, frames, scores, size))


def caption(rng: np.random.Generator, count: int = 40) -> LocalFeatures:
    features = scene(rng, count)
    frames = features.frames.copy()
    low, high = BAR
    frames[:, :2] = rng.uniform(low, high, (count, 2))
    return LocalFeatures(features.descriptors, frames, features.scores, SIZE)


def moved(features: LocalFeatures, by: tuple[float, float], scale: float = 1.0) -> LocalFeatures:
    frames = scale * features.frames
    frames[:, :2] += by
    return LocalFeatures(features.descriptors, frames, features.scores, SIZE)


def test_two_pictures_with_the_same_caption(rng):
    mark = caption(rng)
    found = verify(joined(scene(rng, 200), mark), joined(scene(rng, 200), mark))
    assert found.written_over == 40
    assert found.evidence < 15
    assert len(found.matches) >= 40
    assert found.agreeing.sum() < 10


@pytest.mark.parametrize(
    ("size", "place", "scale"),
    [
        ((640, 600), (0, 120), 1),
        ((800, 600), (0, 120), 1),
        ((1280, 960), (0, 0), 2),
        ((320, 300), (0, 60), 0.5),
        ((640, 300), (0, -180), 1),
    ],
    ids=["higher", "larger", "in proportion", "as wide a part", "lower"],
)
def test_pictures_of_other_sizes(rng, size, place, scale):
    """The caption is at the same distance from the lower left corner, in pixels or in proportion."""
    mark = caption(rng)
    other = joined(scene(rng, 200, size), moved(mark, place, scale), size=size)
    assert verify(joined(scene(rng, 200), mark), other).written_over == 40
    assert verify(other, joined(scene(rng, 200), mark)).written_over == 40


def test_photographs_of_one_scene_with_the_same_caption(rng):
    shown, mark = scene(rng, 200), caption(rng)
    photograph = seen(shown, turned(8, 0.9), rng)
    plain = verify(Matchable.of(shown), Matchable.of(photograph))
    found = verify(joined(shown, mark), joined(photograph, mark))
    assert found.transform is not None
    assert plain.transform is not None
    np.testing.assert_allclose(found.transform, plain.transform, atol=0.02 * SIZE[0])
    assert found.evidence > 0.8 * plain.evidence
    few = seen(shown, turned(8, 0.9), rng, wrong=0.9)  # so that the caption has more matches
    found = verify(joined(shown, mark), joined(few, mark))
    assert found.written_over >= 40
    assert found.evidence > 30
    assert found.agreeing.sum() >= 15


def test_a_small_thing_in_another_place_counts(rng):
    thing = caption(rng)
    found = verify(joined(scene(rng, 200), thing), joined(scene(rng, 200), moved(thing, (60, -200))))
    assert found.written_over == 0
    assert found.evidence > 100


def test_a_small_thing_that_is_all_there_is_counts(rng):
    """As a stamp on white paper that was scanned twice."""
    stamp = caption(rng)
    found = verify(joined(scene(rng, 30), stamp), joined(scene(rng, 30), stamp))
    assert found.written_over == 0
    assert found.evidence > 100


def test_a_picture_and_its_copy_count(rng):
    shown = scene(rng, 200)
    found = verify(Matchable.of(shown), Matchable.of(shown))
    assert (found.written_over, found.agreeing.sum()) == (0, 200)
