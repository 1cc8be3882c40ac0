"""Calibration of the confidence: weights learned from rendered views of photographs, and how right they are elsewhere.

Views of flickr1500 are searched in a collection of flickr1500: of the best results of each, the photograph itself is
right, and all others are wrong. Half of the views are mild changes, half hard ones, down to 3 % of the area. The
weights that `Confidence.fit` finds are printed beside those in the code. These are then judged on photographs that had
no part in it: holidays811 and ukbench400 by their ground truth, and flickr1500 as queries of things that holidays811
does not show. Collections are kept in build/calibration for the next run.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
from jaxtyping import Bool, Float

from benchmarks import affine
from benchmarks.rendered import Changes, view
from benchmarks.report import Result
from faemb.benchmark.datasets import open_dataset
from faemb.collection import Collection, Model, new_model
from faemb.features import LocalFeatures
from faemb.rerank import SURE, VERIFIED, Confidence
from faemb.rerank.confidence import probability

KEPT = Path("build/calibration")
_MILD = Changes()
_HARD = Changes(perspective=0.4, roll=20, smallest=0.3, gamma=2.5, blur=2, hidden=0.5, quality=20)
_LEAST_AREA = 0.03
_VIEWS, _STRANGERS = 600, 400
_VERIFIED_VIEWS = 40
"""Candidates of each view that are verified: wrong ones of lower similarity are rarely among its best results."""
_TOP, _BINS, _AT_ONCE = 10, 10, 50

Queries = Mapping[str, LocalFeatures]
"""By the name of the file."""


@dataclass(frozen=True)
class Pairs:
    """Queries and their best results."""

    names: list[tuple[str, str]]
    deviations: Float[np.ndarray, " n"]
    evidence: Float[np.ndarray, " n"]
    verified: bool
    """False if the results were ranked by similarity alone."""
    same: Bool[np.ndarray, " n"]
    """Whether they show the same thing."""

    @property
    def confidence(self) -> Float[np.ndarray, " n"]:
        return probability(Confidence().score(self.deviations, self.evidence if self.verified else None))


def run() -> Iterator[Result]:
    folder = affine.data_folder()
    if folder is None:
        print("calibration left out: set FAEMB_DATA to a folder with flickr1500, holidays811 and ukbench400")
        return
    with kept_collection(folder / "flickr1500") as photographs:
        yield from weights(photographs)
        strangers = {path.name: photographs.features(path) for path in islice(_paths(photographs), _STRANGERS)}
    for name in ("holidays811", "ukbench400"):
        with kept_collection(folder / name) as collection:
            yield from labelled(collection, folder / name)
            if name == "holidays811":
                yield from nothing_to_find(collection, strangers)


def weights(photographs: Collection) -> Iterator[Result]:
    """What views teach, beside what the code has."""
    pairs = _searched(photographs, _views(photographs), str.__eq__, _VERIFIED_VIEWS)
    learned, shipped = Confidence.fit(pairs.deviations, pairs.evidence, pairs.same), Confidence()
    for name in Confidence._fields:
        yield Result(f"confidence: {name} in the code", getattr(shipped, name), "nats")
        yield Result(f"confidence: {name} learned from {int(pairs.same.sum())} views", getattr(learned, name), "nats")
    yield Result("rendered views: calibration error", calibration_error(pairs.confidence, pairs.same), "of 1")


def labelled(collection: Collection, folder: Path) -> Iterator[Result]:
    """How far the confidence of the best results can be trusted, by the ground truth of a benchmark."""
    dataset, paths = open_dataset(folder), {path.name: path for path in _paths(collection)}
    right = {
        query.image.name: {dataset.images[number].name for number in query.relevant} - {query.image.name}
        for query in dataset.queries
    }
    queries = {name: collection.features(paths[name]) for name in right}
    for verify, which in ((VERIFIED, "verified"), (0, "vectors alone")):
        pairs = _searched(collection, queries, lambda query, hit: hit in right[query], verify, without_itself=True)
        sure, wanted = pairs.confidence >= SURE, sum(map(len, right.values()))
        name, aims = f"{folder.name}, {which}", (">= 0.95", "<= 0.05") if verify else ("", "")
        yield Result(f"{name}: share of right pairs at {SURE:g} or more", pairs.same[sure].mean(), "of 1", aims[0])
        error = calibration_error(pairs.confidence, pairs.same)
        yield Result(f"{name}: expected calibration error of {len(sure):,} pairs", error, "of 1", aims[1])
        yield Result(f"{name}: right pairs found at {SURE:g} or more", (pairs.same & sure).sum() / wanted, "of 1")
        if verify:
            for number in np.flatnonzero(sure & ~pairs.same):
                print(f"    wrong by the ground truth: {' '.join(pairs.names[number])} {pairs.confidence[number]:.3f}")


def nothing_to_find(collection: Collection, strangers: Queries) -> Iterator[Result]:
    """Queries of things that no image of the collection shows."""
    for verify, which, aim in ((VERIFIED, "verified", "<= 1"), (0, "vectors alone", "")):
        pairs = _searched(collection, strangers, lambda *_: False, verify)
        sure = {pairs.names[number] for number in np.flatnonzero(pairs.confidence >= SURE)}
        share = 100 * len({query for query, _ in sure}) / len(strangers)
        yield Result(f"nothing to find, {which}: queries with an answer at {SURE:g}", share, "%", aim)
        if verify:
            print("".join(f"    answered: {query} by {hit}\n" for query, hit in sorted(sure)), end="")


def calibration_error(confidence: Float[np.ndarray, " n"], same: Bool[np.ndarray, " n"]) -> float:
    """Difference of mean confidence and share of right pairs, averaged over the pairs of ten bins of confidence."""
    bins = np.minimum((_BINS * confidence).astype(np.int64), _BINS - 1)
    return float(np.abs(np.bincount(bins, confidence - same)).sum() / len(confidence))


def _searched(
    collection: Collection,
    queries: Queries,
    same: Callable[[str, str], bool],
    verify: int,
    *,
    without_itself: bool = False,
) -> Pairs:
    """The best results of each query; `same` tells from two names of files whether they show the same thing."""
    unrelated, names, values = collection.view().unrelated, [], []
    remaining = iter(queries.items())
    while some := list(islice(remaining, _AT_ONCE)):
        answers = collection.search_features([features for _, features in some], top=_TOP + 1, verify=verify)
        for (query, _), answer in zip(some, answers, strict=True):
            hits = [hit for hit in answer.hits if not (without_itself and hit.path.name == query)]
            for hit in hits[:_TOP]:
                evidence = hit.verification.evidence if hit.verification else 0.0
                names.append((query, hit.path.name))
                values.append((hit.similarity or 0.0, evidence, same(query, hit.path.name)))
    similarity, evidence, right = np.array(values).T
    return Pairs(names, unrelated.deviations(similarity), evidence, verify > 0, right.astype(bool))


def _views(photographs: Collection) -> Queries:
    """Views by the name of the photograph; every second one is hard."""
    rng, paths, extractor = np.random.default_rng(0), list(_paths(photographs)), photographs.model.extractor
    views = {}
    for number, chosen in enumerate(rng.permutation(len(paths))[:_VIEWS].tolist()):
        changes, area = _MILD, None
        if number % 2:
            changes, area = _HARD, float(np.exp(rng.uniform(np.log(_LEAST_AREA), 0)))
        pixels = view(np.asarray(cv2.imread(str(paths[chosen]))), rng, changes, area)
        views[paths[chosen].name] = extractor.extract(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB))
    return {name: features for name, features in views.items() if len(features)}


def kept_collection(images: Path, name: str = "", model: Model | None = None) -> Collection:
    """Of the images in this folder, with a model learned from them: a new one if none is given."""
    folder = KEPT / f"{name or images.name}.faemb"
    if folder.exists():
        return Collection.open(folder)
    KEPT.mkdir(parents=True, exist_ok=True)
    collection = Collection.create(folder, model or new_model())
    collection.add(images)
    return collection


def _paths(collection: Collection) -> Iterator[Path]:
    for entry in collection.entries():
        yield collection.layout.path_of(entry.path)
