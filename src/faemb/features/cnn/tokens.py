"""Tokens of a vision transformer as local features: one per patch of the network's own grid.

The output is (1, prefix + h w, d): tokens that stand for no place (class, registers), then those of h rows of w patches
of `multiple` x `multiple` pixels.
"""

import numpy as np
from jaxtyping import Float

from faemb.errors import FormatError
from faemb.features.cnn.grid import Map, _Grid
from faemb.features.cnn.preprocessing import Size


class CnnTokens(_Grid):
    __doc__ = _Grid.__doc__

    def as_map(self, output: Float[np.ndarray, "1 ..."], size: Size) -> Map:
        if output.ndim != 3:
            cure = "use CnnMap" if output.ndim == 4 else "name another output"
            raise FormatError(f"the network's output has shape {output.shape}, not tokens (1, n, d); {cure}")
        side, prefix = self.network.multiple, self.network.prefix_tokens
        w, h = size[0] // side, size[1] // side
        if output.shape[1] != prefix + h * w:
            raise FormatError(
                f"the network gives {output.shape[1]} tokens for {size[0]} x {size[1]} pixels; expected {prefix} + "
                f"{h} * {w}: set prefix_tokens, and multiple to the side of its patches"
            )
        return output[0, prefix:].T.reshape(-1, h, w)
