"""faemb: instance-level image search by function-approximation embeddings and related methods.

Names are imported on first use, so that `faemb --help` does not wait for the numerical libraries.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faemb.binary import ITQ, hamming
    from faemb.collection import (
        Answer,
        Collection,
        Explanation,
        Group,
        GroupedImage,
        Groups,
        Hit,
        Info,
        Model,
        Report,
        encode_images,
        fit_model,
        images_in,
        new_model,
    )
    from faemb.embedding import TLCC, VLAD, VLAT, BoW, FAemb, FastFAemb, Fisher, Triangulation
    from faemb.encoder import Encoded, Encoder
    from faemb.errors import FaembError, FormatError, InputError, MissingExtraError, NotFittedError
    from faemb.features import (
        CnnMap,
        CnnPatches,
        CnnTokens,
        Extractor,
        FeatureFiles,
        HessianAffine,
        LocalFeatures,
        Network,
        extract_folder,
        make_extractor,
        read_features,
        rmac,
        root_sift,
        spoc,
    )
    from faemb.presets import preset
    from faemb.projection import Projection
    from faemb.rerank import Matchable, Verification, verify
    from faemb.rotation import Rotation
    from faemb.runtime.cluster import open_cluster
    from faemb.whitening import Whitening

__version__ = "0.1.0.dev0"

__all__ = [
    "ITQ",
    "TLCC",
    "VLAD",
    "VLAT",
    "Answer",
    "BoW",
    "CnnMap",
    "CnnPatches",
    "CnnTokens",
    "Collection",
    "Encoded",
    "Encoder",
    "Explanation",
    "Extractor",
    "FAemb",
    "FaembError",
    "FastFAemb",
    "FeatureFiles",
    "Fisher",
    "FormatError",
    "Group",
    "GroupedImage",
    "Groups",
    "HessianAffine",
    "Hit",
    "Info",
    "InputError",
    "LocalFeatures",
    "Matchable",
    "MissingExtraError",
    "Model",
    "Network",
    "NotFittedError",
    "Projection",
    "Report",
    "Rotation",
    "Triangulation",
    "Verification",
    "Whitening",
    "encode_images",
    "extract_folder",
    "fit_model",
    "hamming",
    "images_in",
    "make_extractor",
    "new_model",
    "open_cluster",
    "preset",
    "read_features",
    "rmac",
    "root_sift",
    "spoc",
    "verify",
]
_MODULES = {
    "binary": ("ITQ", "hamming"),
    "collection": (
        *("Answer", "Collection", "Explanation", "Group", "GroupedImage", "Groups", "Hit", "Info", "Model"),
        *("Report", "encode_images", "fit_model", "images_in", "new_model"),
    ),
    "embedding": ("TLCC", "VLAD", "VLAT", "BoW", "FAemb", "FastFAemb", "Fisher", "Triangulation"),
    "encoder": ("Encoded", "Encoder"),
    "errors": ("FaembError", "FormatError", "InputError", "MissingExtraError", "NotFittedError"),
    "features": (
        *("CnnMap", "CnnPatches", "CnnTokens", "Extractor", "FeatureFiles", "HessianAffine", "LocalFeatures"),
        *("Network", "extract_folder", "make_extractor", "read_features", "rmac", "root_sift", "spoc"),
    ),
    "presets": ("preset",),
    "projection": ("Projection",),
    "rerank": ("Matchable", "Verification", "verify"),
    "rotation": ("Rotation",),
    "runtime.cluster": ("open_cluster",),
    "whitening": ("Whitening",),
}
_MODULE_OF = {name: f"faemb.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'faemb' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
