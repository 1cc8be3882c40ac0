"""The methods by name: a coding, terms, and a way to learn anchors. D is the length of an embedded descriptor.

    method          coding a_j(x)             terms m(r)                       D
    BoW             nearest                   1                                n
    VLAD            nearest                   r                                n d
    VLAT            nearest                   upper(r r')                      n d(d+1)/2
    Triangulation   1 / |r|                   r                                n d
    Fisher          posterior / sqrt(prior)   r/sigma, ((r/sigma)^2 - 1)/√2    2 n d
    TLCC            unconstrained l1          s, r                             n (1 + d)
    FAemb           sum-to-one l1             (s1, s2 r,) upper(r r')          n d(d+1)/2
    FastFAemb       sum-to-one ridge          (s1, s2 r,) upper(r r')          n d(d+1)/2

FAemb and FastFAemb of order 1 have the terms (s,) r instead. A scale of 0 removes its components.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from faemb.arrays import Array, MatrixLike, contiguous, float64, like, namespace, to_numpy
from faemb.embedding.anchors import gaussian_mixture, kmeans_anchors, learn_anchors
from faemb.embedding.base import DEFAULT_SEED, Embedding
from faemb.embedding.codings import Coding, FunctionApproximation, InverseDistance, Posterior, Ridge, Tangent
from faemb.embedding.terms import Constant, FisherPair, Linear, LocalLinear, Quadratic, Term
from faemb.errors import InputError
from faemb.linear_algebra import symmetric_eigen
from faemb.normalise import unit_length, unit_length_cells
from faemb.runtime import Progress
from faemb.settings import require_choice, require_number, require_whole


class BoW(Embedding):
    """Bag of words: a histogram of nearest anchors."""

    def __init__(self, n_anchors: int = 1000, *, seed: int = DEFAULT_SEED) -> None:
        self.n_anchors, self.seed = n_anchors, seed

    def terms(self) -> Sequence[Term]:
        return (Constant(),)

    def leading_components(self, d: int) -> int:
        return 0


class VLAD(Embedding):
    """Residuals to the nearest anchor.

    unit_residuals: scale each residual to unit length; local_axes: express it in the principal axes of its cell
    (LCS), both of Delhumeau et al. 2013; normalise_cells: scale each cell of the pooled vector to unit length
    (intra-normalisation, Arandjelovic and Zisserman 2013), for vectors that are not whitened.
    """

    learned = ("anchors_", "rotations_")
    may_be_empty = ("rotations_",)
    rotations_: Float[Array, "cells d d"]

    def __init__(
        self,
        n_anchors: int = 64,
        *,
        unit_residuals: bool = False,
        local_axes: bool = False,
        normalise_cells: bool = False,
        seed: int = DEFAULT_SEED,
    ) -> None:
        self.n_anchors, self.seed, self.unit_residuals = n_anchors, seed, unit_residuals
        self.local_axes, self.normalise_cells = local_axes, normalise_cells

    def check_loaded(self) -> None:
        super().check_loaded()
        cells = self.n_anchors if self.local_axes else 0
        if self.is_fitted and self.rotations_.shape[0] != cells:
            raise InputError(f"the array rotations_ has {self.rotations_.shape[0]} cells; expected {cells}")

    def dimension_for(self, d: int) -> int:
        """Without `terms`: the axes of cells are learned."""
        return self.n_anchors * d

    def terms(self) -> Sequence[Term]:
        return (LocalLinear(self.rotations_),) if self.local_axes else (Linear(),)

    def with_anchors(self, anchors: MatrixLike) -> "VLAD":
        if self.local_axes:
            raise InputError("VLAD with local_axes=True learns the axes of each cell; use fit(descriptors)")
        super().with_anchors(anchors)
        self.rotations_ = self._no_rotations()
        return self

    def after_pooling(self, pooled: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
        return unit_length_cells(pooled, self.n_anchors) if self.normalise_cells else pooled

    def _learn(self, x: Float[Array, "m d"], progress: Progress) -> None:
        super()._learn(x, progress)
        self.rotations_ = self._cell_axes(x) if self.local_axes else self._no_rotations()

    def _no_rotations(self) -> Array:
        return self.anchors_[:0, :, None] * self.anchors_[:0, None, :]

    def _cell_axes(self, x: Float[Array, "m d"]) -> Float[Array, "n d d"]:
        """Principal axes of the residuals of each cell, as rows; an empty cell keeps the original axes."""
        xp = namespace(x)
        assigned = self.coding(x).weights(x)
        axes = []
        for j in range(self.n_anchors):
            r = float64((x - self.anchors_[j]) * assigned[:, j : j + 1])
            r = unit_length(r) if self.unit_residuals else r
            axes.append(symmetric_eigen(r.T @ r)[1].T)
        return contiguous(xp.astype(xp.stack(axes), x.dtype))


class VLAT(Embedding):
    """Tensors of the residuals to the nearest anchor: FAemb with the nearest-anchor coding."""

    def __init__(self, n_anchors: int = 8, *, unit_residuals: bool = False, seed: int = DEFAULT_SEED) -> None:
        self.n_anchors, self.seed, self.unit_residuals = n_anchors, seed, unit_residuals

    def terms(self) -> Sequence[Term]:
        return (Quadratic(),)

    def leading_components(self, d: int) -> int:
        return Quadratic().entries(d)


class Triangulation(Embedding):
    """Temb: unit directions from every anchor to the descriptor."""

    def __init__(self, n_anchors: int = 64, *, seed: int = DEFAULT_SEED) -> None:
        self.n_anchors, self.seed = n_anchors, seed

    def coding(self, like_x: Array) -> Coding:
        return InverseDistance(self._beside("anchors_", like_x))

    def terms(self) -> Sequence[Term]:
        return (Linear(),)


class Fisher(Embedding):
    """Fisher vector: gradients of a Gaussian mixture's likelihood in its means and deviations."""

    learned = ("anchors_", "priors_", "deviations_")
    priors_: Float[Array, " n_anchors"]
    deviations_: Float[Array, "n_anchors d"]

    def __init__(self, n_anchors: int = 64, *, seed: int = DEFAULT_SEED) -> None:
        self.n_anchors, self.seed = n_anchors, seed

    def coding(self, like_x: Array) -> Coding:
        return Posterior(*(self._beside(name, like_x) for name in self.learned))

    def terms(self) -> Sequence[Term]:
        return (FisherPair(self.deviations_),)

    def dimension_for(self, d: int) -> int:
        return self.n_anchors * 2 * d  # that of its term, which is made of what is learned

    def leading_components(self, d: int) -> int:
        return 128

    def check_loaded(self) -> None:
        super().check_loaded()
        for name in ("priors_", "deviations_") if self.is_fitted else ():
            if not bool((getattr(self, name) > 0).all()):
                raise InputError(f"the array {name} has values that are not positive")

    def with_anchors(self, anchors: MatrixLike) -> "Fisher":
        raise InputError("Fisher learns a whole mixture, not anchors alone; use fit(descriptors)")

    def _learn(self, x: Float[Array, "m d"], progress: Progress) -> None:
        mixture = gaussian_mixture(x, self.n_anchors, seed=self.seed, progress=progress)
        self.anchors_, self.priors_, self.deviations_ = mixture


class TLCC(Embedding):
    """Local coordinate coding with tangents: [s a_j ; a_j (x - v_j)]_j [DC17, Eq. 5]."""

    def __init__(
        self, n_anchors: int = 64, *, mu: float = 1e-2, constant_scale: float = 1.0, seed: int = DEFAULT_SEED
    ) -> None:
        self.n_anchors, self.mu, self.constant_scale, self.seed = n_anchors, mu, constant_scale, seed

    def coding(self, like_x: Array) -> Coding:
        return Tangent(self._beside("anchors_", like_x), mu=self.mu)

    def terms(self) -> Sequence[Term]:
        return (*_scaled(Constant, self.constant_scale), Linear())

    def check_settings(self) -> None:
        super().check_settings()
        require_number("mu", self.mu, above=0)
        require_number("constant_scale", self.constant_scale, least=0)


class _Taylor(Embedding):
    """Base class of FAemb and FastFAemb, which differ in their coding only.

    order: order of the approximation, k = 1 or 2; constant_scale, linear_scale: s1 and s2 of [DC17, Eq. 17], at order 1
    constant_scale is the s of Eq. 16; anchor_learning: "kmeans", or "alternating" for Algorithm 1 from a k-means start;
    restarts: k-means runs, of which the best is kept. Also learned: `history_`, the objective of Algorithm 1 after
    each half-step.
    """

    learned = ("anchors_", "history_")
    may_be_empty = ("history_",)
    history_: Float[Array, " steps"]
    coding_type: ClassVar[type[FunctionApproximation] | type[Ridge]]

    def __init__(
        self,
        n_anchors: int = 8,
        *,
        mu: float = 1e-2,
        order: int = 2,
        unit_residuals: bool = False,
        constant_scale: float = 0.0,
        linear_scale: float = 0.0,
        anchor_learning: str = "kmeans",
        restarts: int = 1,
        seed: int = DEFAULT_SEED,
    ) -> None:
        self.n_anchors, self.mu, self.order, self.unit_residuals = n_anchors, mu, order, unit_residuals
        self.constant_scale, self.linear_scale = constant_scale, linear_scale
        self.anchor_learning, self.restarts, self.seed = anchor_learning, restarts, seed

    def coding(self, like_x: Array) -> FunctionApproximation | Ridge:
        return self.coding_type(self._beside("anchors_", like_x), mu=self.mu, order=self.order)

    def terms(self) -> Sequence[Term]:
        if self.order == 1:
            return (*_scaled(Constant, self.constant_scale), Linear())
        return (*_scaled(Constant, self.constant_scale), *_scaled(Linear, self.linear_scale), Quadratic())

    def leading_components(self, d: int) -> int:
        return (Linear() if self.order == 1 else Quadratic()).entries(d)

    def with_anchors(self, anchors: MatrixLike) -> "_Taylor":
        super().with_anchors(anchors)
        self.history_ = namespace(self.anchors_).sum(self.anchors_[:0], axis=1)
        return self

    def _learn(self, x: Float[Array, "m d"], progress: Progress) -> None:
        start = kmeans_anchors(x, self.n_anchors, seed=self.seed, restarts=self.restarts, progress=progress)
        self.with_anchors(start)
        if self.anchor_learning == "alternating":
            learned = learn_anchors(to_numpy(x), to_numpy(start), self._coding_on, progress=progress)
            self.anchors_ = like(learned.anchors, x)
            self.history_ = like(np.array(learned.history), x, dtype=namespace(x).float64)

    def _coding_on(self, anchors: np.ndarray) -> FunctionApproximation | Ridge:
        return self.coding_type(anchors, mu=self.mu, order=self.order)

    def check_settings(self) -> None:
        super().check_settings()
        require_whole("order", self.order, 1, 2)
        require_whole("restarts", self.restarts, 1)
        require_number("mu", self.mu, above=0)
        require_number("constant_scale", self.constant_scale, least=0)
        require_number("linear_scale", self.linear_scale, least=0)
        require_choice("anchor_learning", self.anchor_learning, ("kmeans", "alternating"))
        if self.order == 1 and self.linear_scale:
            raise InputError("linear_scale belongs to order 2; at order 1 the linear term is not scaled: leave it out")


class FAemb(_Taylor):
    """Function-approximation embedding: the l1-weighted coding, solved to its optimum [DC17, Sec. 3]."""

    coding_type = FunctionApproximation


class FastFAemb(_Taylor):
    """F-FAemb: the same with a relaxed bound whose coding has a closed form [DC17, Sec. 4]."""

    coding_type = Ridge


def _scaled(term: type[Constant] | type[Linear], scale: float) -> tuple[Term, ...]:
    return (term(scale),) if scale else ()
