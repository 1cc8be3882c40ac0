"""Search answers as one HTML page: a row per query, or per group of duplicates, with small pictures of its images.

The page holds everything: pictures are JPEG data URIs, each at most once however often it is shown; there are no
scripts, and nothing is loaded from elsewhere. A picture is an inline SVG, so that one copy serves several rows, and so
that a box of interest is drawn sharp at any size.
"""

import base64
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image as Pillow

from faemb.collection.results import Answer, Group, Hit
from faemb.errors import FaembError
from faemb.features import Image, read_image
from faemb.features.region import checked_box
from faemb.pages.document import counted, document, text

LARGEST_THUMBNAIL = 240
QUALITY = 80

_NOT_FILES = ("", "the array")
"""What an answer calls a query that was given as an array or as features."""
_NO_FEATURES = "no local features"

_STYLE = """
.answer{display:grid;grid-template-columns:minmax(180px,240px) minmax(0,1fr);column-gap:clamp(14px,2vw,28px);
align-items:start}
.answer h2{grid-column:1/-1}
.cards{list-style:none;margin:0;padding:0;display:grid;gap:14px;
grid-template-columns:repeat(auto-fill,minmax(130px,1fr))}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;overflow:hidden;padding-bottom:9px}
.query{border:2px solid var(--accent)}
.card a{display:block;color:inherit;text-decoration:none}
a:focus-visible{outline:3px solid var(--accent);outline-offset:-3px}
.picture{display:block;width:100%;aspect-ratio:4/3;background:var(--well)}
.lost{display:flex;flex-direction:column;justify-content:center;gap:4px;padding:8px 10px;color:var(--soft);
text-align:center;font-size:12px;line-height:1.35;overflow-wrap:anywhere}
.lost span{display:-webkit-box;-webkit-box-orient:vertical;-webkit-line-clamp:4;overflow:hidden}
.name,.told{margin:0;padding:7px 10px 0}
.name{font-size:14px;line-height:1.3;overflow-wrap:anywhere}
.name small{display:block;font-size:12px}
.told{font-size:13px;color:var(--soft);font-variant-numeric:tabular-nums}
.name+.told{padding-top:3px}
.told b{color:var(--ink);font-weight:600}
.bar{display:block;height:4px;margin-top:4px;border-radius:2px;background:var(--bar);overflow:hidden}
.bar i{display:block;height:100%;background:var(--accent)}
.shade{fill:#000;fill-opacity:.5}
.box{fill:none;stroke:#ffb15c;stroke-width:2.5;vector-effect:non-scaling-stroke}
@media (max-width:640px){.answer{grid-template-columns:minmax(0,1fr);row-gap:10px}.answer h2{margin:0 0 2px}
.query{display:grid;grid-template-columns:1fr 1fr;align-items:center;padding:0}.query .told{padding:0 12px}
.cards{grid-template-columns:repeat(2,minmax(0,1fr));gap:10px}}
@media print{.card,h2{break-inside:avoid}body{background:#fff}}
"""


def answers_page(answers: Sequence[Answer], *, title: str, box: Sequence[float] | None = None, note: str = "") -> str:
    """Queries with their hits; `box` is the region x1, y1, x2, y2 of each query that was searched for."""
    pictures = _Pictures()
    rows = (_answer(answer, box, pictures) for answer in answers)
    count = counted(len(answers), "query", "queries")
    about = f"{count}. Numbers are similarities, from -1 to 1; the most similar come first."
    return document(title, about, note, rows, style=_STYLE)


def groups_page(groups: Sequence[Group], *, title: str, note: str = "") -> str:
    """Groups of images that show the same."""
    pictures = _Pictures()
    rows = (_group(number, group, pictures) for number, group in enumerate(groups, 1))
    count = counted(len(groups), "group", "groups")
    about = f"{count} of images that show the same. Similarities are from -1 to 1."
    return document(title, about, note, rows, style=_STYLE)


# Pictures.


class _Thumbnail(NamedTuple):
    """A picture that the page holds: its id there, its width and height, and those of the image in its file."""

    id: str
    size: tuple[int, int]
    original: tuple[int, int]


class _Pictures:
    """Pictures as HTML. One that was shown before is referred to; no pixels are kept here."""

    def __init__(self) -> None:
        self._held: dict[Path, _Thumbnail] = {}

    def shown(self, path: Path, box: Sequence[float] | None = None) -> str:
        """The picture of a file with the box drawn in, or why there is none."""
        held = self._held.get(path)
        if held is not None:
            return _picture(path.name, held, f'<use href="#{held.id}"/>', box)
        try:
            image = read_image(path, LARGEST_THUMBNAIL)
        except FaembError as error:
            return _lost(str(error).replace(str(path), path.name))
        height, width = image.pixels.shape[:2]
        held = self._held[path] = _Thumbnail(f"p{len(self._held)}", (width, height), image.size)
        pixels = f'<image id="{held.id}" width="{width}" height="{height}" href="{_data_uri(image)}"/>'
        return _picture(path.name, held, pixels, box)


def _picture(name: str, thumbnail: _Thumbnail, pixels: str, box: Sequence[float] | None) -> str:
    width, height = thumbnail.size
    drawn = "" if box is None else _outlined(thumbnail, box)
    return (
        f'<svg class="picture" viewBox="0 0 {width} {height}" role="img" aria-label="picture of {text(name)}">'
        f"{pixels}{drawn}</svg>"
    )


def _outlined(thumbnail: _Thumbnail, box: Sequence[float]) -> str:
    """The box, and a shade over all that is outside; whole numbers are centres of pixels, corners are included."""
    width, height = thumbnail.size
    scale_x, scale_y = width / thumbnail.original[0], height / thumbnail.original[1]
    x1, y1, x2, y2 = checked_box(box, thumbnail.original)
    left, top, across, down = x1 * scale_x, y1 * scale_y, (x2 - x1 + 1) * scale_x, (y2 - y1 + 1) * scale_y
    inside = f"M{left:.2f} {top:.2f}h{across:.2f}v{down:.2f}h{-across:.2f}z"
    return (
        f'<path class="shade" fill-rule="evenodd" d="M0 0h{width}v{height}h{-width}z{inside}"/>'
        f'<path class="box" d="{inside}"/>'
    )


def _data_uri(image: Image) -> str:
    stream = io.BytesIO()
    pixels = np.rint(image.pixels).astype(np.uint8)
    Pillow.fromarray(pixels).save(stream, format="JPEG", quality=QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getbuffer()).decode("ascii")


def _lost(reason: str) -> str:
    return f'<div class="picture lost" title="{text(reason)}">no picture<span>{text(reason)}</span></div>'


# Rows.


def _answer(answer: Answer, box: Sequence[float] | None, pictures: _Pictures) -> str:
    hits = "".join(_hit(hit, pictures) for hit in answer.hits)
    found = f'<ol class="cards" role="list">{hits}</ol>' if hits else f'<p class="soft">{_why_nothing(answer)}</p>'
    told = counted(answer.features, "local feature", "local features") if answer.features else _NO_FEATURES
    told += "" if box is None else " in the box"
    name, picture = _query(answer.query, box, pictures)
    return _row(name, f'<div class="query card">{picture}<p class="told">{told}</p></div><div>{found}</div>')


def _query(query: str, box: Sequence[float] | None, pictures: _Pictures) -> tuple[str, str]:
    """Its name and its picture."""
    if query in _NOT_FILES:
        return "A query that is no file", _lost("it was given as an array, not as a file")
    path = Path(os.path.abspath(query))
    return _name(path), _linked(path, pictures.shown(path, box))


def _why_nothing(answer: Answer) -> str:
    if not answer.features:
        return "The query has no local features, so nothing can be compared with it."
    return "No image is similar enough."


def _hit(hit: Hit, pictures: _Pictures) -> str:
    return _card(hit.path, _NO_FEATURES if hit.score is None else _score(hit.score), pictures)


def _score(score: float) -> str:
    """The number, and a bar from 0 to 1 that long."""
    percent = round(100 * min(max(score, 0.0), 1.0))
    return f'<b>{score:.3f}</b><span class="bar"><i style="width:{percent}%"></i></span>'


def _group(number: int, group: Group, pictures: _Pictures) -> str:
    cards = "".join(_card(path, "", pictures) for path in group.paths)
    told = f"{counted(len(group.paths), 'image', 'images')}, similarity at least {group.score:.3f}"
    return _row(
        f"Group {number}", f'<p class="soft">{told}</p><ul class="cards" role="list">{cards}</ul>', kind="group"
    )


def _row(heading: str, content: str, *, kind: str = "answer") -> str:
    return f'<section class="{kind}"><h2>{heading}</h2>{content}</section>\n'


def _card(path: Path, told: str, pictures: _Pictures) -> str:
    """An item of a list: the picture, its name, and a line of HTML about it."""
    full = Path(os.path.abspath(path))
    line = f'<p class="told">{told}</p>' if told else ""
    return f'<li class="card">{_linked(full, pictures.shown(full))}<p class="name">{_name(full)}</p>{line}</li>'


def _linked(path: Path, picture: str) -> str:
    return f'<a href="{text(path.as_uri())}" title="{text(str(path))}">{picture}</a>'


def _name(path: Path) -> str:
    """The folder and the file, each in its own direction of writing, and the full path where the pointer rests."""
    folder, file = text(path.parent.name), text(path.name)
    return f'<span title="{text(str(path))}"><small><bdi>{folder}</bdi>/</small><bdi>{file}</bdi></span>'
