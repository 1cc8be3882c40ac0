"""Hessian-affine regions and SIFT."""

from faemb.features.hessian_affine.detector import HessianAffine

__all__ = ["HessianAffine"]
