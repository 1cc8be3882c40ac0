"""Candidates of a search are compared feature by feature: matching, geometric verification, confidence."""

from faemb.rerank.matching import Matchable, matches
from faemb.rerank.verification import UPRIGHT, Verification, verify

__all__ = ["UPRIGHT", "Matchable", "Verification", "matches", "verify"]
