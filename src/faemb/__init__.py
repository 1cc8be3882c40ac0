"""faemb: instance-level image search by function-approximation embeddings and their kin."""

from faemb.binary import ITQ, hamming
from faemb.embedding import TLCC, VLAD, VLAT, BoW, FAemb, FastFAemb, Fisher, Triangulation
from faemb.encoder import Encoder
from faemb.errors import FaembError
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
    "Projection",
    "Rotation",
    "Triangulation",
    "Whitening",
    "hamming",
    "preset",
]
