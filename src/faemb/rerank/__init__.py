"""Candidates of a search are compared feature by feature: matching, geometric verification, score and confidence."""

from faemb.rerank.confidence import POSSIBLE, SURE, Confidence, Unrelated, sample_of
from faemb.rerank.copies import is_copy
from faemb.rerank.expansion import EXPANSIONS
from faemb.rerank.judging import VERIFIED, Judge, Judgement
from faemb.rerank.matching import Matchable, matches
from faemb.rerank.overlap import Polygon, area, mapped, overlap
from faemb.rerank.verification import UPRIGHT, Verification, verify

__all__ = [
    "EXPANSIONS",
    "POSSIBLE",
    "SURE",
    "UPRIGHT",
    "VERIFIED",
    "Confidence",
    "Judge",
    "Judgement",
    "Matchable",
    "Polygon",
    "Unrelated",
    "Verification",
    "area",
    "is_copy",
    "mapped",
    "matches",
    "overlap",
    "sample_of",
    "verify",
]
