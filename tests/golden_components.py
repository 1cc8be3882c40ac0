"""Components of which the golden files hold an example."""

import inspect
from typing import Any

import numpy as np

from cnn_networks import cells, network, quarters, tokens
from faemb import (
    ITQ,
    CnnMap,
    CnnPatches,
    CnnTokens,
    Encoder,
    Extractor,
    FastFAemb,
    FeatureFiles,
    HessianAffine,
    Model,
    Network,
    persistence,
)
from faemb.component import Component

NEEDED: dict[str, Any] = {
    "embedding": FastFAemb(),
    "extractor": HessianAffine(),
    "encoder": Encoder(FastFAemb()),
    "network": Network("rgb", 0.5, 0.25),
    "dimension": 16,
    "channels": "rgb",
    "mean": 0.5,
    "std": 0.25,
}
"""Arguments that have no default."""


def defaults() -> dict[str, Component]:
    """A component of each class of the package, with default settings."""
    persistence._registered("")  # imports all of them
    kinds = {name: kind for name, kind in Component.registry.items() if kind.__module__.startswith("faemb.")}
    return {name: _default(kind) for name, kind in sorted(kinds.items())}


def _default(kind: Any) -> Component:
    arguments = inspect.signature(kind).parameters.items()
    made = kind(**{name: NEEDED[name] for name, each in arguments if each.default is each.empty})
    assert isinstance(made, Component)
    return made


def extractors() -> dict[str, Extractor]:
    """Of every class, with a network of its own where there is one."""
    mixing = np.random.default_rng(5).uniform(-1, 1, (8, 3)).round(3)
    return {
        "HessianAffine": HessianAffine(max_features=30),
        "HessianAffine-rotated": HessianAffine(max_features=30, rotation_invariant=True, root=False),
        "CnnMap": CnnMap(network(cells(mixing=mixing)), scales=(1.0, 0.5)),
        "CnnPatches": CnnPatches(network(quarters(), size=[16, 16]), sizes=(48,), stride=40),
        "CnnTokens": CnnTokens(network(tokens(), multiple=7)),
        "FeatureFiles": FeatureFiles(4, max_features=5, root=True),
    }


def inputs(model: Component, rng: np.random.Generator) -> np.ndarray:
    """Something that a model takes: the descriptors of one image, or vectors for codes."""
    if isinstance(model, ITQ):
        return rng.standard_normal((3, len(model.mean_)))
    return rng.random((7, 128 if isinstance(model, Model) else 6))


def computed(model: Any, given: np.ndarray) -> np.ndarray:
    return np.asarray(model.encode(given) if isinstance(model, ITQ) else model.encode([given]))
