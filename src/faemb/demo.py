"""The main job on pictures that are already installed: render views, index them, search, measure, show. No downloads.

Two photographs come with scikit-learn, more with scikit-image (the extra 'demo'). The first, a palace, is cut into
tiles that show different things, so that there is something to confuse even where it is almost alone. Views of each:

    original      as it is
    perspective   seen from elsewhere: a mild homography
    crop          a part of it, two thirds of each side
    half-size     half of each side
    blur          with a Gaussian of 2 pixels
    light         dim and warm, as in the evening
    quality-30    saved as a JPEG of quality 30

Rendered views are easy: they share every scratch of one photograph. The mAP says that the installation works, and
nothing about real photographs.
"""

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from jaxtyping import UInt8
from PIL import Image as Pillow

from faemb.collection import Answer, Collection, Model
from faemb.errors import FaembError, InputError, MissingExtraError
from faemb.evaluation import average_precision
from faemb.features import HessianAffine, read_image
from faemb.pages.contact_sheet import answers_page
from faemb.pages.document import save_page
from faemb.presets import preset
from faemb.runtime import Progress
from faemb.runtime.storage import replacing

NOTE = (
    "The views of a scene are rendered from one photograph, so they are easy to find: the number shows that everything "
    "works, and says nothing about real photographs."
)
FEATURES = 400
"""Of each image, at most: enough for pictures of this size."""
LARGEST_SIDE = 640
TILES, ENLARGED = 4, 3
"""Rows and columns of the palace, and how much its tiles are enlarged, so that they have details to lose."""
LEAST_DETAIL = 30.0
"""Standard deviation of a tile's Laplacian: the sky has 2, a roof 100."""
SHOWN_QUERIES, SHOWN_HITS = 6, 7

_PALACE, _FLOWER = "china.jpg", "flower.jpg"
_MORE = {
    "astronaut": "astronaut.png",
    "brick": "brick.png",
    "cameraman": "camera.png",
    "cat": "chelsea.png",
    "coffee": "coffee.png",
    "coins": "coins.png",
    "galaxies": "hubble_deep_field.jpg",
    "grass": "grass.png",
    "gravel": "gravel.png",
    "moon": "moon.png",
    "motorcycle": "motorcycle_left.png",
    "page": "page.png",
    "retina": "retina.jpg",
    "rocket": "rocket.jpg",
    "text": "text.png",
    "tissue": "ihc.png",
}
"""Files of scikit-image that lie in its package; others it would download."""
_ABOUT, _IMAGES, _COLLECTION, _PAGE = "about.txt", "images", "demo.faemb", "demo.html"
_ABOUT_TEXT = "Made by the demo of faemb, which replaces images/, demo.faemb/ and demo.html when it runs here again."


class Photograph(NamedTuple):
    name: str
    pixels: UInt8[np.ndarray, "H W 3"]


@dataclass(frozen=True)
class DemoResult:
    page: Path
    """Answers to some queries, for a browser."""
    collection: Path
    scenes: int
    images: int
    """Views of all scenes, the originals among them."""
    mean_average_precision: float
    """Per cent. Every original is a query, is dropped from its ranking, and has its other views as relevant images."""
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.images} views of {self.scenes} scenes, searched with each original: "
            f"mAP {self.mean_average_precision:.1f} after {self.seconds:.0f} s. {NOTE}"
        )


def run_demo(
    out: Path,
    progress: Progress | None = None,
    jobs: int | None = None,
    *,
    photographs: Sequence[Photograph] | None = None,
) -> DemoResult:
    """Render, index, search and measure in the folder `out`: a new one, or an earlier demo's, which is replaced."""
    start, out = time.monotonic(), Path(os.path.abspath(out))
    chosen = installed_photographs() if photographs is None else photographs
    prepare_folder(out)
    groups = render_views(out / _IMAGES, photographs=chosen)
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
    save_page(result.page, _page(result, answers, scores))
    return result


def prepare_folder(out: Path) -> None:
    """An empty folder, but for a file that says whose it is; refuses to empty one that another has filled."""
    if out.exists() and not (out.is_dir() and (_is_ours(out) or not any(out.iterdir()))):
        raise InputError(f"{out} is there already and was not made by the demo; give a new folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / _ABOUT).write_text(f"{_ABOUT_TEXT}\n{NOTE}\n", encoding="utf-8")
        (out / _PAGE).unlink(missing_ok=True)
        for made in (_IMAGES, _COLLECTION):
            if (out / made).exists():
                shutil.rmtree(out / made)
    except OSError as error:
        raise FaembError(f"the folder {out} cannot be used: {error.strerror or error}") from error


def _is_ours(out: Path) -> bool:
    about = out / _ABOUT
    return about.is_file() and about.read_text(encoding="utf-8", errors="replace").startswith(_ABOUT_TEXT)


# Photographs.


def installed_photographs() -> list[Photograph]:
    """All that lie in installed packages; nothing is downloaded."""
    palace, flower = _shipped("sklearn", "datasets/images", _PALACE), _shipped("sklearn", "datasets/images", _FLOWER)
    found = ([] if palace is None else tiles("palace", palace)) + _named("flower", flower)
    for name, file in _MORE.items():
        found += _named(name, _shipped("skimage", "data", file))
    if not found:
        raise MissingExtraError("a demo without scikit-learn's own photographs", "demo")
    return found


def _named(name: str, pixels: UInt8[np.ndarray, "H W 3"] | None) -> list[Photograph]:
    return [] if pixels is None else [Photograph(name, pixels)]


def _shipped(package: str, folder: str, file: str) -> UInt8[np.ndarray, "H W 3"] | None:
    """A photograph in a package's folder, if both are there; the package is not imported, so it cannot download."""
    spec = find_spec(package)
    places = [] if spec is None else [Path(place) / folder / file for place in spec.submodule_search_locations or ()]
    there = [place for place in places if place.is_file()]
    return read_image(there[0], LARGEST_SIDE).rgb() if there else None


def tiles(name: str, pixels: UInt8[np.ndarray, "H W 3"]) -> list[Photograph]:
    """Parts that do not overlap, those that show little left out."""
    cut = [part for band in np.array_split(pixels, TILES) for part in np.array_split(band, TILES, axis=1)]
    large = [_resized(part, ENLARGED, cv2.INTER_CUBIC) for part in cut if _detail(part) >= LEAST_DETAIL]
    return [Photograph(f"{name}-{number:02d}", part) for number, part in enumerate(large, 1)]


def _detail(pixels: UInt8[np.ndarray, "H W 3"]) -> float:
    return float(cv2.Laplacian(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), cv2.CV_32F).std())


def _resized(pixels: UInt8[np.ndarray, "H W 3"], factor: float, how: int) -> UInt8[np.ndarray, "h w 3"]:
    return np.asarray(cv2.resize(pixels, None, fx=factor, fy=factor, interpolation=how), np.uint8)


# Views.


def render_views(folder: Path, seed: int = 0, *, photographs: Sequence[Photograph] | None = None) -> list[list[Path]]:
    """Write folder/NAME/VIEW.jpg for each photograph; the views of one together, the original first."""
    chosen = installed_photographs() if photographs is None else photographs
    return [
        _saved(Path(folder) / photograph.name, photograph.pixels, np.random.default_rng([seed, number]))
        for number, photograph in enumerate(chosen)
    ]


def _saved(folder: Path, pixels: UInt8[np.ndarray, "H W 3"], rng: np.random.Generator) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, view in views(pixels, rng).items():
        paths.append(folder / f"{name}.jpg")
        with replacing(paths[-1]) as temporary:
            Pillow.fromarray(view).save(temporary, format="JPEG", quality=30 if name == "quality-30" else 92)
    return paths


def views(pixels: UInt8[np.ndarray, "H W 3"], rng: np.random.Generator) -> dict[str, UInt8[np.ndarray, "_ _ 3"]]:
    return {
        "original": pixels,
        "perspective": perspective(pixels, rng),
        "crop": crop(pixels, rng),
        "half-size": _resized(pixels, 0.5, cv2.INTER_AREA),
        "blur": cv2.GaussianBlur(pixels, (0, 0), 2.0),
        "light": light(pixels),
        "quality-30": pixels,
    }


def perspective(pixels: UInt8[np.ndarray, "H W 3"], rng: np.random.Generator) -> UInt8[np.ndarray, "H W 3"]:
    """Corners of the view lie inside the photograph, up to 15 % of its sides from its own, so no border shows."""
    height, width = pixels.shape[:2]
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1]]) * [width - 1, height - 1]
    inward = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) * [width, height] * rng.uniform(0, 0.15, (4, 2))
    seen = cv2.getPerspectiveTransform((corners + inward).astype(np.float32), corners.astype(np.float32))
    return cv2.warpPerspective(pixels, seen, (width, height), flags=cv2.INTER_LINEAR)


def crop(pixels: UInt8[np.ndarray, "H W 3"], rng: np.random.Generator) -> UInt8[np.ndarray, "h w 3"]:
    """Two thirds of each side, anywhere."""
    height, width = pixels.shape[0] * 2 // 3, pixels.shape[1] * 2 // 3
    top, left = rng.integers(0, pixels.shape[0] - height + 1), rng.integers(0, pixels.shape[1] - width + 1)
    return np.ascontiguousarray(pixels[top : top + height, left : left + width])


def light(pixels: UInt8[np.ndarray, "H W 3"]) -> UInt8[np.ndarray, "H W 3"]:
    """A dim evening: gamma 1.5, less of the light, and least of its blue."""
    dim = 255 * (pixels / 255) ** 1.5 * np.array([0.9, 0.8, 0.65])
    return np.rint(dim).astype(np.uint8)


# Index, search, measure, show.


def _index_and_search(out: Path, groups: list[list[Path]], progress: Progress | None, jobs: int | None) -> list[Answer]:
    """All images ranked for each original."""
    model = Model(HessianAffine(max_features=FEATURES), preset("small"))
    answers: list[Answer] = []
    with Collection.create(out / _COLLECTION, model) as collection:
        collection.add(out / _IMAGES, jobs=jobs, progress=progress)
        for done, group in enumerate(groups, 1):
            answers += collection.search(group[0], top=len(collection))
            if progress is not None:
                progress("search", done, len(groups))
    return answers


def precision(answer: Answer, group: Sequence[Path]) -> float:
    """Average precision of the answer to the first of a group; it is ignored itself, and the others are relevant."""
    ranking = [hit.path for hit in answer.hits]
    number = {path: place for place, path in enumerate(dict.fromkeys([*group, *ranking]))}
    return average_precision([number[path] for path in ranking], range(len(group)), ignored=[0])


def _page(result: DemoResult, answers: Sequence[Answer], scores: Sequence[float]) -> str:
    chosen = interesting(scores, SHOWN_QUERIES)
    mean = f"mAP {result.mean_average_precision:.1f}"
    title = f"faemb demo: {result.images} rendered views of {result.scenes} scenes, {mean}"
    worst = min(len(chosen), SHOWN_QUERIES // 2)
    note = f"{NOTE} The first {worst} queries are those with the worst answers; the others are a sample."
    return answers_page([_shortened(answers[query]) for query in chosen], title=title, note=note)


def interesting(scores: Sequence[float], count: int) -> list[int]:
    """The worst, worst first, and as many of the others, evenly spread."""
    order = [int(query) for query in np.argsort(scores, kind="stable")]
    worst, others = order[: count // 2], sorted(order[count // 2 :])
    room = min(count - len(worst), len(others))
    return worst + [others[len(others) * (2 * step + 1) // (2 * room)] for step in range(room)]


def _shortened(answer: Answer) -> Answer:
    """The first hits, without the query itself."""
    others = [hit for hit in answer.hits if hit.path != Path(answer.query)]
    return Answer(answer.query, answer.features, others[:SHOWN_HITS])
