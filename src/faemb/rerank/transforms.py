"""Plane transforms as 3 x 3 matrices on homogeneous coordinates, many at a time."""

import numpy as np
from jaxtyping import Bool, Float

Transforms = Float[np.ndarray, "H 3 3"]

_HORIZON = 0.1
"""Points whose third homogeneous coordinate is smaller lie near or behind the horizon of a perspective transform."""
_FLAT = 1e-12
"""Lower bound of the area scale, so that a degenerate map does not divide by zero."""
_RIDGE = 1e-9
"""Keeps least squares solvable for too few or collinear points; no other matches agree with such a transform."""
_SIGNS = np.array([[1, -1], [-1, 1]])


def homogeneous(points: Float[np.ndarray, "M 2"]) -> Float[np.ndarray, "M 3"]:
    return np.concatenate([points, np.ones((len(points), 1))], axis=1)


def determinants(matrices: Float[np.ndarray, "M n n"]) -> Float[np.ndarray, " M"]:
    """Determinants of the upper left 2 x 2 blocks; faster than a call of LAPACK for each matrix."""
    return matrices[:, 0, 0] * matrices[:, 1, 1] - matrices[:, 0, 1] * matrices[:, 1, 0]


def local_affine(
    x: Float[np.ndarray, "M 2"],
    y: Float[np.ndarray, "M 2"],
    shape_x: Float[np.ndarray, "M 2 2"],
    shape_y: Float[np.ndarray, "M 2 2"],
) -> Transforms:
    """The affine map of each match from the first region to the second, centre to centre."""
    linear = shape_y @ _inverses(shape_x)
    maps = np.zeros((len(x), 3, 3))
    maps[:, :2, :2] = linear
    maps[:, :2, 2] = y - (linear @ x[:, :, None])[..., 0]
    maps[:, 2, 2] = 1
    return maps


def _inverses(matrices: Float[np.ndarray, "M 2 2"]) -> Float[np.ndarray, "M 2 2"]:
    adjugates = matrices[:, ::-1, ::-1].transpose(0, 2, 1) * _SIGNS
    return adjugates / determinants(matrices)[:, None, None]


def apply_affine(
    transforms: Transforms, x: Float[np.ndarray, "M 2"]
) -> tuple[Float[np.ndarray, "H 2 M"], Float[np.ndarray, "H 1"]]:
    """The points mapped by each affine transform, and its scale, which is the same at all points."""
    mapped = transforms[:, :2, :2].reshape(-1, 2) @ x.T + transforms[:, :2, 2].reshape(-1, 1)
    area = np.abs(determinants(transforms))[:, None]
    return mapped.reshape(-1, 2, len(x)), np.sqrt(np.maximum(area, _FLAT))


def apply(
    transforms: Transforms, x: Float[np.ndarray, "M 2"]
) -> tuple[Float[np.ndarray, "H 2 M"], Float[np.ndarray, "H M"]]:
    """The points mapped by each transform, and its scale at each point; NaN beyond the horizon."""
    mapped = transforms @ homogeneous(x).T
    depth = np.where(mapped[:, 2] > _HORIZON, mapped[:, 2], np.nan)
    area = np.abs(np.linalg.det(transforms))[:, None] / depth**3  # determinant of the Jacobian
    return mapped[:, :2] / depth[:, None], np.sqrt(np.maximum(area, _FLAT))


def affine_fits(
    x: Float[np.ndarray, "M 2"], y: Float[np.ndarray, "M 2"], chosen: Bool[np.ndarray, "H M"]
) -> Transforms:
    """The least-squares affine transform of each set of chosen matches."""
    points, weights = homogeneous(x), chosen.astype(np.float64)
    squares = (weights @ (points[:, :, None] * points[:, None]).reshape(len(x), 9)).reshape(-1, 3, 3)
    products = (weights @ (points[:, :, None] * y[:, None]).reshape(len(x), 6)).reshape(-1, 3, 2)
    fits = np.zeros((len(chosen), 3, 3))
    fits[:, :2] = np.linalg.solve(squares + _RIDGE * np.eye(3), products).transpose(0, 2, 1)
    fits[:, 2, 2] = 1
    return fits


def homography_fit(x: Float[np.ndarray, "M 2"], y: Float[np.ndarray, "M 2"]) -> Float[np.ndarray, "3 3"] | None:
    """The perspective transform with the least algebraic error; None if it is degenerate (last element near 0).

    Coordinates must be centred and of the order of one, as they are in verification.
    """
    points, zeros = homogeneous(x), np.zeros((len(x), 3))
    rows = np.concatenate([
        np.concatenate([points, zeros, -y[:, :1] * points], axis=1),
        np.concatenate([zeros, points, -y[:, 1:] * points], axis=1),
    ])  # fmt: skip
    fit = np.linalg.eigh(rows.T @ rows)[1][:, 0].reshape(3, 3)
    return fit / fit[2, 2] if abs(fit[2, 2]) > _HORIZON * np.abs(fit).max() else None


def turn_of(transforms: Transforms) -> Float[np.ndarray, " H"]:
    """Rotation angle of each affine transform, in radians."""
    return np.arctan2(transforms[:, 1, 0] - transforms[:, 0, 1], transforms[:, 0, 0] + transforms[:, 1, 1])
