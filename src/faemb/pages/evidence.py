"""Explanation of why an image is a result of a query, as an HTML page and in words.

Verified results: both images side by side, with lines between matched regions, and the result mapped onto the query.
Other results: the query, brightened where its regions contribute to the similarity of the vectors.
"""

import base64
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image as Pillow

from faemb.collection.explaining import Compared, Explanation
from faemb.pages.document import render
from faemb.pages.evidence_drawing import Pixels, box_corners, fitted, layout_of, lit, mapped_onto, regions
from faemb.pages.reasons import agreement, claim, shared
from faemb.pages.side_by_side import COLOURS, MOST_LINES, SideBySide

_ON_PAGES = 1000
"""Longer side of the pictures of a page, in pixels."""
_QUALITY = 85


@dataclass(frozen=True)
class Shown:
    """An image on the page."""

    name: str
    path: Path | None
    data: str
    """A data URI."""


def evidence_page(explanation: Explanation, *, title: str) -> str:
    layout = layout_of(explanation)
    query, result = (fitted(each, _ON_PAGES) for each in (explanation.query, explanation.result))
    found = explanation.verification
    return render(
        "evidence.html",
        title=title,
        note=claim(explanation.confidence).capitalize() + ".",
        query=_shown(explanation.query, lit(explanation, query) if found is None else query),
        result=_shown(explanation.result, result),
        layout=layout,
        lit=found is None,
        confirmed=explanation.verdict != "unsure",
        most=MOST_LINES,
        mapped=_data_uri(mapped_onto(explanation, query, result)) if layout.outlines else "",
        box=None if explanation.box is None else box_corners(explanation.box, layout).round().astype(int).tolist(),
        circles=list(_circles(explanation, layout)),
        reasons=reasons(explanation),
        transform=None if found is None else found.transform,
    )


def reasons(explanation: Explanation) -> list[str]:
    """Reasons as sentences, without a full stop."""
    words = [claim(explanation.confidence), agreement(explanation.verification)]
    if explanation.overlap is not None:
        sizes, confirmed = (explanation.query.size, explanation.result.size), explanation.verdict != "unsure"
        words.append(shared(explanation.overlap, *sizes, confirmed=confirmed))
    words.append(f"similarity of the vectors {explanation.similarity:.3f}, from -1 to 1")
    return [*words, *explanation.notes]


def _circles(explanation: Explanation, layout: SideBySide) -> Iterator[tuple[str, str]]:
    """Colour of each region, and the SVG matrix that maps the unit circle to it."""
    for colour, rows in zip(COLOURS, layout.rows, strict=True):
        for place, centre, shape in regions(explanation, layout, rows):
            a, b, c, d = (shape * np.array([[place.across], [place.down]])).T.ravel()
            x, y = place.of(centre[None])[0]
            yield colour, f"matrix({a:.1f} {b:.1f} {c:.1f} {d:.1f} {x:.0f} {y:.0f})"


def _shown(side: Compared, pixels: Pixels) -> Shown:
    return Shown(side.name if side.file is None else side.file.name, side.file, _data_uri(pixels))


def _data_uri(pixels: Pixels) -> str:
    stream = io.BytesIO()
    Pillow.fromarray(pixels).save(stream, format="JPEG", quality=_QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode("ascii")
