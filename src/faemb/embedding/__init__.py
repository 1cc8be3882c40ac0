"""Embedding of local descriptors: codings, Taylor terms, anchors, and the methods composed of them."""

from faemb.embedding.base import Embedding
from faemb.embedding.methods import TLCC, VLAD, VLAT, BoW, FAemb, FastFAemb, Fisher, Triangulation
from faemb.embedding.operator import Embedded

__all__ = ["TLCC", "VLAD", "VLAT", "BoW", "Embedded", "Embedding", "FAemb", "FastFAemb", "Fisher", "Triangulation"]
