"""Results of the comparison of two images, in words."""

from faemb.collection.results import verdict
from faemb.pages import counted, percent
from faemb.rerank import Polygon, Verification, area

CLAIMS = {"same": "the same thing", "maybe": "maybe the same thing", "unsure": "not confirmed"}
"""Text of each verdict on two images."""


def claim(confidence: float) -> str:
    return f"{CLAIMS[verdict(confidence)]}: confidence {percent(confidence)}"


def agreement(found: Verification | None) -> str:
    """Sentence on how many matches of local features agree."""
    if found is None:
        return "local features were not compared"
    matched = len(found.matches)
    if not matched:
        return "no regions of both match"
    if found.transform is None:
        regions = "1 region of both matches" if matched == 1 else f"{matched} regions of both match"
        return f"{regions}, and no more agree with one transform than by chance{_but_for_an_overlay(found)}"
    agreeing = f"{int(found.agreeing.sum())} of {matched} matches agree with one transform"
    return f"{agreeing}, at {counted(found.places, 'place')}{_but_for_an_overlay(found)}"


def _but_for_an_overlay(found: Verification) -> str:
    if not found.written_over:
        return ""
    return f"; not counted: {found.written_over} of a caption, a logo or a frame in the same place of both"


def shared(
    regions: tuple[Polygon, Polygon], query: tuple[int, int], result: tuple[int, int], *, confirmed: bool
) -> str:
    """Sentence on the share of each image that the other shows, which is only true if their transform is."""
    parts = [area(region) / max(1, size[0] * size[1]) for region, size in zip(regions, (query, result), strict=True)]
    claimed = "both show" if confirmed else "if that transform were right, both would show"
    return f"{claimed} {_part(parts[0])} of the query and {_part(parts[1])} of the result"


def _part(share: float) -> str:
    return f"{min(100, round(100 * share))} %"
