"""Features of turned images, in the coordinates of the image as it was given."""

import numpy as np
import pytest

from faemb.features import HessianAffine, LocalFeatures
from faemb.features.local_features import frames_from
from faemb.features.turning import turned_back, when_turned
from pictures import pixels

WIDTH, HEIGHT = 31, 17


@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_regions_show_the_same_pixels_before_and_after(quarters, rng):
    shown = np.arange(WIDTH * HEIGHT).reshape(HEIGHT, WIDTH)
    turned = np.rot90(shown, quarters)
    height, width = turned.shape
    centres = np.stack([rng.integers(5, width - 5, 20), rng.integers(5, height - 5, 20)], axis=1, dtype=float)
    shapes = rng.integers(-2, 3, (20, 2, 2)).astype(float)
    features = LocalFeatures(np.eye(20), frames_from(centres, shapes), np.ones(20), (width, height))
    back = turned_back(features, quarters)
    assert back.image_size == (WIDTH, HEIGHT)
    for corner in ([0, 0], [1, 0], [0, 1], [-1, 1]):
        seen, meant = (
            np.rint(each.centres + each.shapes @ np.array(corner)).astype(int).T for each in (features, back)
        )
        np.testing.assert_array_equal(turned[seen[1], seen[0]], shown[meant[1], meant[0]])


def test_each_turn_is_described_where_its_regions_are_in_the_image():
    extractor = HessianAffine()
    shown = pixels(5, (193, 145))  # every octave keeps the same pixels of all turns
    plain = extractor.extract(shown)
    for turned in when_turned(extractor, shown):
        assert turned.image_size == plain.image_size
        assert len(turned) > 50
        distance = np.hypot(*(turned.centres[:, None] - plain.centres).transpose(2, 0, 1)).min(1)
        assert (distance < 0.5).mean() > 0.9
