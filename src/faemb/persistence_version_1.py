"""Converts model files of format version 1, which was used before the first release, to version 2.

Version 1 had no revisions and no checksum of its own: its fingerprint covered the tree and the arrays. Fitted parts
replaced the settings that they were made from; a `Model` also stored the rotation and the code of short vectors, which
each index learns now; some settings had other names.
"""

import hashlib
import json
from typing import Any

import numpy as np

Tree = dict[str, Any]
Arrays = dict[str, np.ndarray]

_LEARNED = {"Encoder": ("projection", "embedding", "whitening", "rotation"), "Model": ("encoder",)}
_DROPPED = {"Model": ("rotation", "code")}
_RENAMED = {
    "Encoder": {"order": "finishing"},
    "FAemb": {"anchors": "anchor_learning"},
    "FastFAemb": {"anchors": "anchor_learning"},
}
_POOLINGS = {"exact": "democratic", "clipped": "sinkhorn"}


def is_whole(tree: Tree, arrays: Arrays, fingerprint: str) -> bool:
    digest = hashlib.blake2b(json.dumps(tree, sort_keys=True).encode(), digest_size=16)
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest() == fingerprint


def upgraded(tree: Tree, arrays: Arrays) -> tuple[Tree, Arrays]:
    """The tree and the arrays in the form of version 2."""
    fresh: Arrays = {}
    return _upgraded(tree, arrays, "", fresh, ""), fresh


def _upgraded(tree: Tree, arrays: Arrays, old: str, fresh: Arrays, new: str) -> Tree:
    """Convert one component; `old` and `new` are the prefixes of its arrays, which are added to `fresh`."""
    kind, settings, learned = tree["component"], dict[str, Any](), dict[str, Tree]()
    for name, value in tree["settings"].items():
        if name in _DROPPED.get(kind, ()):
            continue
        if name in _LEARNED.get(kind, ()) and isinstance(value, dict):
            settings[name] = _upgraded(value, {}, "", {}, "")
            if any(array.startswith(f"{old}{name}.") for array in arrays):
                learned[f"{name}_"] = _upgraded(value, arrays, f"{old}{name}.", fresh, f"{new}{name}_.")
        elif isinstance(value, dict):
            settings[name] = _upgraded(value, arrays, f"{old}{name}.", fresh, f"{new}{name}.")
        else:
            settings[_RENAMED.get(kind, {}).get(name, name)] = value
    if kind == "Encoder":
        settings["pooling"] = _POOLINGS.get(settings["pooling"], settings["pooling"])
    for name, array in arrays.items():
        if name.startswith(old) and "." not in name[len(old) :]:
            fresh[new + name[len(old) :]] = array
    return {"component": kind, "revision": 1, "settings": settings, "learned": learned}
