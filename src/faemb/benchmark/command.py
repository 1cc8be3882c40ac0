"""An experiment with the options of the user: all are checked before the run starts."""

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from faemb.benchmark.datasets import Dataset, open_dataset
from faemb.benchmark.folders import claim
from faemb.benchmark.rows import RequestedRow, Retrieval
from faemb.benchmark.run import Json, Run
from faemb.benchmark.runner import run_table
from faemb.benchmark.tables import CNN, LARGE, RERANK, Choice, TableOf, one, table_named
from faemb.benchmark.workbench import Workbench
from faemb.component import Component
from faemb.errors import InputError
from faemb.features import CnnMap, CnnPatches, CnnTokens, Extractor, HessianAffine
from faemb.pooling import POOLINGS
from faemb.runtime import Progress
from faemb.runtime.parallel import Jobs
from faemb.settings import require_choice, require_seed, require_whole

_MOST_SEEDS = 1000
_WITH_DISTRACTORS = {"holidays": "holidays+flickr1m", "oxford5k": "oxford105k"}
"""Kinds of datasets in the paper, and its names for them with distractors."""


@dataclass(frozen=True)
class Experiment:
    """Options of a run of either a table or a preset."""

    dataset: Path
    learning: tuple[Path, ...]
    extractor: Extractor
    table: str | None = None
    preset: str | None = None
    variant: str | None = None
    pooling: str | None = None
    """Pooling of all rows, such as "sinkhorn", the paper's; None for the default of each row."""
    rotation: bool = False
    long_vectors: bool = False
    kind: str | None = None
    seed: int = 0
    seeds: int = 1
    """Number of consecutive seeds, starting with `seed`; results are means with standard deviations."""
    distractors: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        """Data, table and the options that differ from their defaults, such as holidays-sota-flickr-sum-seed-3."""
        parts = [
            *(self.dataset.resolve().name, self.table or self.preset or ""),
            *(folder.resolve().name for folder in (*self.learning, *self.distractors)),
            *(self.variant, self.pooling, self.kind),
            *(word.replace("_", "-") for word in ("rotation", "long_vectors") if getattr(self, word)),
            *(f"{word}-{getattr(self, word)}" for word in ("seed", "seeds") if getattr(self, word) != _default(word)),
            *_extractor_words(self.extractor),
        ]
        return "-".join(part for part in parts if part)

    def options(self, device: str) -> dict[str, Json]:
        """All options that identify the experiment, with absolute paths."""
        paths = {
            name: [str(folder.resolve()) for folder in folders]
            for name, folders in {
                "dataset": (self.dataset,),
                "learning": self.learning,
                "distractors": self.distractors,
            }.items()
        }
        names = ("table", "preset", "variant", "pooling", "rotation", "long_vectors", "kind", "seed", "seeds")
        extractor = {"extractor": repr(self.extractor), "fingerprint": self.extractor.fingerprint}
        return {**paths, **{name: getattr(self, name) for name in names}, **extractor, "device": device}


def _default(name: str) -> Any:
    return Experiment.__dataclass_fields__[name].default


def _extractor_words(extractor: Extractor) -> Iterator[str]:
    """The class of an extractor other than Hessian-affine, and its settings that differ from the defaults."""
    if not isinstance(extractor, HessianAffine):
        yield type(extractor).__name__
    for name, value in extractor.get_params(deep=False).items():
        words = name.replace("_", "-")
        if isinstance(value, Component) or value == inspect.signature(type(extractor)).parameters[name].default:
            continue
        if isinstance(value, bool):
            yield words if value else f"no-{words}"
        else:
            listed = value if isinstance(value, list | tuple) else [value]
            yield "-".join([words, *(re.sub(r"[^\w.]+", "_", str(each)) for each in listed)])


def run_experiment(
    experiment: Experiment,
    out: Path,
    cache: Path,
    *,
    device: str = "cpu",
    jobs: Jobs = None,
    progress: Progress | None = None,
) -> Run:
    """Run the experiment; finished rows are stored in `out`, so that an interrupted run can be continued.

    Raises an error if the folder `out` holds anything but a run with the same options.
    """
    if (experiment.table is None) == (experiment.preset is None):
        raise InputError("give either a table or a preset, such as --table embeddings, or --preset f-faemb-16")
    dataset = open_dataset(experiment.dataset, experiment.kind)
    for folder in experiment.distractors:
        dataset = dataset.with_distractors(folder)
    if experiment.table == LARGE and not dataset.distractors:
        raise InputError(f"the table {LARGE} needs distractor images; give a folder of them with --distractors")
    if experiment.table in (CNN, RERANK) and dataset.distractors:
        raise InputError(f"the table {experiment.table} has no rows with distractors; leave out --distractors")
    if experiment.table == RERANK and experiment.extractor.largest_turn is None:
        raise InputError(f"the table {RERANK} needs features with geometry to verify; give another extractor")
    if experiment.table == CNN and not isinstance(experiment.extractor, CnnMap | CnnTokens | CnnPatches):
        raise InputError(f"the table {CNN} needs features of a network; give an extractor that has one")
    if experiment.pooling is not None:
        require_choice("pooling", experiment.pooling, POOLINGS)
    require_whole("seeds", experiment.seeds, 1, _MOST_SEEDS)
    for seed in (experiment.seed, experiment.seed + experiment.seeds - 1):
        require_seed(seed)
    name, table = _table(experiment)
    choices = list(_choices(experiment, dataset))
    asked = list(zip(*(table.rows(choice) for choice in choices), strict=True))
    bench = Workbench(
        dataset, experiment.learning, experiment.extractor, cache, device=device, jobs=jobs, progress=progress
    )
    _require_enough_to_learn_from(chain(*asked), sum(len(images) for _, images in bench.learning))
    settings = {"seeds": ", ".join(str(choice.seed) for choice in choices)}
    if experiment.variant is not None:
        settings["variant"] = experiment.variant
    claim(out, experiment.options(device))
    return run_table(name, table, asked, bench, out, settings)


def _table(experiment: Experiment) -> tuple[str, TableOf]:
    if experiment.preset is None:
        return experiment.table or "", table_named(experiment.table or "")
    name, rotation = experiment.preset, experiment.rotation
    return name, TableOf(f"The preset {name}", lambda choice: one(name, choice, rotation), {})


def _choices(experiment: Experiment, dataset: Dataset) -> Iterator[Choice]:
    for seed in range(experiment.seed, experiment.seed + experiment.seeds):
        yield Choice(
            dataset=paper_dataset(dataset),
            variant=experiment.variant,
            pooling=experiment.pooling,
            seed=seed,
            long_vectors=experiment.long_vectors,
            maps=isinstance(experiment.extractor, CnnMap | CnnTokens) and experiment.extractor.max_features is None,
        )


def paper_dataset(dataset: Dataset) -> str:
    """The paper's name for this kind of dataset, complete or not (reports state which); "" if it has none."""
    if dataset.kind not in _WITH_DISTRACTORS:
        return ""
    return _WITH_DISTRACTORS[dataset.kind] if dataset.distractors else dataset.kind


def _require_enough_to_learn_from(asked: Iterable[RequestedRow], images: int) -> None:
    bits = max((row.bits or 0 for row in asked if isinstance(row, Retrieval)), default=0)
    if bits >= images:
        raise InputError(
            f"codes of {bits} bits need more than {bits} images to learn from, and there are {images}; "
            "give more folders, with --learn for each"
        )
