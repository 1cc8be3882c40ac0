"""Features of a mirrored image from those of the image, compared with those that are extracted from it."""

import numpy as np
import pytest

from faemb.features import HessianAffine
from pictures import pixels


@pytest.mark.parametrize("root", [True, False], ids=["root", "plain"])
@pytest.mark.parametrize("rotation_invariant", [False, True], ids=["upright", "turned"])
def test_mirrored_features_are_those_of_the_mirrored_image(rotation_invariant, root):
    extractor = HessianAffine(rotation_invariant=rotation_invariant, root=root)
    shown = pixels(5, (193, 145))  # every octave keeps the same pixels of both images
    made = extractor.mirrored(extractor.extract(shown))
    seen = extractor.extract(np.ascontiguousarray(shown[:, ::-1]))
    assert len(seen) > 50
    nearest = np.hypot(*(seen.centres[:, None] - made.centres).transpose(2, 0, 1)) < 0.2
    shape = np.abs(seen.shapes[:, None] - made.shapes).max((2, 3)) < 0.3
    descriptor = seen.descriptors @ made.descriptors.T > 0.98
    assert (nearest & shape & descriptor).any(1).mean() > 0.9


@pytest.mark.parametrize("rotation_invariant", [False, True], ids=["upright", "turned"])
def test_mirrored_twice_is_the_image_itself(rotation_invariant):
    extractor = HessianAffine(rotation_invariant=rotation_invariant)
    features = extractor.extract(pixels(3))
    twice = extractor.mirrored(extractor.mirrored(features))
    np.testing.assert_array_equal(twice.descriptors, features.descriptors)
    np.testing.assert_allclose(twice.frames, features.frames, rtol=1e-6)
