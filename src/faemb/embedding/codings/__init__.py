"""Codings a_j(x), one per file: how much each anchor speaks for a descriptor."""

from faemb.embedding.codings.base import Coding
from faemb.embedding.codings.function_approximation import FunctionApproximation
from faemb.embedding.codings.inverse_distance import InverseDistance
from faemb.embedding.codings.nearest import Nearest
from faemb.embedding.codings.posterior import Posterior
from faemb.embedding.codings.ridge import Ridge
from faemb.embedding.codings.tangent import Tangent

__all__ = ["Coding", "FunctionApproximation", "InverseDistance", "Nearest", "Posterior", "Ridge", "Tangent"]
