"""Folders laid out as benchmarks are, with a few files that are images by name only: readers never decode them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from faemb.benchmark.datasets import STANDARD, Dataset

OXFORD = {
    "all_souls_1": ("oxc1_all_souls_000013 136.5 34.1 648.5 955.7", ["all_souls_000013"], ["all_souls_000026"], ["x"]),
    "bodleian_3": ("oxc1_bodleian_000108 55.2 0.2 734.6 1024.0", ["bodleian_000108", "x"], [], []),
}
OXFORD_IMAGES = ["all_souls_000013", "all_souls_000026", "bodleian_000108", "radcliffe_camera_000523", "x"]

REVISITED_IMAGES = ["c", "a", "b", "d", "e"]
REVISITED_LABELS: dict[str, Any] = {
    "imlist": REVISITED_IMAGES,
    "qimlist": ["q1", "q2"],
    "gnd": [
        {"bbx": [1.5, 2, 30, 40], "easy": np.array([0]), "hard": np.array([1, 2]), "junk": np.array([3])},
        {"bbx": np.array([0.0, 0, 9, 9]), "easy": np.array([4]), "hard": np.array([], dtype=int), "junk": [0, 1]},
    ],
}


def write_images(folder: Path, *names: str) -> Path:
    """Each file holds its own name, so that contents differ."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return folder


def write_oxford(folder: Path, queries: Mapping[str, tuple[str, Sequence[str], Sequence[str], Sequence[str]]]) -> None:
    """The four files of each query."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (line, *lists) in queries.items():
        (folder / f"{name}_query.txt").write_text(f"{line}\n")
        for which, images in zip(("good", "ok", "junk"), lists, strict=True):
            (folder / f"{name}_{which}.txt").write_text("".join(f"{image}\n" for image in images))


def write_table(folder: Path, *lines: str) -> Path:
    (folder / "gt.tsv").write_text("".join(f"{line}\n" for line in lines))
    return folder


def asked(dataset: Dataset, protocol: str = STANDARD) -> dict[str, tuple[list[str], list[str]]]:
    """Names of relevant images and of junk, by the name of the query."""
    return {
        query.image.stem: (_stems(dataset, query.relevant), _stems(dataset, query.junk))
        for query in dataset.protocols[protocol]
    }


def _stems(dataset: Dataset, numbers: Any) -> list[str]:
    return [dataset.images[number].stem for number in numbers]
