"""Results of the comparison of two images, in words."""

import math

from faemb.collection.results import verdict
from faemb.pages import counted, percent
from faemb.rerank import Polygon, Verification, area

CLAIMS = {"same": "the same thing", "maybe": "maybe the same thing", "unsure": "not confirmed"}
"""Text of each verdict on two images."""

_MOST_DIGITS = 6
"""Of a number of pairs: nobody can imagine larger ones, and the model of chance does not hold that far."""


def claim(confidence: float) -> str:
    return f"{CLAIMS[verdict(confidence)]}: confidence {percent(confidence)}"


def agreement(found: Verification | None) -> str:
    """Sentence on how many matches of local features agree."""
    if found is None:
        return "local features were not compared"
    matched = counted(len(found.matches), "region")
    if found.transform is None:
        return f"{matched} of both match, and no three of them agree with one transform"
    agreeing = f"{int(found.agreeing.sum())} of {len(found.matches)} matches agree with one transform"
    return f"{agreeing}, at {counted(found.places, 'place')}; {_chance(found.evidence)}"


def shared(regions: tuple[Polygon, Polygon], query: tuple[int, int], result: tuple[int, int]) -> str:
    """Sentence on the share of each image that the other shows."""
    parts = [area(region) / max(1, size[0] * size[1]) for region, size in zip(regions, (query, result), strict=True)]
    return f"both show {_part(parts[0])} of the query and {_part(parts[1])} of the result"


def _part(share: float) -> str:
    return f"{min(100, round(100 * share))} %"


def _chance(evidence: float) -> str:
    digits = math.floor(evidence / math.log(10))
    if digits < 1:
        return "as many agree by chance"
    if digits > _MOST_DIGITS:
        return f"by chance in less than one of {10**_MOST_DIGITS:,} pairs"
    return f"by chance in one of {10**digits:,} pairs"
