"""What the extractors of this folder share: a network and its checks."""

from faemb.features.cnn.network import Network
from faemb.features.extractor import Extractor
from faemb.features.image import require_max_side
from faemb.settings import require_kind


class _NetworkExtractor(Extractor):
    network: Network
    unit_length: bool

    def check_settings(self) -> None:
        require_kind("network", self.network, Network, optional=False)
        require_kind("unit_length", self.unit_length, bool, optional=False)
        require_max_side(self.max_side)
        self.network.check_settings()
