"""The tables and figures of the paper, each as the rows to be computed.

Rows with settings of the paper include the published number. Pooling is the encoder's default unless a table varies it;
reports state where the paper used another pooling.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from faemb.benchmark.baselines import MAP_POOLINGS, Baseline
from faemb.benchmark.published import POOLING, Condition, published, tables
from faemb.benchmark.reranking import Elsewhere, Reranked
from faemb.benchmark.rows import PER_DESCRIPTOR, Convergence, RequestedRow, Retrieval, Timing
from faemb.benchmark.run import Value
from faemb.encoder import Encoder
from faemb.errors import InputError
from faemb.presets import PUBLISHED, VARIANTS, preset
from faemb.rerank import VERIFIED
from faemb.rerank.vector_expansion import BY_VECTORS
from faemb.rotation import Rotation

METHODS = {"vlad": "VLAD", "fisher": "Fisher", "temb": "Temb", "vlat": "VLAT", "faemb": "FAemb", "f-faemb": "F-FAemb"}
FIRST_ORDER, SECOND_ORDER = ("vlad", "fisher", "temb"), ("vlat", "faemb", "f-faemb")
LENGTHS = (128, 256, 512, 1024, 2048, 4096)
BITS = (128, 256, 512, 1024)


@dataclass(frozen=True)
class Choice:
    """A user's choices for a whole table."""

    dataset: str
    """Name of the dataset in the paper; empty if the paper has no such dataset."""
    variant: str | None = None
    pooling: str | None = None
    """Pooling of all rows; None for the default of each."""
    seed: int = 0
    long_vectors: bool = False
    """Add rows of about 16,000 dimensions, which take hours without a GPU."""
    maps: bool = False
    """Whether the features are all cells of a network's maps; adds SPoC and R-MAC, which pool such maps."""
    adapt: Callable[[Encoder], Encoder] = lambda encoder: encoder
    """Applied to every encoder of the table; tests use it to make encoders smaller."""


@dataclass(frozen=True)
class TableOf:
    title: str
    rows: Callable[[Choice], Iterator[RequestedRow]]
    plot: dict[str, str]


def embeddings(choice: Choice) -> Iterator[RequestedRow]:
    """All methods with three poolings, with and without RN; numbers are published for Sinkhorn pooling only."""
    for family in (*FIRST_ORDER, *SECOND_ORDER):
        n = 64 if family in FIRST_ORDER else 8
        for pooling in ("sum", POOLING, "democratic") if choice.pooling is None else (choice.pooling,):
            for rotation in (False, True):
                settings: dict[str, Value] = {"method": METHODS[family], "n": n, "pooling": pooling, "RN": rotation}
                encoder = _preset(f"{family}-{n}", choice, rotation=rotation, pooling=pooling)
                numbers = _published("sota", choice, method=_with_rn(METHODS[family], rotation), n=n)
                yield Retrieval(settings, encoder, numbers if pooling == POOLING else {})


def anchors(choice: Choice) -> Iterator[RequestedRow]:
    for family in (*FIRST_ORDER, *SECOND_ORDER):
        sizes = (16, 32, 64, *((128,) if choice.long_vectors else ())) if family in FIRST_ORDER else (2, 4, 8)
        for n in (*sizes, *((16,) if choice.long_vectors and family in SECOND_ORDER else ())):
            encoder = preset(f"{family}-{64 if family in FIRST_ORDER else 8}", choice.variant)
            encoder.set_params(embedding__n_anchors=n)
            numbers = _published("sota", choice, method=METHODS[family], n=n)
            yield Retrieval({"method": METHODS[family], "n": n}, _seeded(encoder, choice), numbers)


def sota(choice: Choice) -> Iterator[RequestedRow]:
    names = ["temb-64", "faemb-8", "f-faemb-8"]
    names += ["temb-128", "faemb-16", "f-faemb-16"] if choice.long_vectors else []
    for name in names:
        family, _, n = name.rpartition("-")
        for rotation in (False, True):
            method = _with_rn(METHODS[family], rotation)
            numbers = _published("sota", choice, method=method, n=int(n))
            encoder = _preset(name, choice, rotation=rotation)
            yield Retrieval({"method": method, "n": int(n)}, encoder, numbers)
    if choice.long_vectors:
        yield Retrieval({"method": "best", "n": 8}, _seeded(preset("best"), choice))


def short(choice: Choice) -> Iterator[RequestedRow]:
    """The paper's rows; then rows without the power law, which takes energy from the leading components."""
    for name, method in (("temb-64", "Temb +RN"), ("f-faemb-8", "F-FAemb +RN")):
        for length in LENGTHS:
            encoder = _preset(name, choice, rotation=True, keep=length)
            numbers = _published("short", choice, method=method, D=length)
            yield Retrieval({"method": method}, encoder, numbers)
    for name, method in (("f-faemb-8", "F-FAemb +RN, no power law"), ("small", "small +RN, no power law")):
        for length in LENGTHS[:-1]:
            variant = choice.variant if name in PUBLISHED else None
            encoder = preset(name, variant, rotation=True, power=1.0, keep=length)
            yield Retrieval({"method": method}, _seeded(encoder, choice))


def binary(choice: Choice) -> Iterator[RequestedRow]:
    for name in ("temb-64", "f-faemb-8"):
        method = METHODS[name.rpartition("-")[0]]
        for bits in BITS:
            numbers = _published("binary", choice, method=method, bits=bits)
            yield Retrieval({"method": method, "bits": bits}, _preset(name, choice), numbers, bits)


def ablation(choice: Choice) -> Iterator[RequestedRow]:
    """F-FAemb-8 of the paper with k-means anchors; then the same with one change of the released code, or of ours."""
    paper, released = VARIANTS["paper"], VARIANTS["released"]
    half = 45 * 46 // 4
    steps: dict[str, dict[str, Any]] = {
        "the paper, k-means anchors": {},
        "anchors by Algorithm 1": {"embedding__anchor_learning": paper.anchor_learning, "embedding__mu": paper.fast_mu},
        "mu 1e-3": {"embedding__mu": 1e-3},
        "best of five k-means": {"embedding__restarts": released.restarts},
        "descriptors centred, of unit length before PCA": {"projection__unit_before": released.unit_before},
        "descriptors of unit length after PCA": {"projection__unit_after": released.unit_after},
        "residuals of unit length": {"embedding__unit_residuals": released.unit_residuals},
        "last 128 eigenvalues raised": {"whitening__raise_last": released.raise_last},
        "truncation after aggregation, twice as much": {"whitening__discard": 0, "discard_after": 45 * 46},
        "no truncation": {"whitening__discard": 0},
        "half the truncation": {"whitening__discard": half},
        "power law after rotation": {"rotation": Rotation(released.rotation), "finishing": released.finishing},
        "+RN by whitening": {"rotation": Rotation(paper.rotation)},
        "+RN by rotation": {"rotation": Rotation(released.rotation)},
        "first-order terms too": {"embedding__linear_scale": 1.0},
        "half the truncation, all to unit length, 25 descriptors": {
            "projection__unit_after": True,
            "embedding__unit_residuals": True,
            "whitening__discard": half,
            "whitening_rows": 25.0,
        },
    }
    for what, changes in steps.items():
        encoder = preset("f-faemb-8", "paper").set_params(embedding__anchor_learning="kmeans", embedding__mu=1e-2)
        yield Retrieval({"with": what}, _seeded(encoder.set_params(**changes), choice))
    yield Retrieval({"with": "all of the released code"}, _preset("f-faemb-8", replace(choice, variant="released")))


def timing(choice: Choice) -> Iterator[RequestedRow]:
    for name in ("vlad-128", "fisher-128", "temb-128", "vlat-16", "faemb-16", "f-faemb-16"):
        family, _, n = name.rpartition("-")
        printed = published("timing", method=METHODS[family], n=int(n))
        numbers = {} if printed is None else {PER_DESCRIPTOR: 1000 * printed}
        yield Timing({"method": METHODS[family], "n": int(n)}, _preset(name, choice), numbers)


def convergence(choice: Choice) -> Iterator[RequestedRow]:
    """Rows with the paper's mu, and with that of the released code for learned anchors."""
    for family in ("faemb", "f-faemb"):
        for mu in (1e-2, 1e-3):
            encoder = _preset(f"{family}-8", replace(choice, variant="paper"))
            encoder.set_params(embedding__mu=mu, embedding__anchor_learning="alternating")
            yield Convergence({"method": METHODS[family], "n": 8, "mu": mu}, encoder)


def cnn(choice: Choice) -> Iterator[RequestedRow]:
    """Features of a network. The paper's rows use features of patches, always with rotation normalisation."""
    for method in MAP_POOLINGS if choice.maps else ():
        for length in (256, 512):
            numbers = _published("cnn", choice, method=method, D=length)
            yield Baseline({"method": method}, method, length, numbers)
    for d in (32, 45):
        for rotation in (False, True):
            encoder = preset("f-faemb-8", choice.variant, rotation=rotation).set_params(projection__dimension=d)
            encoder.discard_after = d * (d + 1) if encoder.discard_after else 0
            numbers = _published("cnn", choice, method="F-FAemb", D=7245) if d == 45 and rotation else {}
            settings: dict[str, Value] = {"method": _with_rn("F-FAemb", rotation), "d": d}
            yield Retrieval(settings, _seeded(encoder, choice), numbers)
    for length in (4096, 2048, 512, 256):
        encoder = _preset("f-faemb-8", choice, rotation=True, keep=length)
        numbers = _published("cnn", choice, method="F-FAemb", D=length)
        yield Retrieval({"method": "F-FAemb +RN", "d": 45}, encoder, numbers)


def rerank(choice: Choice) -> Iterator[RequestedRow]:
    """Vectors of the default preset and of a longer one, re-ranked in several ways; then published systems."""
    for name, variant in (("small", None), ("f-faemb-8", choice.variant)):
        for order, how in _ORDERS.items():
            settings: dict[str, Value] = {"method": name, "order by": order}
            encoder = _preset(name, replace(choice, variant=variant))
            yield Reranked(settings, encoder, **how)
    for result in tables()[RERANK]:
        if result.conditions["dataset"] == choice.dataset:
            settings = {name: result.conditions[name] for name in ("method", "order by")}
            yield Elsewhere(settings, {"mAP": result.value})


_ORDERS: dict[str, dict[str, Any]] = {
    "vectors": {},
    **{f"vectors, {name}": {"by_vectors": name} for name in BY_VECTORS},
    f"verification of {VERIFIED}": {"verified": VERIFIED},
    f"verification of {VERIFIED} and expansion": {"verified": VERIFIED, "expanded": True},
}
LARGE, CNN, RERANK = "large", "cnn", "rerank"
SCALES = (1.0, 0.6)
"""Image scales for the table of CNN features."""

TABLES = {
    "embeddings": TableOf("Embeddings at equal length, aggregation and rotation", embeddings, {}),
    "anchors": TableOf("Number of anchors", anchors, {"x": "n", "y": "mAP", "lines": "method"}),
    "sota": TableOf("Comparison with the state of the art", sota, {}),
    "short": TableOf("Short vectors", short, {"x": "D", "y": "mAP", "lines": "method"}),
    LARGE: TableOf("Short vectors among distractors", short, {"x": "D", "y": "mAP", "lines": "method"}),
    "binary": TableOf("Binary codes", binary, {"x": "bits", "y": "mAP", "lines": "method"}),
    CNN: TableOf("Features of a network", cnn, {}),
    RERANK: TableOf("Verification of the most similar images", rerank, {}),
    "timing": TableOf("Time to embed a local descriptor, on one core", timing, {}),
    "convergence": TableOf("Convergence of Algorithm 1", convergence, {"series": "objective", "steps": "half-step"}),
    "ablation": TableOf("Where the paper and the released code disagree", ablation, {}),
}


def table_named(name: str) -> TableOf:
    if name not in TABLES:
        raise InputError(f"no table is called {name!r}; there are {', '.join(TABLES)}")
    return TABLES[name]


def one(name: str, choice: Choice, rotation: bool) -> Iterator[RequestedRow]:
    """A single preset, with the paper's number if it is one of the paper's rows."""
    family, _, n = name.rpartition("-")
    numbers = {}
    if name in PUBLISHED:
        numbers = _published("sota", choice, method=_with_rn(METHODS[family], rotation), n=int(n))
    yield Retrieval({"preset": name, "RN": rotation}, _preset(name, choice, rotation=rotation), numbers)


def _preset(name: str, choice: Choice, *, rotation: bool = False, **changes: Any) -> Encoder:
    return _seeded(preset(name, choice.variant, rotation=rotation, **changes), choice)


def _seeded(encoder: Encoder, choice: Choice) -> Encoder:
    encoder.seed = encoder.embedding.seed = choice.seed
    if choice.pooling is not None:
        encoder.pooling = choice.pooling
    return choice.adapt(encoder)


def _with_rn(method: str, rotation: bool) -> str:
    return f"{method} +RN" if rotation else method


def _published(table: str, choice: Choice, **conditions: Condition) -> dict[str, float]:
    value = published(table, dataset=choice.dataset, **conditions)
    return {} if value is None else {"mAP": value}
