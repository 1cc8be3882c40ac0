"""The interface of extractors: what a class must define before it can be used or loaded."""

import inspect

import pytest

from cnn_networks import cells, network
from faemb.component import Component
from faemb.features import CnnMap, Extractor
from faemb.features.cnn.maps import _Grid


class _WithoutDescribe(Extractor):
    def __init__(self, max_side: int | None = None) -> None:
        self.max_side = max_side


def test_an_extractor_without_describe_cannot_be_made():
    with pytest.raises(TypeError, match=r"abstract.*describe"):
        _WithoutDescribe()  # type: ignore[abstract]
    with pytest.raises(TypeError, match=r"abstract.*describe"):
        Extractor()  # type: ignore[abstract]


def test_a_grid_without_as_map_cannot_be_made():
    with pytest.raises(TypeError, match=r"abstract.*as_map"):
        _Grid(network(cells(8)))  # type: ignore[abstract]
    assert CnnMap(network(cells(8))).max_features is None


def test_no_abstract_class_can_be_loaded_by_name():
    assert {"CnnMap", "CnnPatches", "CnnTokens", "HessianAffine"} <= Component.registry.keys()
    assert not [name for name, kind in Component.registry.items() if inspect.isabstract(kind)]
