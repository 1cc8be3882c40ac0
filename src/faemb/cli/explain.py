"""The command that shows why an image is a result of a query."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from faemb.cli.options import (
    Box,
    Device,
    InCollection,
    Output,
    PageOptions,
    Store,
    Turned,
    images_argument,
    opened,
    value,
)

if TYPE_CHECKING:
    from faemb.collection import Explanation

_MOST_SHARES = 100


def explain(
    collection: InCollection,
    query: Annotated[Path, images_argument("QUERY", "Query image: a path or a URL.")],
    result: Annotated[Path, images_argument("RESULT", "Image of the collection, or any other image.")],
    *,
    out: Annotated[
        Path | None, value("FILE", "Also draw both images with lines between what matches: .png, .jpg or .webp.")
    ] = None,
    box: Box = None,
    turned: Turned = False,
    store: Store = None,
    page: PageOptions,
    device: Device = "cpu",
    output: Output,
) -> None:
    """Show why RESULT is an answer to QUERY: the regions that match, and the transform that they agree with.

    If local features are not stored: how much each region of the query contributes to the similarity.

    Example: faemb explain photos.faemb query.jpg photos/a.jpg --out picture.png --html page.html
    """
    from faemb.features import parse_box
    from faemb.features.drawing import require_picture, save_picture
    from faemb.pages.evidence import evidence_page
    from faemb.pages.evidence_drawing import draw_evidence

    page.check()
    if out is not None:
        require_picture(out, overwrite=page.overwrite)
    region = parse_box(box) if box is not None else None
    with opened(collection, device=device, store=store) as photos:
        found = photos.explain(query, result, box=region, turned=turned)
    if out is not None:
        save_picture(out, draw_evidence(found), overwrite=page.overwrite)
    page.save(lambda: evidence_page(found, title=f"{query.name} and {result.name}"))
    output.show(_as_json(found), _lines(found, [each for each in (out, page.html) if each is not None]))
    page.open()


def _lines(found: "Explanation", written: list[Path]) -> Iterator[str]:
    from faemb.pages.evidence import reasons

    yield f"{found.query.name} and {found.result.name}"
    for reason in reasons(found):
        yield f"  {reason}"
    for path in written:
        yield f"written to {path}"


def _as_json(found: "Explanation") -> dict[str, object]:
    verification, regions = found.verification, found.overlap
    transform = None if verification is None else verification.transform
    return {
        "query": found.query.name,
        "result": found.result.name,
        "in_collection": found.result.in_collection,
        "similarity": found.similarity,
        "confidence": found.confidence,
        "verdict": found.verdict,
        "verified": verification is not None,
        "evidence": None if verification is None else verification.evidence,
        "matches": None if verification is None else len(verification.matches),
        "agreeing": None if verification is None else int(verification.agreeing.sum()),
        "transform": None if transform is None else transform.tolist(),
        "overlap": None if regions is None else {"query": regions[0].tolist(), "result": regions[1].tolist()},
        "pairs": _pairs(found),
        "shares": _shares(found),
        "notes": list(found.notes),
    }


def _pairs(found: "Explanation") -> list[dict[str, object]] | None:
    """Centres of the matched regions in both images, and whether they agree with the transform."""
    if found.verification is None:
        return None
    ends = found.verification.points.tolist()
    return [
        {"query": points[:2], "result": points[2:], "agrees": bool(agrees)}
        for points, agrees in zip(ends, found.verification.agreeing, strict=True)
    ]


def _shares(found: "Explanation") -> list[dict[str, object]] | None:
    """The regions of the query with the largest shares in the similarity."""
    if found.shares is None or found.query.features is None:
        return None
    order = (-found.shares).argsort(kind="stable")[:_MOST_SHARES]
    return [
        {"query": _known(found.query.features.centres[row].tolist()), "share": float(found.shares[row])}
        for row in order
    ]


def _known(centre: list[float]) -> list[float] | None:
    """The position, or None for a descriptor without geometry."""
    return centre if all(value == value for value in centre) else None
