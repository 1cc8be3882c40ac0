"""faemb: instance-level image search by function-approximation embeddings and their kin.

Names are imported when they are first used, so that `faemb --help` does not wait for the numerical libraries.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from faemb.binary import ITQ, hamming
    from faemb.embedding import TLCC, VLAD, VLAT, BoW, FAemb, FastFAemb, Fisher, Triangulation
    from faemb.encoder import Encoder
    from faemb.errors import FaembError
    from faemb.features import HessianAffine, LocalFeatures, extract_folder, make_extractor, read_features
    from faemb.presets import preset
    from faemb.projection import Projection
    from faemb.rotation import Rotation
    from faemb.whitening import Whitening

__version__ = "0.1.0.dev0"

__all__ = [
    "ITQ",
    "TLCC",
    "VLAD",
    "VLAT",
    "BoW",
    "Encoder",
    "FAemb",
    "FaembError",
    "FastFAemb",
    "Fisher",
    "HessianAffine",
    "LocalFeatures",
    "Projection",
    "Rotation",
    "Triangulation",
    "Whitening",
    "extract_folder",
    "hamming",
    "make_extractor",
    "preset",
    "read_features",
]
_HOMES = {
    "binary": ("ITQ", "hamming"),
    "embedding": ("TLCC", "VLAD", "VLAT", "BoW", "FAemb", "FastFAemb", "Fisher", "Triangulation"),
    "encoder": ("Encoder",),
    "errors": ("FaembError",),
    "features": ("HessianAffine", "LocalFeatures", "extract_folder", "make_extractor", "read_features"),
    "presets": ("preset",),
    "projection": ("Projection",),
    "rotation": ("Rotation",),
    "whitening": ("Whitening",),
}
_HOME_OF = {name: f"faemb.{home}" for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'faemb' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
