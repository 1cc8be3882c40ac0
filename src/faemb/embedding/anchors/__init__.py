"""Learning of anchors: by k-means, a Gaussian mixture, or the paper's alternating optimisation."""

from faemb.embedding.anchors.alternating import LearnedAnchors, learn_anchors
from faemb.embedding.anchors.kmeans import kmeans_anchors
from faemb.embedding.anchors.mixture import Mixture, gaussian_mixture

__all__ = ["LearnedAnchors", "Mixture", "gaussian_mixture", "kmeans_anchors", "learn_anchors"]
