"""Local features from and to files, one format per module; `read_features` reads a file of one image.

| suffix               | holds                                    | scores     | image size |
|----------------------|------------------------------------------|------------|------------|
| .npz                 | our format, or arrays of common names    | if stored  | if stored  |
| .siftgeo             | INRIA, affine regions and SIFT           | cornerness | unknown    |
| .sift (.hesaff.sift) | Oxford's text, ellipses and SIFT         | 0          | unknown    |
| .fvecs, .bvecs       | descriptors alone                        | 0          | unknown    |
| .h5 (hloc)           | many images: `read_hloc`                 | if stored  | if stored  |

Descriptors are float32 and unscaled: SIFT stored as bytes stays in 0 to 255. An unknown image size is (0, 0).
"""

from faemb.features.files.conversion import convert
from faemb.features.files.formats import FORMATS, read_features
from faemb.features.files.hloc import hloc_names, read_hloc, write_hloc
from faemb.features.files.npz import NpzHeader, read_npz, read_npz_header, write_npz
from faemb.features.files.oxford import read_oxford
from faemb.features.files.siftgeo import read_siftgeo
from faemb.features.files.vecs import read_vecs, write_fvecs

__all__ = [
    "FORMATS",
    "NpzHeader",
    "convert",
    "hloc_names",
    "read_features",
    "read_hloc",
    "read_npz",
    "read_npz_header",
    "read_oxford",
    "read_siftgeo",
    "read_vecs",
    "write_fvecs",
    "write_hloc",
    "write_npz",
]
