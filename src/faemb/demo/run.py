"""A demonstration: draw pictures, render photographs of them, index, search, measure, write a page."""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from faemb.collection import Answer, Collection, new_model
from faemb.demo.prints import Pixels, pictures
from faemb.demo.views import render_views
from faemb.errors import FaembError, InputError
from faemb.evaluation import average_precision
from faemb.features import HessianAffine
from faemb.pages.contact_sheet import answers_page
from faemb.pages.document import save_page
from faemb.runtime import Progress
from faemb.runtime.storage import make_folder

NOTE = (
    "The photographs are rendered, and easier to find than real ones: the number shows that everything works, but does "
    "not predict the mAP on your own images."
)
FEATURES = 400
"""Largest number of local features per image; enough for images of this size."""
SHOWN_HITS = 8
"""Number of results shown per query: one more than the photographs of a picture, so that one shows another picture."""

CREDIT = "Photographs of the palace and the flower: danielbuechele and vultilion on Flickr, CC BY 2.0."
_ABOUT, _IMAGES, _COLLECTION, _PAGE = "about.txt", "images", "demo.faemb", "demo.html"
_ABOUT_TEXT = "Made by the demo of faemb, which replaces images/, demo.faemb/ and demo.html when it runs here again."


@dataclass(frozen=True)
class DemoResult:
    page: Path
    """HTML page with the best hits of each query."""
    collection: Path
    scenes: int
    """Number of pictures in the gallery."""
    images: int
    """Number of photographs of all pictures, plus the pictures themselves."""
    mean_average_precision: float
    """In percent: each picture is a query, ignored in its own ranking; its photographs are relevant."""
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.images} images of {self.scenes} pictures in a gallery, each searched for among all: "
            f"mAP {self.mean_average_precision:.1f} after {self.seconds:.0f} s. {NOTE}"
        )


def run_demo(
    out: Path,
    progress: Progress | None = None,
    jobs: int | None = None,
    *,
    shown: Mapping[str, Pixels] | None = None,
) -> DemoResult:
    """Run the demo in the folder `out`, which is new, empty, or that of an earlier demo, whose files are replaced.

    `shown` are pictures by name; by default all pictures of the demo.
    """
    start, out = time.monotonic(), Path(os.path.abspath(out))
    _prepare_folder(out)
    groups = render_views(out / _IMAGES, pictures() if shown is None else shown)
    answers = _index_and_search(out, groups, progress, jobs)
    scores = [100 * precision(answer, group) for answer, group in zip(answers, groups, strict=True)]
    result = DemoResult(
        page=out / _PAGE,
        collection=out / _COLLECTION,
        scenes=len(groups),
        images=sum(len(group) for group in groups),
        mean_average_precision=float(np.mean(scores)),
        seconds=time.monotonic() - start,
    )
    save_page(result.page, _page(result, answers))
    return result


def _prepare_folder(out: Path) -> None:
    """Make the folder, or remove the files of an earlier demo; raises an error if it holds anything else."""
    about = out / _ABOUT
    ours = about.is_file() and about.read_text(encoding="utf-8", errors="replace").startswith(_ABOUT_TEXT)
    if out.exists() and not ours and not (out.is_dir() and not any(out.iterdir())):
        raise InputError(f"{out} exists already and was not made by the demo; give a new folder")
    try:
        make_folder(out)
        about.write_text(f"{_ABOUT_TEXT}\n{NOTE}\n", encoding="utf-8")
        (out / _PAGE).unlink(missing_ok=True)
        for made in (_IMAGES, _COLLECTION):
            if (out / made).exists():
                shutil.rmtree(out / made)
    except OSError as error:
        raise FaembError(f"the folder {out} cannot be used: {error.strerror or error}") from error


# Index, search, measure, show.


def _index_and_search(out: Path, groups: list[list[Path]], progress: Progress | None, jobs: int | None) -> list[Answer]:
    """For each picture, the ranking of all images."""
    answers: list[Answer] = []
    with Collection.create(out / _COLLECTION, new_model(HessianAffine(max_features=FEATURES))) as collection:
        collection.add(out / _IMAGES, jobs=jobs, progress=progress)
        for done, group in enumerate(groups, 1):
            answers += collection.search(group[0], top=len(collection))
            if progress is not None:
                progress("search", done, len(groups))
    return answers


def precision(answer: Answer, group: Sequence[Path]) -> float:
    """Average precision of the answer to the first image of a group, which is ignored; the others are relevant."""
    numbers = {path: number for number, path in enumerate(group)}
    ranking = [numbers.get(hit.path, len(group) + place) for place, hit in enumerate(answer.hits)]
    return average_precision(ranking, range(1, len(group)), ignored=[0])


def _page(result: DemoResult, answers: Sequence[Answer]) -> str:
    """The page of all queries, in the order of the pictures."""
    found = f"mAP {result.mean_average_precision:.1f}"
    title = f"faemb demo: {result.images} images of {result.scenes} pictures in a gallery"
    asked = "Each picture is a query; its rendered photographs are the relevant images."
    note = f"{asked} {found}. {NOTE} {CREDIT}"
    others = [[hit for hit in answer.hits if not hit.itself] for answer in answers]
    few = [replace(answer, hits=hits[:SHOWN_HITS]) for answer, hits in zip(answers, others, strict=True)]
    return answers_page(few, title=title, note=note)
