"""Folders laid out as benchmarks are, with a few files that are images by name only: readers never decode them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from faemb.benchmark.datasets import STANDARD, Dataset

OXFORD = {
    "all_souls_1": ("oxc1_all_souls_000013 136.5 34.1 648.5 955.7", ["all_souls_000013"], ["all_souls_000026"], ["x"]),
    "bodleian_3": ("oxc1_bodleian_000108 55.2 0.2 734.6 1024.0", ["bodleian_000108", "x"], [], []),
}
OXFORD_IMAGES = ["all_souls_000013", "all_souls_000026", "bodleian_000108", "radcliffe_camera_000523", "x"]


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
