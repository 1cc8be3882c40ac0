"""Named settings of the whole pipeline, as data: one entry per published row, and the defaults for collections.

    preset("f-faemb-16")                  as in the paper [DC17, Sec. 5]; comments mark settings it does not give
    preset("f-faemb-16", "released")      as in the code released by its authors
    preset("small")                       the default of a collection
    preset("small", sized_for=sets)       the same, made smaller if it is learned from few images, as collections do

`VARIANTS` holds the settings in which the paper and the released code differ. Descriptor lengths are the paper's: 128
for VLAD and Temb, PCA to 64 for Fisher, PCA to 45 for VLAT, FAemb and F-FAemb. Names end in the number of anchors.
"""

from dataclasses import dataclass
from itertools import dropwhile
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np

from faemb.embedding import VLAD, VLAT, Embedding, FAemb, FastFAemb, Fisher, Triangulation
from faemb.encoder import Encoder
from faemb.errors import InputError
from faemb.projection import Projection
from faemb.rotation import Rotation
from faemb.sets import DescriptorSets, SetsLike, as_sets
from faemb.whitening import Whitening


@dataclass(frozen=True)
class Family:
    """A method and the descriptor length after PCA; None for no PCA, which keeps RootSIFT's 128."""

    method: type[Embedding]
    descriptor_dimension: int | None


@dataclass(frozen=True)
class Variant:
    """The settings in which the paper and the released code differ."""

    unit_before: bool
    unit_after: bool
    unit_residuals: bool
    anchor_learning: str
    fast_mu: float
    restarts: int
    floor: float
    raise_last: int
    discard_before: int | None
    discard_after_factor: int
    finishing: str
    rotation: str
    whitening_rows: float


FAMILIES = {
    "vlad": Family(VLAD, None),
    "temb": Family(Triangulation, None),
    "fisher": Family(Fisher, 64),
    "vlat": Family(VLAT, 45),
    "faemb": Family(FAemb, 45),
    "f-faemb": Family(FastFAemb, 45),
}

VARIANTS = {
    "paper": Variant(
        unit_before=False,
        unit_after=False,
        unit_residuals=False,
        anchor_learning="alternating",
        # The paper always uses 1e-2. With it Algorithm 1 moves all anchors of F-FAemb to one point, for descriptors of
        # unit length; the code released by the paper's authors uses 1e-3 for learned anchors.
        fast_mu=1e-3,
        restarts=1,
        floor=1e-6,  # the paper gives none; without it, directions of rounding errors weigh as much as any other
        raise_last=0,
        discard_before=None,  # d, 128 or d(d+1)/2, by method
        discard_after_factor=0,
        finishing="paper",
        rotation="whiten",
        whitening_rows=10.0,  # the paper learns from millions of descriptors; two cores handle this in minutes
    ),
    "released": Variant(
        unit_before=True,
        unit_after=True,
        unit_residuals=True,
        anchor_learning="kmeans",
        fast_mu=1e-2,
        restarts=5,
        floor=0.0,
        raise_last=128,
        discard_before=0,
        discard_after_factor=2,  # twice the paper's count, after aggregation and rotation
        finishing="released",
        rotation="rotate",
        whitening_rows=25.0,  # without a floor, small eigenvalues need more rows: mAP 76.7 with 5, 78.6 with 25
    ),
}

PUBLISHED = tuple(
    f"{family}-{n}"
    for family, sizes in {
        "vlad": (64, 128),
        "fisher": (64, 128),
        "temb": (64, 128),
        "vlat": (8, 16, 32),
        "faemb": (8, 16),
        "f-faemb": (8, 16, 32),
    }.items()
    for n in sizes
)

COLLECTION = {"small": 8, "medium": 16}
"""Number of anchors of F-FAemb on 32 dimensions, with unit residuals and a relative floor: the best settings of both
variants."""

BEST = "best"
"""Preset that was best in an ablation on two benchmarks: longer descriptors, fewer dropped components, more rows to
learn the whitening."""

NAMES = (*COLLECTION, BEST, *PUBLISHED)

PER_IMAGE = 300
"""Number of descriptors per image from which a collection learns: more images are better than more of each."""
_LEAST_SAMPLE = 20_000
"""With few images, more descriptors of each are used, up to this number in all."""


class Changes(TypedDict, total=False):
    """Settings of the encoder that a call of `preset` may change; Encoder explains them."""

    embedding: Embedding
    projection: Projection | None
    whitening: Whitening | None
    pooling: str
    tolerance: float
    power: float
    finishing: str
    discard_after: int
    keep: int | None
    sample: int
    whitening_rows: float
    seed: int
    device: str


def preset(
    name: str,
    variant: str | None = None,
    *,
    sized_for: SetsLike | None = None,
    rotation: bool = False,
    **changes: Unpack[Changes],
) -> Encoder:
    """An unfitted encoder.

    `variant` is "paper" (the default) or "released"; `rotation` adds rotation normalisation (+RN); `changes` are
    settings of the encoder. `sized_for` are the sets of descriptors from which it will be learned: `small`, `medium`
    and `best` are made smaller where these are few, which finds much more; published rows stay what they are.
    """
    if name not in NAMES:
        raise InputError(f"no preset is called {name!r}; there are {', '.join(NAMES)}")
    if variant is not None and (variant not in VARIANTS or name not in PUBLISHED):
        known = f"there are {', '.join(VARIANTS)}" if name in PUBLISHED else "it has none"
        raise InputError(f"the preset {name!r} has no variant {variant!r}; {known}")
    chosen = VARIANTS[variant or "paper"]
    settings = _own(name) if name not in PUBLISHED else _published(name, chosen)
    if rotation:
        settings["rotation"] = Rotation(chosen.rotation)
    settings.update(changes)
    encoder = Encoder(**settings)
    return encoder if sized_for is None else _sized_for(as_sets(sized_for), name, encoder)


def _sized_for(sets: DescriptorSets, name: str, encoder: Encoder) -> Encoder:
    if name in PUBLISHED:
        raise InputError(f"the preset {name!r} is a published row of fixed size; leave sized_for out")
    count = int(np.minimum(sets.counts, most_per_image(len(sets))).sum())
    return shrunk(encoder, count, sets.descriptor_dimension)


def most_per_image(images: int) -> int:
    """Largest number of descriptors of each image from which a collection learns, given the number of images."""
    return max(PER_IMAGE, _LEAST_SAMPLE // max(images, 1))


class Size(NamedTuple):
    """Size of a collection's encoder, and the smallest number of learning descriptors for which it is the best size."""

    n_anchors: int
    dimension: int
    least_descriptors: int
    whitening_rows: float = 10.0


SIZES = (
    Size(8, 64, 250_000),
    Size(16, 32, 200_000),
    Size(8, 32, 126_000),
    Size(7, 32, 32_000, whitening_rows=6.0),
    Size(4, 24, 10_000),
    Size(1, 24, 900),
    Size(1, 16, 136),
    Size(1, 8, 0),
)
"""Largest first. For a collection whose own images the model is learned from, larger sizes than the one chosen take
longer to learn and do not give better results (docs/collection.md)."""


def shrunk(encoder: Encoder, descriptors: int, columns: int | None = None) -> Encoder:
    """This encoder of a collection's preset, or a smaller one if there are few descriptors to learn from.

    With few descriptors no components are discarded: the leading components of few images distinguish these images.
    `columns` is the length of a descriptor, if known: descriptors of other tools may be short.
    """
    own = (encoder.embedding.n_anchors, encoder.projection.dimension if encoder.projection is not None else None)
    sizes = list(dropwhile(lambda size: size[:2] != own, SIZES))
    if not sizes:
        return encoder
    fitting = [size for size in sizes if columns is None or size.dimension <= columns]
    if not fitting:
        raise InputError(f"descriptors have {columns} dimensions; expected {SIZES[-1].dimension} or more")
    chosen = next((size for size in fitting if size.least_descriptors <= descriptors), fitting[-1])
    if chosen is sizes[0]:
        return encoder
    changes: dict[str, Any] = {
        "embedding__n_anchors": chosen.n_anchors,
        "projection__dimension": chosen.dimension,
        "whitening_rows": chosen.whitening_rows,
    }
    if encoder.whitening is not None:
        changes["whitening__discard"] = 0
    return encoder.set_params(**changes)


def _own(name: str) -> dict[str, Any]:
    best = name == BEST
    dimension = 64 if best else 32
    return {
        "embedding": FastFAemb(8 if best else COLLECTION[name], unit_residuals=True),
        "projection": Projection(dimension, unit_after=True),
        "whitening": Whitening(discard=_half_of_a_cell(dimension)),
        "whitening_rows": 25.0 if best else 10.0,
    }


def _half_of_a_cell(dimension: int) -> int:
    """Number of leading components to drop, half of the paper's: on 811 photographs this adds 1.5 points of mAP."""
    return dimension * (dimension + 1) // 4


def _published(name: str, variant: Variant) -> dict[str, Any]:
    family_name, _, count = name.rpartition("-")
    family = FAMILIES[family_name]
    return {
        "embedding": _method(family.method, int(count), variant),
        "projection": Projection(
            family.descriptor_dimension, unit_before=variant.unit_before, unit_after=variant.unit_after
        ),
        "whitening": Whitening(discard=variant.discard_before, floor=variant.floor, raise_last=variant.raise_last),
        "finishing": variant.finishing,
        "whitening_rows": variant.whitening_rows,
        "discard_after": variant.discard_after_factor * _paper_discard(family),
    }


def _method(method: type[Embedding], n_anchors: int, variant: Variant) -> Embedding:
    if issubclass(method, FAemb | FastFAemb):
        return method(
            n_anchors,
            mu=variant.fast_mu if method is FastFAemb else 1e-2,
            unit_residuals=variant.unit_residuals,
            anchor_learning=variant.anchor_learning,
            restarts=variant.restarts,
        )
    if method is VLAT:
        return VLAT(n_anchors, unit_residuals=variant.unit_residuals)
    return method(n_anchors)  # type: ignore[call-arg]


def _paper_discard(family: Family) -> int:
    """Number of components that the paper drops: d(d+1)/2 for second-order methods, 128 for the others."""
    return 45 * 46 // 2 if family.descriptor_dimension == 45 else 128
