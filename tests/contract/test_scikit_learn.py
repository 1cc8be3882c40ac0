"""The estimators inside scikit-learn's own pipelines, and copied by its clone."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline

from faemb import ITQ, VLAD, Encoder, FastFAemb, Fisher, Projection, Rotation


def test_rotation_and_codes_in_a_pipeline(rng: np.random.Generator) -> None:
    vectors = rng.standard_normal((60, 24))
    codes = make_pipeline(Rotation(), ITQ(16)).fit(vectors).transform(vectors)
    rotation = Rotation().fit(vectors)
    code = ITQ(16).fit(rotation.transform(vectors))
    np.testing.assert_array_equal(codes, code.encode(rotation.transform(vectors)))


@pytest.mark.parametrize("method", [VLAD(3), Fisher(3), FastFAemb(3)], ids=str)
def test_projection_and_embedding_in_a_pipeline(method, rng: np.random.Generator) -> None:
    descriptors = rng.standard_normal((200, 12))
    pipeline = Pipeline([("project", Projection(8)), ("embed", method)])
    embedded = pipeline.fit_transform(descriptors)
    projected = Projection(8).fit(descriptors).transform(descriptors)
    np.testing.assert_allclose(embedded, clone(method).fit(projected).embed(projected).dense(), atol=1e-10)
    assert (
        pipeline.set_params(project__dimension=4).fit(descriptors).transform(descriptors).shape[1] < embedded.shape[1]
    )


@pytest.mark.parametrize("part", [Projection(8), Rotation("whiten"), ITQ(16, seed=3), FastFAemb(3, mu=0.1)], ids=str)
def test_a_clone_has_the_settings_and_nothing_learned(
    part: Projection | Rotation | ITQ | FastFAemb, rng: np.random.Generator
) -> None:
    part.fit(rng.standard_normal((60, 24)))
    copy = clone(part)
    assert copy.get_params() == part.get_params()
    assert not copy.is_fitted


def test_labels_are_ignored(rng: np.random.Generator) -> None:
    """A pipeline passes them to every step; nothing here learns from them."""
    sets, labels = [rng.standard_normal((20, 12)) for _ in range(8)], np.arange(8) % 2
    pipeline = make_pipeline(Encoder(VLAD(3)), Rotation())
    np.testing.assert_array_equal(pipeline.fit_transform(sets, labels), pipeline.fit_transform(sets))
