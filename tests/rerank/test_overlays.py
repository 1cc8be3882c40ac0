"""What lies over two different pictures in the same place is no sign that they show the same thing."""

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


def test_two_captions(rng):
    """Together they span most of the picture."""
    mark, logo = caption(rng), moved(caption(rng, 30), (300, -420), 0.95)
    found = verify(joined(scene(rng, 200), mark, logo), joined(scene(rng, 200), mark, logo))
    assert found.written_over == 70
    assert found.evidence < 15


def test_two_captions_that_have_moved_differently(rng):
    """One is at the bottom, the other at the top of pictures of different heights."""
    mark, logo = caption(rng), moved(caption(rng, 30), (0, -400))
    other = joined(scene(rng, 200, (640, 600)), moved(mark, (0, 120)), logo, size=(640, 600))
    found = verify(joined(scene(rng, 200), mark, logo), other)
    assert found.written_over == 70
    assert found.evidence < 15


def test_a_wrong_match_beside_a_short_caption(rng):
    """Which agrees with the transform of the caption, but not exactly."""
    mark, letter = caption(rng, 8), moved(caption(rng, 1), (0, -5))
    found = verify(
        joined(scene(rng, 200), mark, letter), joined(scene(rng, 200), mark, moved(letter, (0.01 * SIZE[0], 0)))
    )
    assert found.written_over == 9
    assert found.evidence < 15


def frame(rng: np.random.Generator, count: int = 40) -> LocalFeatures:
    """Features along the edges of the picture."""
    features, along = scene(rng, count), rng.uniform(0, 1, count)
    frames, (width, height) = features.frames.copy(), SIZE
    sides = np.array([(8, 0), (width - 8, 0), (0, 8), (0, height - 8)])[np.arange(count) % 4]
    frames[:, :2] = np.where(sides > 0, sides, along[:, None] * SIZE)
    return LocalFeatures(features.descriptors, frames, features.scores, SIZE)


def inner(rng: np.random.Generator, count: int) -> LocalFeatures:
    """A picture inside a frame."""
    features = scene(rng, count)
    frames = features.frames.copy()
    frames[:, :2] = np.array(SIZE) * (0.12 + 0.76 * frames[:, :2] / SIZE)
    return LocalFeatures(features.descriptors, frames, features.scores, SIZE)


def test_different_pictures_in_equal_frames(rng):
    border = frame(rng)
    found = verify(joined(inner(rng, 200), border), joined(inner(rng, 200), border))
    assert found.written_over == 40
    assert found.evidence < 15


def test_equal_frames_of_one_picture(rng):
    """All of both pictures matches: they are copies."""
    border, shown = frame(rng), inner(rng, 200)
    found = verify(joined(shown, border), joined(shown, border))
    assert (found.written_over, found.agreeing.sum()) == (0, 240)


@pytest.mark.parametrize("share", [0.9, 0.7, 0.5])
def test_a_fixed_camera_by_day_and_by_night(rng, share):
    """Most regions are found in one of the photographs only, but those that match are everywhere."""
    shown = scene(rng, 300)
    found = verify(Matchable.of(shown), Matchable.of(seen(shown, np.eye(3), rng, wrong=share)))
    assert found.written_over == 0
    assert found.agreeing.sum() >= 0.9 * 300 * (1 - share)
    assert found.evidence > 40


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
