"""Local features from a network in an ONNX file: of patches, of cells of a feature map, of tokens of a transformer."""

from faemb.features.cnn.maps import CnnMap, CnnTokens
from faemb.features.cnn.network import Network
from faemb.features.cnn.patches import CnnPatches
from faemb.features.cnn.pooling import rmac, rmac_regions, spoc

__all__ = ["CnnMap", "CnnPatches", "CnnTokens", "Network", "rmac", "rmac_regions", "spoc"]
