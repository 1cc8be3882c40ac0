"""Geometric verification: whether the matches of two images agree with one transform, and how surprising that is.

Each match of two affine regions gives one transform, so no random samples are needed. The transforms with the most
votes are refined by least squares on the matches that agree with them, then to a perspective transform where that has
more evidence. The best is the one whose agreement is least probable by chance, over all tolerances.

    matches -> one affine map each -> votes -> distinct seeds -> refined -> least probable -> perspective

Coordinates are centred, in units of the image's diagonal.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from faemb.rerank.chance import Places, improbability
from faemb.rerank.matching import Matchable, matches
from faemb.rerank.overlays import outside_overlay
from faemb.rerank.transforms import (
    Transforms,
    affine_fits,
    apply,
    apply_affine,
    determinants,
    homography_fit,
    local_affine,
    turn_of,
)

TOLERANCES = np.array([0.04, 0.02, 0.01, 0.005])
"""Distances, in diagonals, within which a match agrees with a transform."""
UPRIGHT = np.pi / 4
"""Largest rotation between two images with upright descriptors, which do not match at larger ones."""
_VOTING = 0.03
"""Tolerance for the transform of a single match, which is less exact."""
_SCALE = 0.7
"""Largest difference of the logarithms of the scale of a match and of a transform that agree."""
_SCALES_AGREE = 0.45
"""Share of wrong matches whose scale agrees by chance."""
_SEEDS = 6
_OVERLAP = 0.7
"""A transform that shares this share of its votes with a chosen seed is not a seed itself."""
_REFINING = (0.04, 0.02, 0.01)
"""Tolerance of each step of refinement."""
_LEAST = 3
"""An affine transform agrees with any three matches."""
_LEAST_HOMOGRAPHY = 8
_FREE, _FREE_HOMOGRAPHY = 1, 2
_LEAST_PART = 15.0
"""Least evidence of a further part of the scene: what one of 100 wrong pairs reaches (docs/verification.md)."""


@dataclass(frozen=True, eq=False)
class Verification:
    """Result of geometric verification of two images."""

    evidence: float
    """How much better the matches agree than by chance: a score on a natural logarithmic scale, at least 0.

    It is minus the logarithm of a bound on the probability that as many independent wrong matches agree. Wrong matches
    are not independent, so it is not a probability; the confidence is calibrated from it.
    """
    matches: Int[np.ndarray, "M 2"]
    """Rows of the matched features in the first and the second image."""
    agreeing: Bool[np.ndarray, " M"]
    """The matches that agree with `transform`."""
    transform: Float[np.ndarray, "3 3"] | None
    """From pixels of the first image to pixels of the second; None if no three matches agree."""
    places: int = 0
    """Number of distinct places of the agreeing matches: several matches in one place count once."""
    points: Float32[np.ndarray, "M 4"] = field(default_factory=lambda: np.zeros((0, 4), np.float32))
    """Centres of the matched regions, in pixels: x and y in the first image, x and y in the second."""
    written_over: int = 0
    """Number of matches that do not count: those of a caption, a logo or a frame in the same place of both images."""

    def __repr__(self) -> str:
        return f"Verification({self.agreeing.sum()} of {len(self.matches)} matches agree, evidence {self.evidence:.1f})"


def verify(first: Matchable, second: Matchable, *, turn: float = UPRIGHT) -> Verification:
    """Match two images and find the transform that their matches agree with, of rotation at most `turn` in radians."""
    pairs = matches(first, second)
    numbers = np.stack([first.rows[pairs[:, 0]], second.rows[pairs[:, 1]]], axis=1)
    points = np.concatenate([first.centres[pairs[:, 0]], second.centres[pairs[:, 1]]], axis=1).astype(np.float32)
    found, counting = _without_overlays(first, second, pairs, turn)
    agreeing, left_out = np.zeros(len(pairs), bool), int((~counting).sum())
    if found is None:
        return Verification(0.0, numbers, agreeing, None, 0, points, left_out)
    agreeing[counting] = found.agreeing
    transform = np.linalg.inv(_to_units(second)) @ found.transform @ _to_units(first)
    transform /= transform[2, 2]
    return Verification(found.evidence, numbers, agreeing, transform, found.places, points, left_out)


def _without_overlays(
    first: Matchable, second: Matchable, pairs: Int[np.ndarray, "M 2"], turn: float
) -> "tuple[_Found | None, Bool[np.ndarray, ' M']]":
    """The best transform, and the matches that count: those that are not of a caption, a frame or another overlay.

    Each round leaves some matches out or is the last one: there may be several overlays, each in its own place.
    """
    counting = np.ones(len(pairs), bool)
    while (found := _best(first, second, pairs[counting], turn)) is not None:
        outside = outside_overlay(first, second, pairs[counting], found.agreeing)
        if outside.all():
            break
        counting[counting] = outside
    return found, counting


@dataclass(eq=False)
class _Found:
    evidence: float
    agreeing: Bool[np.ndarray, " M"]
    transform: Float[np.ndarray, "3 3"]
    places: int
    tolerance: float


def _best(first: Matchable, second: Matchable, pairs: Int[np.ndarray, "M 2"], turn: float) -> _Found | None:
    return _Agreement(first, second, pairs, turn).best() if len(pairs) >= _LEAST else None


class _Agreement:
    """Searches for the transform whose agreement with the given matches is least probable by chance."""

    def __init__(self, first: Matchable, second: Matchable, pairs: Int[np.ndarray, "M 2"], turn: float) -> None:
        self.turn = turn
        self.x, self.y = _centred(first, pairs[:, 0]), _centred(second, pairs[:, 1])
        shape_x, shape_y = first.shapes[pairs[:, 0]], second.shapes[pairs[:, 1]]
        self.maps = local_affine(self.x, self.y, shape_x, shape_y * (first.diagonal / second.diagonal))
        self.scales = np.log(np.abs(determinants(self.maps))) / 2
        self.area = second.size[0] * second.size[1] / second.diagonal**2

    @cached_property
    def chances(self) -> Float[np.ndarray, " T"]:
        """Probability that a wrong match agrees with a transform, at each tolerance."""
        return np.minimum(np.pi * TOLERANCES**2 / self.area * _SCALES_AGREE, 0.5)

    @cached_property
    def places(self) -> Places:
        """Computed when needed: in most pairs of images no three matches agree."""
        return Places(self.x, self.y)

    def best(self) -> _Found | None:
        chosen = self._seeds()
        found: list[_Found | None] = [None] * len(chosen)
        for tolerance in _REFINING if len(chosen) else ():
            transforms = affine_fits(self.x, self.y, chosen)
            missed = self._missed(*apply_affine(transforms, self.x))
            found = [_better(old, new) for old, new in zip(found, self._judged(transforms, missed, _FREE), strict=True)]
            chosen = missed < tolerance
        ranked = sorted((each for each in found if each is not None), key=lambda each: -each.evidence)
        if not ranked or ranked[0].evidence <= 0:
            return None
        best = self._perspective(ranked[0])
        best.evidence += self._other_parts(best, ranked[1:])
        return best

    def _seeds(self) -> Bool[np.ndarray, "H M"]:
        """The matches that agree with each of the transforms with votes from the most places."""
        votes = self._missed(*apply_affine(self.maps, self.x)) < _VOTING
        counts = np.where(np.abs(turn_of(self.maps)) <= self.turn, votes.sum(1), 0)
        votes, counts = votes[counts >= _LEAST], counts[counts >= _LEAST]
        seeds: list[int] = []
        for candidate in self._by_places(votes, counts) if len(votes) else ():
            shared = (votes[seeds] & votes[candidate]).sum(1)
            if (shared < _OVERLAP * counts[candidate]).all():
                seeds.append(candidate)
            if len(seeds) == _SEEDS:
                break
        return votes[seeds]

    def _by_places(self, votes: Bool[np.ndarray, "H M"], counts: Int[np.ndarray, " H"]) -> Int[np.ndarray, " H"]:
        """The order of transforms: bursts in a few places must not crowd out a transform of the whole scene."""
        return np.lexsort((-counts, -self.places.count(votes)))

    def _missed(self, mapped: Float[np.ndarray, "H 2 M"], scale: Float[np.ndarray, "H _"]) -> Float[np.ndarray, "H M"]:
        """Distance of each match from each transform, the larger of those in both images; infinite if scales differ.

        `mapped` and `scale`: points of the first image under the transforms, and the transforms' scales there.
        """
        across, down = mapped[:, 0] - self.y[:, 0], mapped[:, 1] - self.y[:, 1]
        distance = np.sqrt(across * across + down * down) * np.maximum(1, 1 / scale)
        return np.where(np.abs(self.scales - np.log(scale)) < _SCALE, distance, np.inf)

    def _judged(self, transforms: Transforms, missed: Float[np.ndarray, "H M"], free: int) -> list[_Found]:
        """Each transform at the tolerance at which its agreement is least probable, less `free` places.

        A transform always agrees with the matches to which it was fitted, which `free` accounts for.
        """
        agreeing = missed < TOLERANCES[:, None, None]
        count = agreeing.sum(2)
        places = self.places.count(agreeing.reshape(-1, len(self.x))).reshape(count.shape)
        evidence = self._evidence(count, places, len(self.x), self.chances[:, None], free)
        chosen = evidence.argmax(0)
        return [
            _Found(float(evidence[t, h]), agreeing[t, h], transforms[h], int(places[t, h]), float(TOLERANCES[t]))
            for h, t in enumerate(chosen)
        ]

    def _evidence(self, count: np.ndarray, places: np.ndarray, of: int, chance: np.ndarray, free: int) -> np.ndarray:
        """Matches in one place count as one trial: the number of trials is reduced in proportion."""
        trials = of * places / np.maximum(count, 1)
        surprise = improbability(np.maximum(places - free, 0), trials, chance) - np.log(len(self.x))
        return np.where(count >= _LEAST, surprise, 0.0)

    def _perspective(self, found: _Found) -> _Found:
        """A perspective transform instead of the affine one, while that has more evidence."""
        for _ in _REFINING:
            if found.agreeing.sum() < _LEAST_HOMOGRAPHY:
                break
            fit = homography_fit(self.x[found.agreeing], self.y[found.agreeing])
            if fit is None:
                break
            better = self._judged(fit[None], self._missed(*apply(fit[None], self.x)), _FREE_HOMOGRAPHY)[0]
            if better.evidence <= found.evidence:
                break
            found = better
        return found

    def _other_parts(self, best: _Found, others: list[_Found]) -> float:
        """Evidence of parts of the scene with another transform, such as a second wall.

        Parts of little evidence do not count: two pages of text have many words in common, each in another place.
        """
        free, total = ~best.agreeing, 0.0
        for other in others:
            rest = (other.agreeing & free)[None]
            chance = self.chances[np.flatnonzero(other.tolerance == TOLERANCES)]
            more = self._evidence(rest.sum(1), self.places.count(rest), int(free.sum()), chance, _FREE)[0]
            if more >= _LEAST_PART:
                total += float(more)
                free &= ~rest[0]
        return total


def _better(old: _Found | None, new: _Found) -> _Found:
    return new if old is None or new.evidence > old.evidence else old


def _centred(image: Matchable, rows: Int[np.ndarray, " M"]) -> Float[np.ndarray, "M 2"]:
    return (image.centres[rows] - np.array(image.size) / 2) / image.diagonal


def _to_units(image: Matchable) -> Float[np.ndarray, "3 3"]:
    """From pixels to centred coordinates in diagonals."""
    width, height = image.size
    return np.array([[1, 0, -width / 2], [0, 1, -height / 2], [0, 0, image.diagonal]]) / image.diagonal
