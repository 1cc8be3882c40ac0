"""Codings a_j(x): the coefficient of each anchor for a descriptor."""

from faemb.embedding.codings.base import Coding
from faemb.embedding.codings.distance import InverseDistance, Nearest
from faemb.embedding.codings.posterior import Posterior
from faemb.embedding.codings.ridge import Ridge
from faemb.embedding.codings.sparse import FunctionApproximation, Tangent

__all__ = ["Coding", "FunctionApproximation", "InverseDistance", "Nearest", "Posterior", "Ridge", "Tangent"]
