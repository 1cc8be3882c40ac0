"""Hessian-affine regions, SIFT and RootSIFT."""

from faemb.features.hessian_affine.detector import HessianAffine
from faemb.features.hessian_affine.sift import root_sift

__all__ = ["HessianAffine", "root_sift"]
