"""An embedding method: a coding, some Taylor terms, and anchors that are learned.

    phi(x) = [ a_j(x) * m(x - v_j) ]_{j = 1..n}

Each method of the paper is one choice of a and m (methods.py).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeVar

from jaxtyping import Bool, Float

from faemb.arrays import Array, MatrixLike, as_matrix, namespace, row_blocks
from faemb.component import Component
from faemb.embedding.anchors import kmeans_anchors
from faemb.embedding.codings import Coding, Nearest
from faemb.embedding.operator import Embedded
from faemb.embedding.terms import Term
from faemb.errors import InputError
from faemb.runtime import Progress, silent
from faemb.sets import SetsLike, as_sets
from faemb.settings import require_seed, require_whole

DEFAULT_SEED = 0

E = TypeVar("E", bound="Embedding")


class Embedding(Component, ABC):
    """Base of the methods, all of which have the settings `n_anchors` and `seed`.

    Learned: `anchors_` (n, d).
    """

    learned: ClassVar[tuple[str, ...]] = ("anchors_",)
    n_anchors: int
    seed: int
    anchors_: Float[Array, "n_anchors d"]

    def fit(self: E, descriptors: SetsLike, y: object = None, *, progress: Progress | None = None) -> E:
        """Learn the anchors from descriptors: a list of (n_i, d) arrays, (flat, offsets), or one (n, d) array.

        `y` is ignored.
        """
        self.check_settings()
        self._learn(as_sets(descriptors).flat, progress or silent)
        return self

    def with_anchors(self: E, anchors: MatrixLike) -> E:
        """Use these anchors as they are, instead of learning them."""
        self.check_settings()
        rows = as_matrix(anchors, "anchors")
        if rows.shape[0] != self.n_anchors:
            raise InputError(f"{rows.shape[0]} anchors were given; this {type(self).__name__} has {self.n_anchors}")
        self.anchors_ = namespace(rows).asarray(rows, copy=True)
        return self

    def check_settings(self) -> None:
        """Raise an InputError for an invalid setting."""
        require_whole("n_anchors", self.n_anchors, 1)
        require_seed(self.seed)

    def embed(self, x: MatrixLike) -> Embedded:
        """Phi of one image as an operator that is never stored; N may be 0."""
        return self.operator(as_matrix(x, "descriptors", columns=self.descriptor_dimension))

    def transform(self, x: MatrixLike) -> Float[Array, "N D"]:
        """Phi of one image as a matrix: N x D numbers."""
        return self.embed(x).dense()

    def operator(self, x: Float[Array, "*B N d"], real: Bool[Array, "*B N"] | None = None) -> Embedded:
        """Phi of checked descriptors of one image or of a padded batch, as the encoder calls it.

        `real` is false for padded rows.
        """
        xp = namespace(x)
        coding = self.coding(x)
        rows = xp.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
        # In blocks: the temporaries of a coding are several times the size of its descriptors.
        parts = [coding.weights(rows[block]) for block in row_blocks(rows.shape[0], 8 * rows.shape[1], x)]
        coefficients = xp.reshape(xp.concat(parts or [coding.weights(rows)]), (*x.shape[:-1], self.n_anchors))
        return Embedded(
            x, coding.anchors, coefficients, self.terms(), unit_residuals=self.has_unit_residuals, real=real
        )

    @property
    def descriptor_dimension(self) -> int:
        """d, the length of the descriptors that the method was fitted on."""
        self.require_fitted()
        return int(self.anchors_.shape[1])

    @property
    def dimension(self) -> int:
        """D, the length of one embedded descriptor."""
        return self.dimension_for(self.descriptor_dimension)

    def dimension_for(self, d: int) -> int:
        """D for descriptors of length d: known before `fit`."""
        return self.n_anchors * sum(term.entries(d) for term in self.terms())

    def coding(self, like_x: Array) -> Coding:
        """a_j, with its arrays in the library, device and precision of `like_x`; by default the nearest anchor."""
        return Nearest(self._beside("anchors_", like_x))

    @abstractmethod
    def terms(self) -> Sequence[Term]:
        """The terms whose entries make up m."""

    def leading_components(self, d: int) -> int:
        """Number of leading whitened components that the paper discards, by default d [DC17, Sec. 5.3]."""
        return d

    def _learn(self, x: Float[Array, "m d"], progress: Progress) -> None:
        self.anchors_ = kmeans_anchors(x, self.n_anchors, seed=self.seed, progress=progress)

    @property
    def has_unit_residuals(self) -> bool:
        """Whether r is scaled to unit length before the terms are computed."""
        return bool(getattr(self, "unit_residuals", False))

    def after_pooling(self, pooled: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
        """Apply the method's own normalisation to a pooled vector that is not whitened; by default none."""
        return pooled
