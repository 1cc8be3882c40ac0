"""faemb: instance-level image search by function-approximation embeddings and their kin."""

from faemb.embedding import TLCC, VLAD, VLAT, BoW, FAemb, FastFAemb, Fisher, Triangulation

__version__ = "0.1.0.dev0"
__all__ = ["TLCC", "VLAD", "VLAT", "BoW", "FAemb", "FastFAemb", "Fisher", "Triangulation"]
