"""Posterior coding of a Gaussian mixture with diagonal covariances, as the Fisher vector uses it.

    a_j(x) = p(j | x) / sqrt(pi_j),   p(j | x) = pi_j N(x; v_j, sigma_j^2) / sum_k pi_k N(x; v_k, sigma_k^2)

The division by sqrt(pi_j) comes from the Fisher information matrix [Perronnin, Sanchez, Mensink 2010].
"""

import math
from dataclasses import dataclass

from jaxtyping import Float

from faemb.arrays import Array, namespace
from faemb.embedding.codings.base import Coding


@dataclass(frozen=True, eq=False)
class Posterior(Coding):
    priors: Float[Array, " n"]
    deviations: Float[Array, "n d"]

    def weights(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        xp = namespace(x)
        logarithm = self._log_joint(x)
        logarithm = logarithm - xp.max(logarithm, axis=1, keepdims=True)
        joint = xp.exp(logarithm)
        return joint / xp.sum(joint, axis=1, keepdims=True) / xp.sqrt(self.priors)

    def _log_joint(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        """log pi_j N(x; v_j, sigma_j^2); the square is expanded into two matrix products."""
        xp = namespace(x)
        precision = 1 / (self.deviations * self.deviations)
        square = (x * x) @ precision.T - 2 * (x @ (precision * self.anchors).T)
        square = square + xp.sum(precision * self.anchors * self.anchors, axis=1)
        normaliser = xp.sum(xp.log(self.deviations), axis=1) + 0.5 * math.log(2 * math.pi) * x.shape[1]
        return xp.log(self.priors) - normaliser - 0.5 * square
