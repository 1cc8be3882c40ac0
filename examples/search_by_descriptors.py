"""The main job on descriptors alone: learn from unlabelled sets, encode, search, and measure.

Nothing is downloaded. Sets of descriptors stand in for photographs: each of a hundred objects is a random set, each of
its four views keeps most of it, disturbs it and adds clutter. The encoder never sees which sets belong together.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from faemb import ITQ, Encoder, FastFAemb, Projection, Rotation, Whitening, hamming
from faemb.evaluation import average_precision

OBJECTS, VIEWS, PARTS, WORDS, WIDTH = 100, 4, 150, 1500, 64


def main() -> None:
    rng = np.random.default_rng(0)
    vocabulary = unit(rng.standard_normal((WORDS, WIDTH)))
    learning = [render(rng, vocabulary, new_object(rng)) for _ in range(300)]
    objects = [new_object(rng) for _ in range(OBJECTS)]
    images = [render(rng, vocabulary, thing) for thing in objects for _ in range(VIEWS)]
    print(f"{len(images)} rendered sets of descriptors: {OBJECTS} objects, {VIEWS} views of each")

    encoder = Encoder(
        FastFAemb(8, unit_residuals=True),
        projection=Projection(24, unit_after=True),
        whitening=Whitening(),
        rotation=Rotation("whiten"),
    )
    clock = time.perf_counter()
    encoder.fit(learning, progress=show_progress)
    print(f"\rfitted on {len(learning)} unlabelled sets in {time.perf_counter() - clock:.1f} s" + 30 * " ")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        encoder.save(path)
        encoder = Encoder.load(path)
        print(f"saved and loaded: {path.stat().st_size / 2**20:.0f} MB, fingerprint {encoder.fingerprint}")

    clock = time.perf_counter()
    vectors = encoder.encode(images)
    print(f"encoded to {vectors.shape[1]} dimensions, {1e3 * (time.perf_counter() - clock) / len(images):.1f} ms each")

    itq = ITQ(256).fit(encoder.encode(learning))
    codes = itq.encode(vectors)
    print("\nquery: view 1 of object 1; its other views are 2, 3, 4")
    for place, image in enumerate(np.argsort(-(vectors @ vectors[0]))[1:6], start=1):
        thing, view = divmod(int(image), VIEWS)
        print(f"  {place}. object {thing + 1:3d} view {view + 1}   similarity {vectors[image] @ vectors[0]:.3f}")
    print(f"\nmAP, {vectors.shape[1]}-dimensional vectors   {mean_average_precision(vectors @ vectors.T):6.2f}")
    print(f"mAP, first 128 components     {mean_average_precision(first(vectors, 128)):6.2f}")
    print(f"mAP, 256-bit codes            {mean_average_precision(-hamming(codes, codes)):6.2f}")


def new_object(rng: np.random.Generator) -> np.ndarray:
    """Which words of the vocabulary an object shows; some often, as windows on a facade."""
    return rng.choice(WORDS, PARTS, p=rng.dirichlet(np.full(WORDS, 0.2)))


def render(rng: np.random.Generator, vocabulary: np.ndarray, thing: np.ndarray) -> np.ndarray:
    seen = thing[rng.random(PARTS) < 0.75]
    clutter = rng.integers(0, WORDS, PARTS // 2)
    words = vocabulary[np.concatenate([seen, clutter])]
    return unit(words + 0.04 * rng.standard_normal(words.shape)).astype(np.float32)


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def first(vectors: np.ndarray, count: int) -> np.ndarray:
    short = unit(vectors[:, :count])
    return short @ short.T


def mean_average_precision(similarity: np.ndarray) -> float:
    """Every image is a query and is left out of its own ranking."""
    scores = []
    for query, row in enumerate(similarity):
        siblings = range(query - query % VIEWS, query - query % VIEWS + VIEWS)
        scores.append(average_precision(np.argsort(-row, kind="stable"), siblings, [query]))
    return 100 * float(np.mean(scores))


def show_progress(stage: str, done: int, total: int) -> None:
    if sys.stdout.isatty():
        print(f"\r{stage}: {done} of {total}" + 30 * " ", end="", flush=True)


if __name__ == "__main__":
    main()
