"""What the extractors of this folder share: a network, its checks, and a fingerprint that is computed once."""

from typing import Any

from faemb import persistence
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

    @property
    def fingerprint(self) -> str:
        """As of every extractor, but hashed once: a network has many megabytes, and every image asks."""
        tree, arrays = persistence.describe(self)
        program = getattr(self.network, "program_", None)
        known: tuple[Any, Any, str] | None = self.__dict__.get("_known")
        if known is None or known[0] != tree or known[1] is not program:
            known = self._known = tree, program, persistence.fingerprint_of(tree, arrays)
        return known[2]
