"""Files of local features in place of images: written by other tools or by `faemb features`.

A model whose extractor is `FeatureFiles` is fitted to such files, encodes them and searches with them; it never reads
pixels.
"""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from faemb.errors import FaembError, InputError
from faemb.features.extractor import Extractor
from faemb.features.files import FORMATS, read_features
from faemb.features.files.formats import MANY_IMAGES
from faemb.features.folders import IMAGES, SUFFIXES, Kind
from faemb.features.hessian_affine import root_sift
from faemb.features.image import Image, ImageLike, name_of
from faemb.features.local_features import LocalFeatures
from faemb.runtime.storage import AnyPath
from faemb.settings import require_flag, require_whole

FEATURES = Kind("files of local features", frozenset(FORMATS))


class FeatureFiles(Extractor):
    """Reads local features from a file; `FeatureFiles.of(files)` takes the first two settings from files.

    dimension:    length of the descriptors; files with another length are an error
    origin:       fingerprint of the extractor that `faemb features` used; empty for files of other tools
    max_features: keep this number of the strongest; None: all
    root:         turn SIFT into RootSIFT
    """

    max_side = None
    is_upright = False

    def __init__(
        self, dimension: int, *, origin: str = "", max_features: int | None = None, root: bool = False
    ) -> None:
        self.dimension, self.origin, self.max_features, self.root = dimension, origin, max_features, root

    @classmethod
    def of(cls, files: Iterable[AnyPath], *, max_features: int | None = None, root: bool = False) -> "FeatureFiles":
        """An extractor for such files; dimension and origin are those of the first readable file that has features."""
        faults: list[str] = []
        for file in files:
            try:
                features = read_features(file)
            except FaembError as error:
                faults.append(str(error))
                continue
            if len(features):
                dimension, origin = features.descriptors.shape[1], features.fingerprint
                return cls(dimension, origin=origin, max_features=max_features, root=root)
        raise InputError("; ".join(["none of the files holds local features", *faults[:1]]))

    def check_settings(self) -> None:
        require_whole("dimension", self.dimension, 1)
        require_flag("root", self.root)
        if self.max_features is not None:
            require_whole("max_features", self.max_features, 1)

    def describe(self, image: Image) -> LocalFeatures:
        raise InputError(_not_a_file(image))

    def extract(self, image: ImageLike) -> LocalFeatures:
        """The features in a file; its suffix gives the format."""
        self.check_settings()
        if not isinstance(image, str | os.PathLike) or not FEATURES.includes(Path(image)):
            require_one_image(image)
            raise InputError(_not_a_file(image))
        features = read_features(image)
        self._require_fitting(features, image)
        descriptors = root_sift(features.descriptors) if self.root else features.descriptors
        features = replace(features, descriptors=descriptors, fingerprint=self.fingerprint)
        if self.max_features is None or len(features) <= self.max_features:
            return features
        return features.select(np.argsort(-features.scores, kind="stable")[: self.max_features])

    def _require_fitting(self, features: LocalFeatures, path: AnyPath) -> None:
        dimension = features.descriptors.shape[1]
        if len(features) and dimension != self.dimension:
            raise InputError(
                f"{path} holds descriptors of length {dimension}, and this model takes {self.dimension}; give files of "
                "one kind of features"
            )
        if features.fingerprint != self.origin:
            raise InputError(
                f"{path} was extracted with other settings than the files that this model was made for; extract it "
                "again with those"
            )


def kind_of(extractor: Extractor) -> Kind:
    """The kind of files that an extractor reads: images, or files of local features."""
    return FEATURES if isinstance(extractor, FeatureFiles) else IMAGES


def features_of_query(extractor: Extractor, query: ImageLike) -> LocalFeatures:
    """The features of an image, or those read from a file that the same extractor has written."""
    if isinstance(extractor, FeatureFiles) or not isinstance(query, str | os.PathLike):
        return extractor.extract(query)
    require_one_image(query)
    if not FEATURES.includes(Path(query)):
        return extractor.extract(query)
    features = read_features(query)
    if features.fingerprint != extractor.fingerprint:
        raise InputError(
            f"{query} holds local features that were extracted in another way than those of this collection; search "
            "with the image itself"
        )
    return features


def require_one_image(source: ImageLike) -> None:
    """Raise an InputError for a file that holds the features of many images."""
    if isinstance(source, str | os.PathLike) and Path(source).suffix.lower() in MANY_IMAGES:
        path = Path(source)
        raise InputError(
            f"{path} holds the features of many images; make a folder of it, with one file for each image, and give "
            f"that: faemb convert-features {path} --out {path.with_suffix('')}-features"
        )


def picture_of(path: Path) -> Path | None:
    """The image of a file: the file itself, or the image in the same folder as a file of features; None if missing.

    The image of a.jpg.npz and of a.jpg.hesaff.sift is a.jpg; that of a.siftgeo is a with any suffix of an image.
    """
    if not FEATURES.includes(path):
        return path
    bare = path.with_suffix("")
    beside = [bare, bare.with_suffix(""), *(Path(f"{bare}{suffix}") for suffix in sorted(SUFFIXES))]
    return next((each for each in beside if IMAGES.includes(each) and each.is_file()), None)


def _not_a_file(image: ImageLike) -> str:
    known = ", ".join(FORMATS)
    return (
        f"{name_of(image)} is not a file of local features ({known}), which this model takes; extract them from the "
        "image with the tool and the settings that were used for the others"
    )
