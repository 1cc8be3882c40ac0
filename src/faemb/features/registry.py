"""Extractors by name, as the command line calls them."""

from typing import Any

from faemb.errors import InputError
from faemb.features.cnn import CnnMap, CnnPatches, CnnTokens, Network
from faemb.features.extractor import Extractor
from faemb.features.hessian_affine import HessianAffine
from faemb.runtime.storage import AnyPath
from faemb.settings import require_choice

NETWORKS: dict[str, type[Extractor]] = {"patches": CnnPatches, "map": CnnMap, "tokens": CnnTokens}
DETECTORS = ("hessian-affine", *NETWORKS)


def make_extractor(detector: str = "hessian-affine", *, network: AnyPath | None = None, **settings: Any) -> Extractor:
    """The extractor of this name; `network` is an .onnx file, which all but hessian-affine need."""
    require_choice("detector", detector, DETECTORS)
    kind = NETWORKS.get(detector, HessianAffine)
    unknown = settings.keys() - set(kind.setting_names())
    if unknown:
        raise InputError(f"the detector {detector} has no setting {', '.join(sorted(unknown))}")
    if detector in NETWORKS and network is None:
        raise InputError(f"the detector {detector} needs a network; give its .onnx file with --network")
    if detector not in NETWORKS and network is not None:
        raise InputError(f"the detector {detector} uses no network; choose one of {', '.join(NETWORKS)}")
    if network is not None:
        settings["network"] = Network.open(network)
    extractor = kind(**settings)
    extractor.check_settings()
    return extractor
