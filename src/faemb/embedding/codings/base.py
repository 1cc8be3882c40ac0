"""A coding says how much each anchor speaks for a descriptor: a_j(x), one row of n numbers per descriptor."""

from dataclasses import dataclass

from jaxtyping import Float

from faemb.arrays import Array


@dataclass(frozen=True, eq=False)
class Coding:
    anchors: Float[Array, "n d"]

    def weights(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        raise NotImplementedError
