"""Local features of an image: a set of descriptors with geometry.

HessianAffine(max_features=1000).extract("photo.jpg")           the paper's features: Hessian-affine RootSIFT
make_extractor("map", network="net.onnx").extract("photo.jpg")  features of any convolutional network
read_features("photo.siftgeo")                                  features that another tool has extracted
FeatureFiles.of(files).extract("photo.siftgeo")                 the same, in place of an extractor of images
extract_folder("photos", "features", HessianAffine())           many images, on all cores, resumable
"""

from faemb.features.cnn import CnnMap, CnnPatches, CnnTokens, Network, rmac, spoc
from faemb.features.extractor import Extractor
from faemb.features.feature_files import FeatureFiles
from faemb.features.files import read_features
from faemb.features.hessian_affine import HessianAffine, root_sift
from faemb.features.image import Image, read_image
from faemb.features.job import ExtractionSummary, extract_folder
from faemb.features.local_features import Grids, LocalFeatures
from faemb.features.region import Box, parse_box
from faemb.features.registry import DETECTORS, make_extractor

__all__ = [
    "DETECTORS",
    "Box",
    "CnnMap",
    "CnnPatches",
    "CnnTokens",
    "ExtractionSummary",
    "Extractor",
    "FeatureFiles",
    "Grids",
    "HessianAffine",
    "Image",
    "LocalFeatures",
    "Network",
    "extract_folder",
    "make_extractor",
    "parse_box",
    "read_features",
    "read_image",
    "rmac",
    "root_sift",
    "spoc",
]
