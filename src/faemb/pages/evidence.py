"""Why an image is a result of a query, as a picture and as an HTML page.

Verified results: both images side by side, regions that match joined by lines, the result mapped onto the query.
Others: the query, lit where its regions add to the similarity of the vectors.
"""

import base64
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image as Pillow

from faemb.collection.explaining import Compared, Explanation
from faemb.errors import InputError
from faemb.pages.document import render
from faemb.pages.reasons import agreement, claim, shared
from faemb.pages.side_by_side import COLOURS, MOST_LINES, Place, SideBySide, side_by_side
from faemb.rerank import mapped

Pixels = UInt8[np.ndarray, "H W 3"]

_HIGH = 900
"""Largest height of a drawn picture, in pixels."""
_ON_PAGES = 1000
"""Longer side of the pictures of a page."""
_QUALITY = 85
_PLAIN = (226, 226, 221)
"""Colour of an image without pixels."""
_DIM = 0.5
"""Brightness of what the other image does not show."""
_FRACTION_BITS = 4
_LIT = 300
"""Features of the query with the largest shares that light it."""
_HEAT_SIDE = 320


@dataclass(frozen=True)
class Shown:
    """An image on the page."""

    name: str
    path: Path
    data: str
    """A data URI."""


def evidence_page(explanation: Explanation, *, title: str) -> str:
    layout = _layout(explanation)
    query, result = (_fitted(each, _ON_PAGES) for each in (explanation.query, explanation.result))
    lit = explanation.verification is None
    return render(
        "evidence.html",
        title=title,
        note=claim(explanation.confidence).capitalize() + ".",
        query=_shown(explanation.query, _lit(explanation, query) if lit else query),
        result=_shown(explanation.result, result),
        layout=layout,
        lit=lit,
        most=MOST_LINES,
        mapped=_data_uri(_mapped_onto(explanation, query, result)) if layout.outlines else "",
        circles=list(_circles(explanation, layout)),
        reasons=reasons(explanation),
        transform=None if lit or explanation.verification.transform is None else explanation.verification.transform,
    )


def reasons(explanation: Explanation) -> list[str]:
    """Sentences, without a full stop."""
    words = [claim(explanation.confidence), agreement(explanation.verification)]
    if explanation.overlap is not None:
        words.append(shared(explanation.overlap, explanation.query.size, explanation.result.size))
    words.append(f"similarity of the vectors {explanation.similarity:.3f}, from -1 to 1")
    return [*words, *explanation.notes]


def draw_evidence(explanation: Explanation) -> Pixels:
    """Both images side by side, with what agrees; what only one of them shows is darker."""
    layout = _layout(explanation)
    sides = (explanation.query, explanation.result)
    high = min(_HIGH, max(_fitted(each, 10 * _HIGH).shape[0] for each in sides))
    scale = high / layout.height
    canvas = np.full((high, max(2, round(layout.width * scale)), 3), 255, np.uint8)
    for number, (side, place) in enumerate(zip(sides, (layout.first, layout.second), strict=True)):
        pixels = _fitted(side, 10 * _HIGH)
        if explanation.verification is None and side is explanation.query:
            pixels = _lit(explanation, pixels)
        left, right = round(place.left * scale), min(canvas.shape[1], round((place.left + place.width) * scale))
        pixels = cv2.resize(pixels, (max(1, right - left), high), interpolation=cv2.INTER_AREA)
        outline = layout.outlines[number] * scale - (left, 0) if layout.outlines else None
        canvas[:, left:right] = pixels if outline is None else _dimmed(pixels, outline)
    _draw_matches(canvas, explanation, layout, scale)
    return canvas


def _layout(explanation: Explanation) -> SideBySide:
    if explanation.shares is not None and np.isnan(_frames(explanation.query)).any():
        raise InputError(
            "these features are descriptors without geometry, so there is nothing to draw; the numbers are in --json"
        )
    return side_by_side(_extent(explanation.query), _extent(explanation.result), explanation.verification)


def _frames(side: Compared) -> Float[np.ndarray, "N 6"]:
    return np.zeros((0, 6)) if side.features is None else side.features.frames.astype(np.float64)


def _extent(side: Compared) -> tuple[float, float]:
    """Width and height of an image; of an unknown one, those of the rectangle that holds its regions."""
    if all(side.size):
        return side.size
    width, height = _frames(side)[:, :2].max(0, initial=1.0)
    return float(width) + 1, float(height) + 1


def _fitted(side: Compared, most: int) -> Pixels:
    """The pixels of an image, at most `most` wide and high; a plain colour if there are none."""
    if side.picture is None:
        width, height = _extent(side)
        scale = min(1.0, most / max(width, height))
        size = max(1, round(height * scale)), max(1, round(width * scale)), 3
        return np.broadcast_to(np.array(_PLAIN, np.uint8), size).copy()
    pixels = np.ascontiguousarray(np.clip(np.rint(side.picture.rgb()), 0, 255).astype(np.uint8))
    scale = most / max(pixels.shape[:2])
    return pixels if scale >= 1 else cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)


# Matches


def _draw_matches(canvas: Pixels, explanation: Explanation, layout: SideBySide, scale: float) -> None:
    thick = max(1, round(canvas.shape[0] / 420))
    for outline in layout.outlines:
        _polyline(canvas, outline * scale, (255, 255, 255), thick, closed=True)
    for colour, rows, ends in zip(COLOURS, layout.rows, layout.lines, strict=True):
        rgb = tuple(int(colour[place : place + 2], 16) for place in (1, 3, 5))
        for corners in ends:
            _polyline(canvas, corners.reshape(2, 2) * scale, rgb, thick, closed=False)
        for place, centre, shape in _regions(explanation, layout, rows):
            turn = np.linspace(0, 2 * np.pi, 32, endpoint=False)
            circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
            outline = place.of(centre + circle @ shape.T) * scale
            inside = (outline[:, 0] >= place.left * scale) & (outline[:, 0] < (place.left + place.width) * scale)
            if inside.all():  # a region that leaves its image would be drawn over the other
                _polyline(canvas, outline, rgb, thick, closed=True)


def _regions(
    explanation: Explanation, layout: SideBySide, rows: np.ndarray
) -> Iterator[tuple[Place, Float[np.ndarray, " 2"], Float[np.ndarray, "2 2"]]]:
    """Place, centre and shape of both regions of each match."""
    found = explanation.verification
    for row in rows if found is not None else ():
        sides = ((layout.first, explanation.query), (layout.second, explanation.result))
        for (place, side), number in zip(sides, found.matches[row], strict=True):
            frame = _frames(side)[number]
            yield place, frame[:2], frame[2:].reshape(2, 2)


def _circles(explanation: Explanation, layout: SideBySide) -> Iterator[tuple[str, str]]:
    """Colour of each region, and the SVG matrix that makes it of the unit circle."""
    for colour, rows in zip(COLOURS, layout.rows, strict=True):
        for place, centre, shape in _regions(explanation, layout, rows):
            a, b, c, d = (shape * np.array([[place.across], [place.down]])).T.ravel()
            x, y = place.of(centre[None])[0]
            yield colour, f"matrix({a:.1f} {b:.1f} {c:.1f} {d:.1f} {x:.0f} {y:.0f})"


def _polyline(
    canvas: Pixels, points: Float[np.ndarray, "n 2"], colour: tuple[int, ...], thick: int, *, closed: bool
) -> None:
    """A line with a dark rim, which is seen on any ground."""
    bounded = np.clip(points - 0.5, -1e6, 1e6)
    fixed = np.rint(bounded * (1 << _FRACTION_BITS)).astype(np.int32).reshape(-1, 1, 2)
    cv2.polylines(canvas, [fixed], closed, (30, 30, 30), thick + 2, cv2.LINE_AA, _FRACTION_BITS)
    cv2.polylines(canvas, [fixed], closed, colour, thick, cv2.LINE_AA, _FRACTION_BITS)


def _filled(size: tuple[int, ...], outline: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "H W 1"]:
    mask = np.zeros(size[:2], np.uint8)
    cv2.fillPoly(mask, [np.rint(np.clip(outline - 0.5, -1e6, 1e6)).astype(np.int32).reshape(-1, 1, 2)], 255)
    return mask[..., None].astype(np.float32) / 255


def _dimmed(pixels: Pixels, outline: Float[np.ndarray, "n 2"]) -> Pixels:
    return (pixels * (_DIM + (1 - _DIM) * _filled(pixels.shape, outline))).astype(np.uint8)


# The result on the query


def _mapped_onto(explanation: Explanation, query: Pixels, result: Pixels) -> Pixels:
    """The query with the result in the place of the region that both show."""
    found, regions = explanation.verification, explanation.overlap
    if found is None or found.transform is None or regions is None:
        return query
    to_query, to_result = (_to_pixels(side, pixels) for side, pixels in _sides(explanation, query, result))
    back = to_result @ found.transform @ np.linalg.inv(to_query)
    size = (query.shape[1], query.shape[0])
    shown = cv2.warpPerspective(result, back, size, flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
    cover = _filled(query.shape, mapped(to_query, regions[0]) + 0.5)
    return np.rint(query * (1 - cover) + shown * cover).astype(np.uint8)


def _sides(explanation: Explanation, query: Pixels, result: Pixels) -> Iterator[tuple[Compared, Pixels]]:
    yield explanation.query, query
    yield explanation.result, result


def _to_pixels(side: Compared, pixels: Pixels) -> Float[np.ndarray, "3 3"]:
    """From coordinates of an image to those of its reduced pixels; in both, pixel centres have whole coordinates."""
    width, height = _extent(side)
    across, down = pixels.shape[1] / width, pixels.shape[0] / height
    return np.array([[across, 0, (across - 1) / 2], [0, down, (down - 1) / 2], [0, 0, 1]])


# Shares


def _lit(explanation: Explanation, pixels: Pixels) -> Pixels:
    """The query, bright where its regions add to the similarity, and dark elsewhere."""
    parts, frames = explanation.shares, _frames(explanation.query)
    if parts is None or not (parts > 0).any():
        return (pixels * 0.4).astype(np.uint8)
    width, height = _extent(explanation.query)
    scale = _HEAT_SIDE / max(width, height)
    heat = np.zeros((max(1, round(height * scale)), max(1, round(width * scale))), np.float32)
    turn = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    for row in np.argsort(-parts, kind="stable")[:_LIT]:
        outline = (frames[row, :2] + circle @ frames[row, 2:].reshape(2, 2).T + 0.5) * scale
        region = _filled(heat.shape, outline)[..., 0]
        heat += region * max(0.0, float(parts[row])) / max(1.0, float(region.sum()))
    heat = cv2.GaussianBlur(heat, (0, 0), _HEAT_SIDE / 60)
    level = np.sqrt(np.clip(heat / max(float(np.percentile(heat, 99)), 1e-12), 0, 1))
    level = cv2.resize(level, (pixels.shape[1], pixels.shape[0]), interpolation=cv2.INTER_LINEAR)[..., None]
    return np.clip(pixels * (0.3 + 0.7 * level), 0, 255).astype(np.uint8)


# On pages


def _shown(side: Compared, pixels: Pixels) -> Shown:
    return Shown(side.name, Path(side.name).absolute(), _data_uri(pixels))


def _data_uri(pixels: Pixels) -> str:
    stream = io.BytesIO()
    Pillow.fromarray(pixels).save(stream, format="JPEG", quality=_QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode("ascii")
