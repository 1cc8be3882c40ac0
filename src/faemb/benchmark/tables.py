"""The tables and figures of the paper, each as the rows that it asks for.

Names of presets say method and anchors; `published` numbers stand beside those settings that the paper has.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from faemb.benchmark.baselines import POOLINGS, Baseline
from faemb.benchmark.published import results
from faemb.benchmark.rows import PER_DESCRIPTOR, Asked, Convergence, Retrieval, Timing
from faemb.benchmark.run import Value
from faemb.encoder import Encoder
from faemb.errors import InputError
from faemb.presets import PUBLISHED, VARIANTS, preset
from faemb.rotation import Rotation

METHODS = {"vlad": "VLAD", "fisher": "Fisher", "temb": "Temb", "vlat": "VLAT", "faemb": "FAemb", "f-faemb": "F-FAemb"}
FIRST_ORDER, SECOND_ORDER = ("vlad", "fisher", "temb"), ("vlat", "faemb", "f-faemb")
LENGTHS = (128, 256, 512, 1024, 2048, 4096)
BITS = (128, 256, 512, 1024)


@dataclass(frozen=True)
class Choice:
    """What a user may say of a table."""

    dataset: str
    """As the paper calls it; empty where it has no such dataset."""
    variant: str | None = None
    seed: int = 0
    large: bool = False
    """Rows of some 16,000 dimensions too, which take hours without a GPU."""
    maps: bool = False
    """Features are all cells of a network's maps, which SPoC and R-MAC pool."""
    adapt: Callable[[Encoder], Encoder] = lambda encoder: encoder
    """What is done to every encoder of the table, such as making it small."""


@dataclass(frozen=True)
class TableOf:
    title: str
    rows: Callable[[Choice], Iterator[Asked]]
    plot: dict[str, str]


def embeddings(choice: Choice) -> Iterator[Asked]:
    """The paper aggregates with negative similarities clipped: its numbers stand beside that pooling."""
    for family in (*FIRST_ORDER, *SECOND_ORDER):
        n = 64 if family in FIRST_ORDER else 8
        for pooling in ("sum", "sinkhorn", "democratic"):
            for rotation in (False, True):
                settings: dict[str, Value] = {"method": METHODS[family], "n": n, "pooling": pooling, "RN": rotation}
                encoder = _preset(f"{family}-{n}", choice, rotation=rotation, pooling=pooling)
                printed = _published("sota", choice, method=_with_rn(METHODS[family], rotation), n=n)
                yield Retrieval(settings, encoder, printed if pooling == "sinkhorn" else {})


def anchors(choice: Choice) -> Iterator[Asked]:
    for family in (*FIRST_ORDER, *SECOND_ORDER):
        sizes = (16, 32, 64, *((128,) if choice.large else ())) if family in FIRST_ORDER else (2, 4, 8)
        for n in (*sizes, *((16,) if choice.large and family in SECOND_ORDER else ())):
            encoder = preset(f"{family}-{64 if family in FIRST_ORDER else 8}", choice.variant)
            encoder.set_params(embedding__n_anchors=n)
            numbers = _published("sota", choice, method=METHODS[family], n=n)
            yield Retrieval({"method": METHODS[family], "n": n}, _seeded(encoder, choice), numbers)


def sota(choice: Choice) -> Iterator[Asked]:
    names = ["temb-64", "faemb-8", "f-faemb-8"]
    names += ["temb-128", "faemb-16", "f-faemb-16"] if choice.large else []
    for name in names:
        family, _, n = name.rpartition("-")
        for rotation in (False, True):
            method = _with_rn(METHODS[family], rotation)
            numbers = _published("sota", choice, method=method, n=int(n))
            encoder = _preset(name, choice, rotation=rotation)
            yield Retrieval({"method": method, "n": int(n)}, encoder, numbers)
    if choice.large:
        yield Retrieval({"method": "best", "n": 8}, _seeded(preset("best"), choice))


def short(choice: Choice) -> Iterator[Asked]:
    """After the paper's rows our own: without a power law, which spoils what a rotation could keep of the rest."""
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


def binary(choice: Choice) -> Iterator[Asked]:
    for name in ("temb-64", "f-faemb-8"):
        method = METHODS[name.rpartition("-")[0]]
        for bits in BITS:
            numbers = _published("binary", choice, method=method, bits=bits)
            yield Retrieval({"method": method, "bits": bits}, _preset(name, choice), numbers, bits)


def ablation(choice: Choice) -> Iterator[Asked]:
    """F-FAemb-8 as the paper has it but for k-means anchors; then what the released code and we do otherwise."""
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
        "power law after rotation": {"rotation": Rotation(released.rotation), "order": released.order},
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


def timing(choice: Choice) -> Iterator[Asked]:
    for name in ("vlad-128", "fisher-128", "temb-128", "vlat-16", "faemb-16", "f-faemb-16"):
        family, _, n = name.rpartition("-")
        printed = results("timing", method=METHODS[family])
        numbers = {PER_DESCRIPTOR: 1000 * printed[0].value} if printed else {}
        yield Timing({"method": METHODS[family], "n": int(n)}, _preset(name, choice), numbers)


def convergence(choice: Choice) -> Iterator[Asked]:
    """With the paper's mu, and with the one of the group's own code for learned anchors."""
    for family in ("faemb", "f-faemb"):
        for mu in (1e-2, 1e-3):
            encoder = _preset(f"{family}-8", replace(choice, variant="paper"))
            encoder.set_params(embedding__mu=mu, embedding__anchor_learning="alternating")
            yield Convergence({"method": METHODS[family], "n": 8, "mu": mu}, encoder)


def cnn(choice: Choice) -> Iterator[Asked]:
    """Features of a network; the paper's are of patches, and its F-FAemb has its rotation normalisation always."""
    for method in POOLINGS if choice.maps else ():
        for length in (256, 512):
            numbers = _published("cnn", choice, method=method, D=length)
            yield Baseline({"method": method}, method, length, numbers)
    for width in (32, 45):
        for rotation in (False, True):
            encoder = preset("f-faemb-8", choice.variant, rotation=rotation).set_params(projection__dimension=width)
            encoder.discard_after = width * (width + 1) if encoder.discard_after else 0
            numbers = _published("cnn", choice, method="F-FAemb", D=7245) if width == 45 and rotation else {}
            settings: dict[str, Value] = {"method": _with_rn("F-FAemb", rotation), "d": width}
            yield Retrieval(settings, _seeded(encoder, choice), numbers)
    for length in (4096, 2048, 512, 256):
        encoder = _preset("f-faemb-8", choice, rotation=True, keep=length)
        numbers = _published("cnn", choice, method="F-FAemb", D=length)
        yield Retrieval({"method": "F-FAemb +RN", "d": 45}, encoder, numbers)


LARGE, CNN = "large", "cnn"
SCALES = (1.0, 0.6)
"""Of images, as the table of CNN features looks at them."""

TABLES = {
    "embeddings": TableOf("Embeddings at equal length, aggregation and rotation", embeddings, {}),
    "anchors": TableOf("Number of anchors", anchors, {"x": "n", "y": "mAP", "lines": "method"}),
    "sota": TableOf("Beside the state of the art", sota, {}),
    "short": TableOf("Short vectors", short, {"x": "D", "y": "mAP", "lines": "method"}),
    LARGE: TableOf("Short vectors among distractors", short, {"x": "D", "y": "mAP", "lines": "method"}),
    "binary": TableOf("Binary codes", binary, {"x": "bits", "y": "mAP", "lines": "method"}),
    CNN: TableOf("Features of a network", cnn, {}),
    "timing": TableOf("Time to embed a local descriptor, on one core", timing, {}),
    "convergence": TableOf("Convergence of Algorithm 1", convergence, {"series": "objective", "steps": "half-step"}),
    "ablation": TableOf("Where the paper and the released code disagree", ablation, {}),
}


def table_named(name: str) -> TableOf:
    if name not in TABLES:
        raise InputError(f"no table is called {name!r}; there are {', '.join(TABLES)}")
    return TABLES[name]


def one(name: str, choice: Choice, rotation: bool) -> Iterator[Asked]:
    """A single preset."""
    yield Retrieval({"preset": name, "RN": rotation}, _preset(name, choice, rotation=rotation))


def _preset(name: str, choice: Choice, *, rotation: bool = False, **changes: Any) -> Encoder:
    return _seeded(preset(name, choice.variant, rotation=rotation, **changes), choice)


def _seeded(encoder: Encoder, choice: Choice) -> Encoder:
    encoder.seed = encoder.embedding.seed = choice.seed
    return choice.adapt(encoder)


def _with_rn(method: str, rotation: bool) -> str:
    return f"{method} +RN" if rotation else method


def _published(table: str, choice: Choice, **conditions: Any) -> dict[str, float]:
    found = results(table, dataset=choice.dataset, **conditions) if choice.dataset else ()
    return {"mAP": found[0].value} if found else {}
