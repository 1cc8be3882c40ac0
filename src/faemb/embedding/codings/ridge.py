"""F-FAemb's coding: sum-to-one ridge regression on the anchors, in closed form [DC17, Eq. 27-29].

    min_g  1/2 |x - V'g|^2 + mu/2 a(x) |g|^2   s.t. 1'g = 1,      a(x) = sum_j |x - v_j|_1^(k+1)

With B = (V V' + mu a(x) I)^-1 the solution is g = B (V x - lambda 1). The matrix depends on x through one number
only, so a single eigendecomposition of V V' serves every descriptor. V holds the anchors as rows (n x d). Since the
coefficients sum to one, any origin can be used: it is the first anchor, so that V is zero if all anchors coincide.
"""

from dataclasses import dataclass

from jaxtyping import Float

from faemb.arrays import Array, float64, namespace
from faemb.embedding.codings.base import Coding, remainder_bounds


@dataclass(frozen=True, eq=False)
class Ridge(Coding):
    mu: float = 1e-2
    order: int = 2

    def weights(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        xp = namespace(x)
        origin = self.anchors[0]
        spectrum, basis = self._gram_eigen(x)
        ones = xp.sum(basis, axis=0)
        bound = self.mu * xp.sum(remainder_bounds(x, self.anchors, self.order), axis=1)
        correlation = (x - origin) @ ((self.anchors - origin).T @ basis)
        # If all anchors coincide with the descriptor, bound and Gram matrix are 0: any floor then gives equal weights.
        inverse = 1 / (spectrum + xp.clip(bound, min=float(xp.finfo(x.dtype).tiny) ** 0.5)[:, None])
        multiplier = ((correlation * inverse) @ ones - 1) / (inverse @ (ones * ones))  # [DC17, Eq. 28]
        return ((correlation - multiplier[:, None] * ones) * inverse) @ basis.T  # [DC17, Eq. 29]

    def penalties(self, g: Float[Array, "N n"]) -> Float[Array, "N n"]:
        """Factor of each anchor's bound in the objective: |g|^2, the same for all [DC17, Eq. 27]."""
        xp = namespace(g)
        return xp.zeros_like(g) + xp.sum(g * g, axis=1, keepdims=True)

    def _gram_eigen(self, x: Array) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
        """Eigenvalues and eigenvectors of V V', in float64: small eigenvalues have a large effect on coefficients."""
        xp = namespace(x)
        anchors = float64(self.anchors) - float64(self.anchors[0])
        spectrum, basis = xp.linalg.eigh(anchors @ anchors.T)
        return xp.astype(xp.clip(spectrum, min=0), x.dtype), xp.astype(basis, x.dtype)
