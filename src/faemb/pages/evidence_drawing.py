"""Evidence as pixels: two images side by side, one mapped onto the other, or a query brightened by shares."""

from collections.abc import Iterator

import cv2
import numpy as np
from jaxtyping import Float, UInt8

from faemb.collection.explaining import Compared, Explanation
from faemb.errors import InputError
from faemb.features.region import Box
from faemb.pages.side_by_side import COLOURS, Place, SideBySide, side_by_side
from faemb.rerank import mapped

Pixels = UInt8[np.ndarray, "_ _ 3"]

_LOW, _HIGH, _WIDE = 600, 900, 6000
"""Smallest and largest height of a drawn picture, in pixels, otherwise that of the higher image; largest width."""
_PLAIN = (226, 226, 221)
"""Colour of an image whose pixels are not available."""
_BOX = (255, 177, 92)
_DIM = 0.55
"""Brightness of the parts that the other image does not show."""
_RIM = 0.5
"""Factor by which a line darkens its neighbourhood, so that it is visible on any background."""
_FINE = 2
"""Lines are drawn at this many times the resolution, then reduced."""
_FRACTION_BITS = 4
_LIT = 300
"""Number of features with the largest shares that brighten the query."""
_HEAT_SIDE = 320
_TURN = np.linspace(0, 2 * np.pi, 32, endpoint=False)
_CIRCLE = np.stack([np.cos(_TURN), np.sin(_TURN)], axis=1)


def draw_evidence(explanation: Explanation) -> Pixels:
    """Both images side by side, with the agreeing matches; parts that only one of them shows are darker."""
    layout, sides = layout_of(explanation), (explanation.query, explanation.result)
    shown = [fitted(each, 10 * _HIGH) for each in sides]
    if explanation.verification is None:
        shown[0] = lit(explanation, shown[0])
    high = min(_HIGH, max(_LOW, *(len(each) for each in shown)), round(_WIDE * layout.height / layout.width) or 1)
    scale = high / layout.height
    canvas = np.full((high, max(2, round(layout.width * scale)), 3), 255, np.uint8)
    for number, (pixels, place) in enumerate(zip(shown, (layout.first, layout.second), strict=True)):
        left = min(canvas.shape[1] - 1, round(place.left * scale))
        right = max(left + 1, min(canvas.shape[1], round((place.left + place.width) * scale)))
        resized = _resized(pixels, (right - left, high))
        outline = layout.outlines[number] * scale - (left, 0) if layout.outlines else None
        canvas[:, left:right] = resized if outline is None else _dimmed(resized, outline)
    return _with_lines(canvas, list(_strokes(explanation, layout, scale)))


def layout_of(explanation: Explanation) -> SideBySide:
    if explanation.shares is not None and np.isnan(_frames(explanation.query)).any():
        raise InputError(
            "these features are descriptors without geometry, so there is nothing to draw; the numbers are in --json"
        )
    return side_by_side(_extent(explanation.query), _extent(explanation.result), explanation.verification)


def _frames(side: Compared) -> Float[np.ndarray, "N 6"]:
    return np.zeros((0, 6)) if side.features is None else side.features.frames.astype(np.float64)


def _extent(side: Compared) -> tuple[float, float]:
    """Width and height of an image; if unknown, those of the bounding box of its regions."""
    if all(side.size):
        return side.size
    width, height = _frames(side)[:, :2].max(0, initial=1.0)
    return float(width) + 1, float(height) + 1


def fitted(side: Compared, most: int) -> Pixels:
    """The pixels of an image, at most `most` wide and high; a plain colour if they are not available."""
    if side.picture is None:
        width, height = _extent(side)
        scale = min(1.0, most / max(width, height))
        size = max(1, round(height * scale)), max(1, round(width * scale)), 3
        return np.broadcast_to(np.array(_PLAIN, np.uint8), size).copy()
    pixels = np.ascontiguousarray(np.clip(np.rint(side.picture.rgb()), 0, 255).astype(np.uint8))
    high, wide = pixels.shape[:2]
    scale = most / max(high, wide)
    return pixels if scale >= 1 else _resized(pixels, (max(1, round(wide * scale)), max(1, round(high * scale))))


def _resized(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """The image resized to this width and height."""
    how = cv2.INTER_AREA if size[1] < len(pixels) else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(pixels, size, interpolation=how), np.uint8)


# Matches

Stroke = tuple[Float[np.ndarray, "_ 2"], tuple[int, ...], int]
"""Points in pixels, a colour, and the thickness in fine pixels; a line of more than two points is closed."""


def _strokes(explanation: Explanation, layout: SideBySide, scale: float) -> Iterator[Stroke]:
    if explanation.box is not None:
        yield box_corners(explanation.box, layout) * scale, _BOX, 3
    for outline in layout.outlines:
        yield outline * scale, (255, 255, 255), 3
    for colour, rows, ends in zip(COLOURS, layout.rows, layout.lines, strict=True):
        rgb = tuple(int(colour[place : place + 2], 16) for place in (1, 3, 5))
        for place, centre, shape in regions(explanation, layout, rows):
            outline = place.of(centre + _CIRCLE @ shape.T)
            if ((outline[:, 0] >= place.left) & (outline[:, 0] <= place.left + place.width)).all():
                yield outline * scale, rgb, 2  # a region that leaves its image would be drawn over the other
        for corners in ends:
            yield corners.reshape(2, 2) * scale, rgb, 2


def box_corners(box: Box, layout: SideBySide) -> Float[np.ndarray, "4 2"]:
    """Corners of the query's box, in units of the layout."""
    x1, y1, x2, y2 = box
    return layout.first.of(np.array([(x1, y1), (x2, y1), (x2, y2), (x1, y2)], np.float64))


def regions(
    explanation: Explanation, layout: SideBySide, rows: np.ndarray
) -> Iterator[tuple[Place, Float[np.ndarray, " 2"], Float[np.ndarray, "2 2"]]]:
    """Place, centre and shape of both regions of each match."""
    found = explanation.verification
    if found is None:
        return
    for row in rows:
        sides = ((layout.first, explanation.query), (layout.second, explanation.result))
        for (place, side), number in zip(sides, found.matches[row], strict=True):
            frame = _frames(side)[number]
            yield place, frame[:2], frame[2:].reshape(2, 2)


def _with_lines(canvas: Pixels, strokes: list[Stroke]) -> Pixels:
    """The picture with all lines, each with a soft dark rim."""
    high, wide = canvas.shape[:2]
    fine = np.asarray(cv2.resize(canvas, (_FINE * wide, _FINE * high), interpolation=cv2.INTER_CUBIC), np.uint8)
    rim = np.zeros(fine.shape[:2], np.uint8)
    for points, _, thickness in strokes:
        _draw(rim, points, (255,), thickness + 3)
    fine = (fine * (1 - _RIM / 255 * rim[..., None].astype(np.float32))).astype(np.uint8)
    for points, colour, thickness in strokes:
        _draw(fine, points, colour, thickness)
    return np.asarray(cv2.resize(fine, (wide, high), interpolation=cv2.INTER_AREA), np.uint8)


def _draw(fine: np.ndarray, points: Float[np.ndarray, "_ 2"], colour: tuple[int, ...], thickness: int) -> None:
    bounded = np.clip(points * _FINE - 0.5, -1e6, 1e6)
    fixed = np.rint(bounded * (1 << _FRACTION_BITS)).astype(np.int32).reshape(-1, 1, 2)
    cv2.polylines(fine, [fixed], len(points) > 2, colour, thickness, cv2.LINE_AA, _FRACTION_BITS)


def _filled(size: tuple[int, ...], outline: Float[np.ndarray, "_ 2"]) -> Float[np.ndarray, "H W 1"]:
    mask = np.zeros(size[:2], np.uint8)
    cv2.fillPoly(mask, [np.rint(np.clip(outline - 0.5, -1e6, 1e6)).astype(np.int32).reshape(-1, 1, 2)], 255)
    return mask[..., None].astype(np.float32) / 255


def _dimmed(pixels: Pixels, outline: Float[np.ndarray, "_ 2"]) -> Pixels:
    return (pixels * (_DIM + (1 - _DIM) * _filled(pixels.shape, outline))).astype(np.uint8)


# The result on the query


def mapped_onto(explanation: Explanation, query: Pixels, result: Pixels) -> Pixels:
    """The query, with the shared region replaced by the result."""
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
    """Matrix from coordinates of an image to those of its reduced pixels; pixel centres are at whole numbers."""
    width, height = _extent(side)
    across, down = pixels.shape[1] / width, pixels.shape[0] / height
    return np.array([[across, 0, (across - 1) / 2], [0, down, (down - 1) / 2], [0, 0, 1]])


# Shares


def lit(explanation: Explanation, pixels: Pixels) -> Pixels:
    """The query, bright where its regions contribute to the similarity, dark elsewhere."""
    parts, frames = explanation.shares, _frames(explanation.query)
    if parts is None or not (parts > 0).any():
        return (pixels * 0.4).astype(np.uint8)
    width, height = _extent(explanation.query)
    scale = _HEAT_SIDE / max(width, height)
    heat = np.zeros((max(1, round(height * scale)), max(1, round(width * scale))), np.float32)
    for row in np.argsort(-parts, kind="stable")[:_LIT]:
        outline = (frames[row, :2] + _CIRCLE @ frames[row, 2:].reshape(2, 2).T + 0.5) * scale
        region = _filled(heat.shape, outline)[..., 0]
        heat += region * max(0.0, float(parts[row])) / max(1.0, float(region.sum()))
    soft = cv2.GaussianBlur(heat, (0, 0), _HEAT_SIDE / 60)
    level = np.sqrt(np.clip(soft / max(float(np.percentile(soft, 99)), 1e-12), 0, 1))
    level = cv2.resize(level, (pixels.shape[1], pixels.shape[0]), interpolation=cv2.INTER_LINEAR)[..., None]
    return np.clip(pixels * (0.3 + 0.7 * level), 0, 255).astype(np.uint8)
