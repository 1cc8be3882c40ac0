"""The formats of files that hold one image, by suffix."""

from collections.abc import Callable
from pathlib import Path

from faemb.errors import InputError
from faemb.features.files.npz import read_npz
from faemb.features.files.oxford import read_oxford
from faemb.features.files.siftgeo import read_siftgeo
from faemb.features.files.vecs import read_vecs_features
from faemb.features.local_features import LocalFeatures
from faemb.runtime.storage import AnyPath

FORMATS: dict[str, Callable[[AnyPath], LocalFeatures]] = {
    ".npz": read_npz,
    ".siftgeo": read_siftgeo,
    ".sift": read_oxford,
    ".fvecs": read_vecs_features,
    ".bvecs": read_vecs_features,
}
MANY_IMAGES = (".h5", ".hdf5")


def read_features(path: AnyPath) -> LocalFeatures:
    """The local features of one image; the file's suffix gives its format."""
    suffix = Path(path).suffix.lower()
    if suffix in MANY_IMAGES:
        raise InputError(f"{path} holds many images; read it with faemb.features.files.read_hloc")
    if suffix not in FORMATS:
        raise InputError(f"{path} ends in {suffix!r}; known files of local features end in {', '.join(FORMATS)}")
    return FORMATS[suffix](path)
