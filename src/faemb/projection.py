"""Preprocessing of local descriptors before they are embedded: centring, PCA, unit length.

The paper only reduces RootSIFT to d dimensions by PCA; the code released by its authors also subtracts the mean and
scales to unit length before the PCA, and scales to unit length again after it.
"""

from jaxtyping import Float

from faemb.arrays import Array, MatrixLike, as_matrix, contiguous, float64, namespace
from faemb.component import Component
from faemb.errors import InputError
from faemb.linear_algebra import principal_axes
from faemb.normalise import unit_length
from faemb.sets import SetsLike, as_sets
from faemb.settings import require_whole


class Projection(Component):
    """Learned: `mean_` (d_in), `axes_` (d_in, d).

    dimension:   d, the length after PCA; None for no PCA
    unit_before: centre, then scale to unit length, before the axes are learned and applied
    unit_after:  scale to unit length at the end
    """

    learned = ("mean_", "axes_")
    mean_: Float[Array, " d_in"]
    axes_: Float[Array, "d_in dimension"]

    def __init__(self, dimension: int | None = None, *, unit_before: bool = False, unit_after: bool = False) -> None:
        self.dimension, self.unit_before, self.unit_after = dimension, unit_before, unit_after

    def check_settings(self) -> None:
        if self.dimension is not None:
            require_whole("dimension", self.dimension, 1)

    def check_loaded(self) -> None:
        super().check_loaded()
        if self.dimension is None and self.is_fitted and self.axes_.shape[1] != self.axes_.shape[0]:
            raise InputError(f"the array axes_ has shape {self.axes_.shape}; expected a square: dimension is None")

    def fit(self, descriptors: SetsLike, y: object = None) -> "Projection":
        """Learn from descriptors; `y` is ignored."""
        x = as_sets(descriptors).flat
        xp = namespace(x)
        if self.dimension is not None:
            require_whole("dimension", self.dimension, 1, int(x.shape[1]))
        d = self.dimension or int(x.shape[1])
        if x.shape[0] == 0:
            raise InputError("there are no training descriptors; give at least one image that has some")
        mean = xp.astype(xp.mean(float64(x), axis=0), x.dtype)
        if self.dimension is None:
            axes = xp.eye(d, dtype=x.dtype, device=x.device)
        else:
            axes = principal_axes(self._centred(x, mean), d)[2].T
        if axes.shape[1] < d:
            raise InputError(
                f"{x.shape[0]} training descriptors span {axes.shape[1]} directions; a PCA to {d} dimensions needs more"
            )
        self.mean_, self.axes_ = mean, contiguous(xp.astype(axes, x.dtype))
        return self

    @property
    def descriptor_dimension(self) -> int:
        """Length of the input descriptors."""
        self.require_fitted()
        return int(self.mean_.shape[0])

    def transform(self, x: MatrixLike) -> Float[Array, "N d"]:
        """The projected descriptors."""
        return self.project(as_matrix(x, "descriptors", columns=self.descriptor_dimension))

    def project(self, x: Float[Array, "*B N d_in"]) -> Float[Array, "*B N d"]:
        """The same for checked descriptors of one image or of a padded batch, as the encoder calls it."""
        # Without PCA and scaling, descriptors are not centred either: RootSIFT keeps its unit length.
        if self.dimension is None and not self.unit_before:
            return unit_length(x) if self.unit_after else x
        projected = self._centred(x, self._beside("mean_", x)) @ self._beside("axes_", x)
        return unit_length(projected) if self.unit_after else projected

    def _centred(self, x: Float[Array, "*B N d_in"], mean: Float[Array, " d_in"]) -> Float[Array, "*B N d_in"]:
        centred = x - mean
        return unit_length(centred) if self.unit_before else centred
