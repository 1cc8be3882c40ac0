"""The share of each descriptor in a similarity: what the shares add up to, and what they stand for."""

from typing import Any

import numpy as np
import pytest

from faemb import VLAD, Encoder, FastFAemb, Projection, Rotation, Whitening
from faemb.pooling import POOLINGS
from faemb.shares import shares

WIDTH = 12


pytestmark = pytest.mark.usefixtures("one_thread")


def views(rng: np.random.Generator, count: int, size: int = 40) -> list[np.ndarray]:
    """Noisy views of objects, two of each; an object is a set of descriptors."""
    objects = [rng.standard_normal((size, WIDTH)) for _ in range(count)]
    noisy = [each + 0.2 * rng.standard_normal(each.shape) for each in objects for _ in range(2)]
    return [(view / np.linalg.norm(view, axis=1, keepdims=True)).astype(np.float32) for view in noisy]


def small(**changes: Any) -> Encoder:
    settings: dict[str, Any] = {"projection": Projection(6, unit_after=True), "whitening": Whitening(discard=5)}
    return Encoder(FastFAemb(4, unit_residuals=True), **{**settings, **changes})


KINDS = {
    **{pooling: small(pooling=pooling) for pooling in POOLINGS},
    "without a projection": small(projection=None),
    "without whitening": small(whitening=None),
    "without a power law": small(power=1.0),
    "rotated, released": small(rotation=Rotation("rotate"), finishing="released", discard_after=3),
    "rotated, shortened": small(rotation=Rotation("rotate", max_axes=9), keep=20),
    "released, shortened": small(finishing="released", discard_after=2, keep=30),
    "VLAD": Encoder(VLAD(4)),
    "VLAD by cells": Encoder(VLAD(4, normalise_cells=True)),
}


@pytest.mark.parametrize("encoder", KINDS.values(), ids=KINDS)
def test_shares_add_up_to_the_similarity(encoder: Encoder, rng: np.random.Generator) -> None:
    encoder = encoder.clone().fit(views(rng, 16))
    query, same, other, _ = views(rng, 2)
    vector, *others = encoder.encode([query, same, other])
    for each in others:
        found = shares(encoder, query, each)
        assert found.shape == (len(query),)
        assert abs(found.sum() - vector @ each) < 2e-3
    assert np.abs(shares(encoder, query, others[0])).sum() > 0.1


def test_a_rotation_that_centres_leaves_a_constant(rng: np.random.Generator) -> None:
    """What the subtracted mean adds to the inner product belongs to no descriptor."""
    encoder = small(rotation=Rotation("whiten", max_axes=9)).fit(views(rng, 16))
    query, same, *_ = views(rng, 1)
    pooled = encoder.pool([query])
    vector, other = encoder.encode([query, same])
    before = np.sign(pooled) * np.sqrt(np.abs(pooled))
    before /= np.linalg.norm(before)
    rotation = encoder.rotation_
    assert rotation is not None
    constant = rotation.transform(np.zeros_like(before))[0] @ other / np.linalg.norm(rotation.transform(before))
    assert abs(shares(encoder, query, other).sum() + constant - vector @ other) < 2e-3


def test_shares_are_close_to_what_leaving_out_a_descriptor_changes(rng: np.random.Generator) -> None:
    """With equal weights: others would change with every descriptor that is left out."""
    encoder = small(pooling="sum").fit(views(rng, 40))
    query, same, *_ = views(rng, 1, 200)
    vector, other = encoder.encode([query, same])
    left = [encoder.encode([np.delete(query, number, axis=0)])[0] @ other for number in range(len(query))]
    assert np.corrcoef(shares(encoder, query, other), vector @ other - np.array(left))[0, 1] > 0.8


def test_no_descriptors_have_no_shares(rng: np.random.Generator) -> None:
    encoder = small().fit(views(rng, 16))
    assert shares(encoder, np.zeros((0, WIDTH), np.float32), np.ones(encoder.dimension)).shape == (0,)
