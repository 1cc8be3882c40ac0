"""A demonstration on photographs of installed packages: render views, index them, search, measure, write a page.

scikit-learn contains two photographs, scikit-image (the extra 'demo') more; nothing is downloaded. The first, a palace,
is cut into tiles with different content, so that there are several scenes even without scikit-image. Views of each
scene:

    original      the photograph
    perspective   a mild homography
    crop          two thirds of each side
    half-size     half of each side
    blur          a Gaussian with a standard deviation of 2 pixels
    light         dim and warm, as in the evening
    quality-30    saved as a JPEG of quality 30

Views rendered from one photograph are far easier to find than real photographs of one object. The mAP shows that the
installation works; it is no estimate for real photographs.
"""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

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
    "works, and is no estimate for real photographs."
)
FEATURES = 400
"""Largest number of local features of an image; enough for images of this size."""
LARGEST_SIDE = 640
TILES, ENLARGED = 4, 3
"""Rows and columns of tiles, and the factor by which tiles are enlarged, so that blur and half size leave details."""
LEAST_DETAIL = 30.0
"""Standard deviation of a tile's Laplacian: about 2 for sky, 100 for a roof."""
SHOWN_QUERIES, SHOWN_HITS = 6, 7

_SKLEARN = {"palace": "china.jpg", "flower": "flower.jpg"}
_SKIMAGE = {
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
"""Files that are part of the package; scikit-image would download others."""
_ABOUT, _IMAGES, _COLLECTION, _PAGE = "about.txt", "images", "demo.faemb", "demo.html"
_ABOUT_TEXT = "Made by the demo of faemb, which replaces images/, demo.faemb/ and demo.html when it runs here again."

Pixels = UInt8[np.ndarray, "_ _ 3"]


@dataclass(frozen=True)
class DemoResult:
    page: Path
    """Some queries with their hits, for a browser."""
    collection: Path
    scenes: int
    images: int
    """Views of all scenes, including the originals."""
    mean_average_precision: float
    """In percent: each original is a query, ignored in its own ranking; the other views of its scene are relevant."""
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
    photographs: Mapping[str, Pixels] | None = None,
) -> DemoResult:
    """Run the demo in the folder `out`, which is new, empty, or that of an earlier demo, whose files are replaced."""
    start, out = time.monotonic(), Path(os.path.abspath(out))
    photographs = installed_photographs() if photographs is None else photographs
    _prepare_folder(out)
    groups = render_views(out / _IMAGES, photographs)
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


def _prepare_folder(out: Path) -> None:
    """Make the folder, or remove the files of an earlier demo; refuses a folder with anything else in it."""
    about = out / _ABOUT
    ours = about.is_file() and about.read_text(encoding="utf-8", errors="replace").startswith(_ABOUT_TEXT)
    if out.exists() and not ours and not (out.is_dir() and not any(out.iterdir())):
        raise InputError(f"{out} exists already and was not made by the demo; give a new folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
        about.write_text(f"{_ABOUT_TEXT}\n{NOTE}\n", encoding="utf-8")
        (out / _PAGE).unlink(missing_ok=True)
        for made in (_IMAGES, _COLLECTION):
            if (out / made).exists():
                shutil.rmtree(out / made)
    except OSError as error:
        raise FaembError(f"the folder {out} cannot be used: {error.strerror or error}") from error


# Photographs.


def installed_photographs() -> dict[str, Pixels]:
    """Photographs in installed packages, by name; the palace is cut into tiles."""
    found = {**_shipped("sklearn", "datasets/images", _SKLEARN), **_shipped("skimage", "data", _SKIMAGE)}
    if not found:
        raise MissingExtraError("a demo without scikit-learn's own photographs", "demo")
    palace = found.pop("palace", None)
    return found if palace is None else {**tiles("palace", palace), **found}


def _shipped(package: str, folder: str, files: Mapping[str, str]) -> dict[str, Pixels]:
    """The files that the installed package contains; it is not imported, so it cannot download others."""
    spec = find_spec(package)
    roots = [Path(root, folder) for root in spec.submodule_search_locations or ()] if spec else []
    paths = {name: root / file for root in roots for name, file in files.items()}
    return {name: read_image(path, LARGEST_SIDE).rgb() for name, path in paths.items() if path.is_file()}


def tiles(name: str, pixels: Pixels) -> dict[str, Pixels]:
    """Parts of a photograph that do not overlap, without those that show little."""
    parts = [part for band in np.array_split(pixels, TILES) for part in np.array_split(band, TILES, axis=1)]
    large = [_resized(part, ENLARGED, cv2.INTER_CUBIC) for part in parts if _detail(part) >= LEAST_DETAIL]
    return {f"{name}-{number:02d}": part for number, part in enumerate(large, 1)}


def _detail(pixels: Pixels) -> float:
    return float(cv2.Laplacian(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), cv2.CV_32F).std())


def _resized(pixels: Pixels, factor: float, interpolation: int) -> Pixels:
    return np.asarray(cv2.resize(pixels, None, fx=factor, fy=factor, interpolation=interpolation), np.uint8)


# Views.


def render_views(folder: Path, photographs: Mapping[str, Pixels], seed: int = 0) -> list[list[Path]]:
    """Write folder/NAME/VIEW.jpg for each photograph; returns the files of each, the original first."""
    groups = []
    for number, (name, pixels) in enumerate(photographs.items()):
        (folder / name).mkdir(parents=True, exist_ok=True)
        rendered = views(pixels, np.random.default_rng([seed, number]))
        groups.append([_saved(folder / name / f"{view}.jpg", image) for view, image in rendered.items()])
    return groups


def _saved(path: Path, pixels: Pixels) -> Path:
    with replacing(path) as temporary:
        Pillow.fromarray(pixels).save(temporary, format="JPEG", quality=30 if path.stem == "quality-30" else 92)
    return path


def views(pixels: Pixels, rng: np.random.Generator) -> dict[str, Pixels]:
    return {
        "original": pixels,
        "perspective": perspective(pixels, rng),
        "crop": crop(pixels, rng),
        "half-size": _resized(pixels, 0.5, cv2.INTER_AREA),
        "blur": cv2.GaussianBlur(pixels, (0, 0), 2.0),
        "light": light(pixels),
        "quality-30": pixels,
    }


def perspective(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Corners of the view lie inside the photograph, up to 15 % of each side from its corners, so no border shows."""
    height, width = pixels.shape[:2]
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1]]) * [width - 1, height - 1]
    inward = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) * [width, height] * rng.uniform(0, 0.15, (4, 2))
    homography = cv2.getPerspectiveTransform((corners + inward).astype(np.float32), corners.astype(np.float32))
    return cv2.warpPerspective(pixels, homography, (width, height), flags=cv2.INTER_LINEAR)


def crop(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Two thirds of each side, at a random position."""
    height, width = pixels.shape[0] * 2 // 3, pixels.shape[1] * 2 // 3
    top, left = rng.integers(0, pixels.shape[0] - height + 1), rng.integers(0, pixels.shape[1] - width + 1)
    return np.ascontiguousarray(pixels[top : top + height, left : left + width])


def light(pixels: Pixels) -> Pixels:
    """Gamma 1.5, then factors that leave more red than blue."""
    dim = 255 * (pixels / 255) ** 1.5 * np.array([0.9, 0.8, 0.65])
    return np.rint(dim).astype(np.uint8)


# Index, search, measure, show.


def _index_and_search(out: Path, groups: list[list[Path]], progress: Progress | None, jobs: int | None) -> list[Answer]:
    """For each original, the ranking of all images."""
    answers: list[Answer] = []
    with Collection.create(
        out / _COLLECTION, Model(HessianAffine(max_features=FEATURES), preset("small"))
    ) as collection:
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


def _page(result: DemoResult, answers: Sequence[Answer], scores: Sequence[float]) -> str:
    mean = f"mAP {result.mean_average_precision:.1f}"
    title = f"faemb demo: {result.images} rendered views of {result.scenes} scenes, {mean}"
    note = f"{NOTE} The queries shown are a sample, from the worst answer to the best."
    shown = [answers[query] for query in sample(scores, SHOWN_QUERIES)]
    others = [[hit for hit in answer.hits if hit.path != Path(answer.query)] for answer in shown]
    few = [replace(answer, hits=hits[:SHOWN_HITS]) for answer, hits in zip(shown, others, strict=True)]
    return answers_page(few, title=title, note=note)


def sample(scores: Sequence[float], count: int) -> list[int]:
    """Positions of scores from the lowest to the highest, evenly spread over their order."""
    order = np.argsort(scores, kind="stable")
    return order[np.linspace(0, len(order) - 1, min(count, len(order))).astype(int)].tolist()
