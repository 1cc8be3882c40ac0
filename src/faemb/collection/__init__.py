"""Collections: searchable sets of images in a folder on disk, which can be changed at any time."""

from faemb.collection.collection import Collection
from faemb.collection.explaining import Explanation
from faemb.collection.model import Model, new_model
from faemb.collection.results import Answer, Group, GroupedImage, Groups, Hit, Info
from faemb.collection.sources import Sources, images_in
from faemb.collection.temporary import encode_images, fit_model
from faemb.collection.thumbnails import Thumbnail
from faemb.collection.writing import Report

__all__ = [
    "Answer",
    "Collection",
    "Explanation",
    "Group",
    "GroupedImage",
    "Groups",
    "Hit",
    "Info",
    "Model",
    "Report",
    "Sources",
    "Thumbnail",
    "encode_images",
    "fit_model",
    "images_in",
    "new_model",
]
