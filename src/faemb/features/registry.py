"""Extractors by name, as a command line or a stored model calls them."""

import os
from typing import Any

from faemb.errors import InputError
from faemb.features.cnn import CnnMap, CnnPatches, CnnTokens, Network
from faemb.features.extractor import Extractor
from faemb.features.hessian_affine import HessianAffine
from faemb.settings import require_choice

NETWORKS: dict[str, type[CnnMap | CnnPatches | CnnTokens]] = {
    "patches": CnnPatches,
    "map": CnnMap,
    "tokens": CnnTokens,
}
DETECTORS = ("hessian-affine", *NETWORKS)


def make_extractor(
    detector: str = "hessian-affine", *, model: str | os.PathLike[str] | None = None, **settings: Any
) -> Extractor:
    """An extractor; `model` is the .onnx file of those that need a network, `settings` are the extractor's own."""
    require_choice("detector", detector, DETECTORS)
    kind = NETWORKS.get(detector, HessianAffine)
    unknown = settings.keys() - (set(kind.setting_names()) - {"network"})
    if unknown:
        raise InputError(f"the detector {detector} has no setting {', '.join(sorted(unknown))}")
    if detector == "hessian-affine":
        if model is not None:
            raise InputError(f"the detector {detector} uses no model; choose one of {', '.join(NETWORKS)}")
        made: Extractor = HessianAffine(**settings)
    elif model is None:
        raise InputError(f"the detector {detector} needs a network; give its .onnx file as model")
    else:
        made = NETWORKS[detector](Network.open(model), **settings)
    made.check_settings()
    return made
