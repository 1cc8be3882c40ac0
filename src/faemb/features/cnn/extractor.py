"""Shared by the extractors of this package: a network, its checks, and the conversion of vectors to features."""

import numpy as np
from jaxtyping import Float

from faemb import normalise
from faemb.features.cnn.network import Network
from faemb.features.cnn.preprocessing import Size
from faemb.features.extractor import Extractor
from faemb.features.local_features import Grids, LocalFeatures
from faemb.settings import require_flag, require_kind


class _NetworkExtractor(Extractor):
    network: Network
    unit_length: bool
    largest_turn = None

    def check_settings(self) -> None:
        self.check_loaded()
        self.network.check_settings()

    def check_loaded(self) -> None:
        """Check the settings only: the network is checked when its session starts."""
        super().check_settings()
        require_kind("network", self.network, Network, optional=False)
        require_flag("unit_length", self.unit_length)


def directed(
    vectors: Float[np.ndarray, "N d"],
    frames: Float[np.ndarray, "N 6"],
    image_size: Size,
    *,
    unit: bool,
    grids: Grids | None = None,
) -> LocalFeatures:
    """Features whose scores are the norms of their vectors; `unit` scales vectors to unit length and drops zeros."""
    lengths = np.linalg.norm(vectors, axis=1)
    descriptors = normalise.unit_length(vectors) if unit else vectors
    features = LocalFeatures(descriptors, frames, lengths, image_size, grids=grids)
    return features.select(lengths > 0) if unit else features
