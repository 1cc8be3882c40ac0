"""Hessian-affine regions with SIFT descriptors: the local features of the paper [DC17, Sec. 5.1].

    scale space -> extrema of the Hessian's determinant -> affine adaptation -> patches -> (orientation) -> SIFT

Constants follow the detector of Perdoch, Chum and Matas [PCM09]: the described region has a radius of 3 sqrt(3) times
the scale, its patch has 41 x 41 pixels, and by default "up" in the image is up in the patch (gravity vector).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from faemb.errors import InputError
from faemb.features.extractor import Extractor
from faemb.features.hessian_affine.adaptation import adapted
from faemb.features.hessian_affine.extrema import extrema
from faemb.features.hessian_affine.mirroring import mirrored
from faemb.features.hessian_affine.orientation import orientations
from faemb.features.hessian_affine.patches import Gradients, Source, gradients, sources
from faemb.features.hessian_affine.pyramid import Octave, octaves
from faemb.features.hessian_affine.sift import DIMENSION, root_sift, sift
from faemb.features.image import DEFAULT_MAX_SIDE, Image
from faemb.features.image.levels import MOST_SIDE
from faemb.features.local_features import LocalFeatures, frames_from, rotations
from faemb.settings import require_flag, require_number, require_whole

_SPARE, _SPARE_AT_LEAST = 1.6, 32
"""More candidates are adapted than needed, by this factor and number: some do not converge, or leave the image."""
_BLOCK = 1024
MOST_PATCH = 181
"""Largest side of a patch: OpenCV samples a patch as one row of at most 32766 pixels."""


class Keypoints(NamedTuple):
    """Extrema of all octaves, strongest first, in pixels of the image."""

    octave: Int[np.ndarray, " N"]
    level: Int[np.ndarray, " N"]
    centres: Float[np.ndarray, "N 2"]
    sigma: Float[np.ndarray, " N"]
    response: Float[np.ndarray, " N"]

    def select(self, rows: np.ndarray | slice) -> "Keypoints":
        return Keypoints(*(part[rows] for part in self))


class Regions(NamedTuple):
    """Described regions centre + shape @ disc, in pixels of the image."""

    centres: Float[np.ndarray, "N 2"]
    shapes: Float[np.ndarray, "N 2 2"]
    scores: Float[np.ndarray, " N"]

    def select(self, rows: np.ndarray | slice) -> "Regions":
        return Regions(*(part[rows] for part in self))


class HessianAffine(Extractor):
    """Hessian-affine detector, RootSIFT descriptor.

    max_features:       keep this number of the strongest; None: all
    rotation_invariant: rotate patches to their dominant orientations; otherwise patches stay upright
    root:               compute RootSIFT [Arandjelovic and Zisserman 2012]; otherwise SIFT of unit length
    affine:             adapt the shape of regions; otherwise they stay round
    max_side:           images with a longer side are reduced to it first; None: no limit
    enlarge:            start with the image at twice its size, which gives several times as many small regions
    threshold:          smallest sqrt(sigma^4 |det H|), for pixels 0..255
    edge_ratio:         largest ratio of the response's principal curvatures
    per_octave, sigma:  scales per octave, and the blur of the first
    iterations:         largest number of steps of the affine adaptation
    convergence:        deviation of the gradients from isotropy at which the adaptation ends
    measurement:        radius of the described region, in units of the scale
    patch:              side of the normalised patch in pixels, odd
    """

    def __init__(
        self,
        *,
        max_features: int | None = None,
        rotation_invariant: bool = False,
        root: bool = True,
        affine: bool = True,
        max_side: int | None = DEFAULT_MAX_SIDE,
        enlarge: bool = False,
        threshold: float = 16 / 3,
        edge_ratio: float = 10.0,
        per_octave: int = 3,
        sigma: float = 1.6,
        iterations: int = 16,
        convergence: float = 0.05,
        measurement: float = 3 * 3**0.5,
        patch: int = 41,
    ) -> None:
        self.max_features, self.rotation_invariant, self.root = max_features, rotation_invariant, root
        self.affine, self.max_side, self.enlarge = affine, max_side, enlarge
        self.threshold, self.edge_ratio, self.per_octave, self.sigma = threshold, edge_ratio, per_octave, sigma
        self.iterations, self.convergence = iterations, convergence
        self.measurement, self.patch = measurement, patch

    @property
    def largest_turn(self) -> float:
        return np.pi if self.rotation_invariant else np.pi / 4

    @property
    def is_upright(self) -> bool:
        return not self.rotation_invariant

    can_mirror = True

    def mirrored(self, features: LocalFeatures) -> LocalFeatures:
        return mirrored(features, rotation_invariant=self.rotation_invariant)

    def enlarging(self) -> "HessianAffine | None":
        return None if self.enlarge else self.clone().set_params(enlarge=True)

    def check_settings(self) -> None:
        super().check_settings()
        if self.max_features is not None:
            require_whole("max_features", self.max_features, 1)
        for name in ("rotation_invariant", "root", "affine", "enlarge"):
            require_flag(name, getattr(self, name))
        require_number("threshold", self.threshold, least=0.0, most=1e6)
        require_number("edge_ratio", self.edge_ratio, least=1.0, most=1e6)
        require_whole("per_octave", self.per_octave, 1, 16)
        require_number("sigma", self.sigma, least=1.1, most=8.0)  # more than twice IMAGE_BLUR
        require_whole("iterations", self.iterations, 2, 1000)
        require_number("convergence", self.convergence, above=0.0, most=1.0)
        require_number("measurement", self.measurement, least=0.1, most=1000.0)
        require_whole("patch", self.patch, 9, MOST_PATCH)
        if self.patch % 2 == 0:
            raise InputError(f"patch is {self.patch}; expected an odd number: a patch has a middle pixel")

    def describe(self, image: Image) -> LocalFeatures:
        grey = image.grey()
        if self.enlarge and 2 * max(grey.shape) - 1 > MOST_SIDE:
            width, height = grey.shape[::-1]
            raise InputError(
                f"{image.name} is {width} x {height} pixels; with enlarge=True a side has at most "
                f"{(MOST_SIDE + 1) // 2}: give max_side"
            )
        size = (grey.shape[1], grey.shape[0])
        pyramid, keypoints = self.detect(grey)
        regions = self.regions(pyramid, keypoints, size)
        parts = list(self.described(sources(grey, pyramid, self.sigma), regions))
        if not parts:
            return LocalFeatures.none(DIMENSION, size)
        centres, shapes, scores, descriptors = (np.concatenate(part) for part in zip(*parts, strict=True))
        features = LocalFeatures(descriptors, frames_from(centres, shapes), scores.astype(np.float32), size)
        return features.select(slice(self.max_features))

    def detect(self, grey: Float[np.ndarray, "H W"]) -> tuple[list[Octave], Keypoints]:
        """The octaves without their two topmost levels, needed for extrema only, and the keypoints, strongest first."""
        pyramid: list[Octave] = []
        parts: list[Keypoints] = []
        for octave in octaves(grey, sigma=self.sigma, per_octave=self.per_octave, enlarge=self.enlarge):
            found = extrema(octave, sigma=self.sigma, threshold=self.threshold, edge_ratio=self.edge_ratio)
            centres = np.stack([found.x, found.y], axis=1) * octave.pixel
            index = np.full(len(found.level), len(pyramid))
            parts.append(Keypoints(index, found.level, centres, found.sigma * octave.pixel, np.abs(found.response)))
            pyramid.append(Octave(octave.pixel, octave.levels[: self.per_octave]))
        if not parts:
            none = np.zeros(0)
            return [], Keypoints(none.astype(int), none.astype(int), np.zeros((0, 2)), none, none)
        keypoints = Keypoints(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        return pyramid, keypoints.select(np.argsort(-keypoints.response, kind="stable"))

    def regions(self, pyramid: list[Octave], keypoints: Keypoints, size: tuple[int, int]) -> Regions:
        """Regions of the strongest keypoints that converge and lie completely inside the image."""
        wanted = len(keypoints.level) if self.max_features is None else self.max_features
        parts = [self._usable(pyramid, keypoints.select(slice(0)), size)]
        start, missing = 0, wanted
        while missing > 0 and start < len(keypoints.level):
            stop = start + int(_SPARE * missing) + _SPARE_AT_LEAST
            parts.append(self._usable(pyramid, keypoints.select(slice(start, stop)), size))
            start, missing = stop, missing - len(parts[-1].scores)
        return Regions(*(np.concatenate(part) for part in zip(*parts, strict=True))).select(slice(wanted))

    def _usable(self, pyramid: list[Octave], keypoints: Keypoints, size: tuple[int, int]) -> Regions:
        shapes, converged = self._shapes(pyramid, keypoints)
        shapes = upright(shapes) * (self.measurement * keypoints.sigma)[:, None, None]
        chosen = np.flatnonzero(converged & within(keypoints.centres, shapes, size))
        return Regions(keypoints.centres, shapes, keypoints.response).select(chosen)

    def _shapes(self, pyramid: list[Octave], keypoints: Keypoints) -> tuple[np.ndarray, np.ndarray]:
        """Shapes of determinant 1, and whether each converged; a shape is adapted one level below its extremum."""
        count = len(keypoints.level)
        if not self.affine or not count:
            return np.tile(np.eye(2), (count, 1, 1)), np.ones(count, bool)
        pixel = np.array([octave.pixel for octave in pyramid])[keypoints.octave]
        return adapted(
            [level for octave in pyramid for level in octave.levels],
            keypoints.octave * self.per_octave + keypoints.level - 1,
            keypoints.centres / pixel[:, None],
            keypoints.sigma / (self.sigma * pixel),
            iterations=self.iterations,
            convergence=self.convergence,
        )

    def described(self, images: list[Source], regions: Regions) -> Iterator[tuple[np.ndarray, ...]]:
        """Regions and their descriptors, in blocks, to limit the memory of the patches."""
        for start in range(0, len(regions.scores), _BLOCK):
            block = regions.select(slice(start, start + _BLOCK))
            side = int(self.patch)  # a NumPy integer would make the sampling grid float64
            seen = gradients(images, block.centres, block.shapes, side)
            if self.rotation_invariant:
                block = turned(block, seen)
                seen = gradients(images, block.centres, block.shapes, side)
            descriptors = sift(seen)
            yield (*block, root_sift(descriptors) if self.root else descriptors)


def turned(regions: Regions, seen: Gradients) -> Regions:
    """One region per dominant orientation of each patch, rotated so that the orientation is the patch's x axis."""
    which, angle = orientations(seen)
    chosen = regions.select(which)
    return chosen._replace(shapes=chosen.shapes @ rotations(angle))


def upright(shapes: Float[np.ndarray, "N 2 2"]) -> Float[np.ndarray, "N 2 2"]:
    """The same ellipses as lower-triangular matrices: vertical lines of the image are vertical in the patch."""
    (a, b), (c, d) = shapes.transpose(1, 2, 0)
    across = np.hypot(a, b)
    zero = np.zeros_like(a)
    return np.stack([across, zero, (a * c + b * d) / across, (a * d - b * c) / across], axis=-1).reshape(-1, 2, 2)


def within(
    centres: Float[np.ndarray, "N 2"], shapes: Float[np.ndarray, "N 2 2"], size: tuple[int, int]
) -> Bool[np.ndarray, " N"]:
    """Whether the whole ellipse lies inside an image of this width and height."""
    extent = np.hypot(shapes[..., 0], shapes[..., 1])
    return ((centres - extent >= 0) & (centres + extent <= np.array(size) - 1)).all(axis=1)
