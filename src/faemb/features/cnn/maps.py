"""Locations of a convolutional network's last feature map as local features: one pass per scale."""

import numpy as np
from jaxtyping import Float

from faemb.errors import FormatError
from faemb.features.cnn.grid import Map, _Grid
from faemb.features.cnn.preprocessing import Size


class CnnMap(_Grid):
    __doc__ = _Grid.__doc__

    def as_map(self, output: Float[np.ndarray, "1 ..."], size: Size) -> Map:
        if output.ndim != 4:
            cure = "use CnnTokens" if output.ndim == 3 else "name its last convolution as output, or use CnnPatches"
            raise FormatError(f"the network's output has shape {output.shape}, not a map (1, d, h, w); {cure}")
        return output[0]
