"""Model files with right checksums and content that `save` never writes, for tests and for fuzzing.

`examples` writes valid models; `mutate` changes settings, arrays and parts of one at random; `use` loads one and
encodes some descriptors with it. A mutated file is either used without fault, or refused with an error of this package.
"""

import hashlib
import json
import math
import struct
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from faemb import (
    ITQ,
    TLCC,
    VLAD,
    VLAT,
    BoW,
    Encoder,
    FAemb,
    FastFAemb,
    Fisher,
    HessianAffine,
    Model,
    Projection,
    Rotation,
    Triangulation,
    Whitening,
    persistence,
)
from faemb.component import Component, digest_of
from faemb.embedding import Embedding

WIDTH = 6
Tree = dict[str, Any]
Arrays = dict[str, np.ndarray]

EXAMPLES: dict[str, Component] = {
    "faemb": Encoder(FAemb(3), projection=Projection(3), whitening=Whitening(discard=1), rotation=Rotation(max_axes=3)),
    "ffaemb": Encoder(FastFAemb(3), whitening=Whitening(discard=0), pooling="gmp", keep=9),
    "vlad": Encoder(VLAD(3, local_axes=True, normalise_cells=True), pooling="sum"),
    "vlat": Encoder(VLAT(2), projection=Projection(unit_before=True), whitening=Whitening(), pooling="sinkhorn"),
    "fisher": Encoder(Fisher(2), whitening=Whitening(discard=2), rotation=Rotation("whiten"), finishing="released"),
    "temb": Encoder(Triangulation(4), whitening=Whitening(), discard_after=2),
    "tlcc": Encoder(TLCC(3), projection=Projection(4, unit_after=True)),
    "bow": Encoder(BoW(5), power=1.0),
    "itq": ITQ(8, iterations=2),
    "model": Model(HessianAffine(max_features=20), Encoder(FastFAemb(2), projection=Projection(3))),
}


def examples(folder: Path) -> dict[str, Path]:
    """Files of valid models, by name."""
    rng = np.random.default_rng(7)
    made = {}
    for name, example in EXAMPLES.items():
        made[name] = folder / f"{name}.faemb"
        persistence.save(fitted(example, rng), made[name])
    return made


def fitted(example: Component, rng: np.random.Generator) -> Component:
    rows = rng.standard_normal((90, WIDTH)) + 1
    if isinstance(example, ITQ):
        return example.clone().fit(rng.standard_normal((40, 12)))
    if isinstance(example, Model):
        return example.clone().fit(np.split(rng.random((90, 128)), 9))
    assert isinstance(example, Encoder)
    return example.clone().fit(np.split(rows, 9))


def use(path: Path) -> None:
    """Load a model and compute something with it, on all that a command would touch."""
    rng = np.random.default_rng(3)
    model = persistence.load(path)
    if isinstance(model, Model):
        model.encode([rng.random((7, 128))])
        model.extractor.extract((255 * rng.random((40, 50))).astype(np.uint8))
    elif isinstance(model, Encoder):
        width = model.descriptor_dimension
        model.encode([rng.standard_normal((5, width)), np.zeros((0, width))])
    elif isinstance(model, ITQ):
        model.require_fitted()
        model.encode(rng.standard_normal((3, model.mean_.shape[0])))
    elif isinstance(model, Embedding):
        model.transform(rng.standard_normal((3, model.descriptor_dimension)))


def read(path: Path) -> tuple[Tree, Arrays]:
    with safe_open(path, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return json.loads(file.metadata()["model"]), arrays


def write(path: Path, tree: Any, arrays: Arrays, *, stored: dict[str, str] | None = None) -> None:
    """A file whose checksum and fingerprint fit its content; `stored` gives arrays another type of safetensors."""
    digests = {name: digest_of(array) for name, array in arrays.items()}
    header = {
        "format": persistence.FORMAT,
        "version": str(persistence.VERSION),
        "made_by": "0.1.0",
        "model": json.dumps(tree),
        "fingerprint": _fingerprint(tree, digests),
    }
    header["checksum"] = persistence._checksum(header, digests)
    path.write_bytes(_safetensors(header, arrays, stored or {}))


_NAMES = {"f2": "F16", "f4": "F32", "f8": "F64", "u1": "U8", "i1": "I8", "i8": "I64", "b1": "BOOL", "i4": "I32"}


def _safetensors(metadata: dict[str, str], arrays: Arrays, stored: dict[str, str]) -> bytes:
    content: dict[str, Any] = {"__metadata__": metadata}
    place, parts = 0, []
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize):
        raw = np.ascontiguousarray(array).tobytes()
        kind = stored.get(name, _NAMES[array.dtype.str[1:]])
        content[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [place, place + len(raw)]}
        place += len(raw)
        parts.append(raw)
    head = json.dumps(content).encode()
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + b"".join(parts)


def _fingerprint(tree: Any, digests: dict[str, str], prefix: str = "") -> str:
    """That of the component which a tree describes; nothing where there is none."""
    try:
        kind = Component.registry[tree["component"]]
        settings = {
            name: _fingerprint(value, digests, f"{prefix}{name}.")
            if isinstance(value, dict)
            else persistence._plain(value, name)
            for name, value in {**kind.baseline, **tree["settings"]}.items()
        }
        own = {name: digests[prefix + name] for name in kind.learned if prefix + name in digests}
        parts = {name: _fingerprint(part, digests, f"{prefix}{name}.") for name, part in tree["learned"].items()}
        content = {
            "component": tree["component"],
            "revision": kind.revision,
            "settings": {name: value for name, value in settings.items() if kind.baseline.get(name, math.nan) != value},
            "learned": own | parts,
        }
        text = json.dumps(content, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    except Exception:  # whatever was made of the tree
        return ""


# Mutations.

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 255, 2**31, 2**63, -(2**63), 10**30, 10**400),
    *(0.5, -0.5, 1e-300, 5e-324, 1e16, 1e308, -1e308, math.nan, math.inf, -math.inf),
    *("", "paper", "cpu", "cuda", "sum", "x" * 5000, "\x1b[2J", "\ud800", "1", "None"),
    *([], [1], [0.5, 2.0], [None], ["x"], [[[[1]]]], [1] * 1000, {}, {"component": "Nope"}),
)
_MOST_PARTS = 50
"""Trees with more have been nested already."""
KINDS = ("HessianAffine", "FeatureFiles", "ITQ", "Encoder", "Model", "Whitening", "VLAD", "FAemb", "CnnMap", "Network")


def mutate(source: Path, target: Path, rng: np.random.Generator) -> str:
    """Write a variant of a valid model with one to three changes; returns what was done."""
    tree, arrays = read(source)
    stored: dict[str, str] = {}
    done = []
    for _ in range(int(rng.integers(1, 4))):
        change = CHANGES[int(rng.integers(len(CHANGES)))]
        with np.errstate(all="ignore"):
            done.append(change(tree, arrays, stored, rng))
    write(target, tree, arrays, stored=stored)
    return "; ".join(done)


def _nodes(tree: Any) -> list[Tree]:
    """All components of a tree."""
    if not isinstance(tree, dict) or "settings" not in tree:
        return []
    places = [tree.get("settings"), tree.get("learned")]
    inner = [value for place in places if isinstance(place, dict) for value in place.values()]
    return [tree, *(node for value in inner for node in _nodes(value))]


def _some(choices: Any, rng: np.random.Generator) -> Any:
    listed = list(choices)
    return listed[int(rng.integers(len(listed)))] if listed else None


def _setting(tree: Tree, arrays: Arrays, stored: dict[str, str], rng: np.random.Generator) -> str:
    node = _some([each for each in _nodes(tree) if each.get("settings")], rng)
    if node is None:
        return "no setting"
    name, value = _some(node["settings"], rng), _some(VALUES, rng)
    old = node["settings"][name]
    if isinstance(old, int | float) and rng.random() < 0.3:
        value = old * float(rng.choice([-1.0, 0.5, 2.0, 1e6, 1e-6]))
    node["settings"][name] = value
    return f"{node.get('component')}.{name} = {value!r:.40}"


def _part(tree: Tree, arrays: Arrays, stored: dict[str, str], rng: np.random.Generator) -> str:
    """Another class, a part in the place of another, a setting or part that is missing, parts in parts."""
    nodes = _nodes(tree)
    node, other = _some(nodes, rng), _some(nodes[-2:], rng)
    if node is None or len(nodes) > _MOST_PARTS:
        return "no part"
    what = int(rng.integers(6))
    if what == 0:
        node["component"] = _some(KINDS, rng)
    elif what == 1:
        node["revision"] = _some(VALUES, rng)
    elif what == 2 and node["settings"]:
        node["settings"].pop(_some(node["settings"], rng))
    elif what == 3 and node["learned"]:
        node["learned"].pop(_some(node["learned"], rng))
    elif what == 4 and node["settings"]:
        node["settings"][_some(node["settings"], rng)] = deepcopy(other)
    else:
        inner = deepcopy(other)
        for _ in range(int(rng.integers(1, 400))):
            inner = {"component": "Encoder", "revision": 1, "settings": {"embedding": inner}, "learned": {}}
        node[_some(["settings", "learned"], rng)]["embedding"] = inner
    return f"part {what} of {node.get('component')}"


def _reshape(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    forms: list[Callable[[], np.ndarray]] = [
        lambda: array.T.copy(),
        lambda: array[None],
        lambda: array[..., None],
        lambda: array.reshape(-1),
        lambda: array[:-1],
        lambda: array[..., :-1],
        lambda: array[:0],
        lambda: array[..., :0],
        lambda: np.concatenate([array, array]),
        lambda: np.concatenate([array, array], axis=-1),
        lambda: np.array(1.0, np.float32),
    ]
    return _some(forms, rng)() if array.ndim else np.ones(3, np.float32)


def _revalue(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    changed = array.astype(np.float64)
    extreme = _some([0.0, -1.0, math.nan, math.inf, -math.inf, 1e-40, 1e10, 1e19, 3e38, -3e38, 1e300], rng)
    chosen = rng.random(array.shape) < float(rng.choice([0.1, 1.0]))
    return np.where(chosen, extreme, changed).astype(array.dtype)


def _array(tree: Tree, arrays: Arrays, stored: dict[str, str], rng: np.random.Generator) -> str:
    name = _some(arrays, rng)
    if name is None:
        return "no array"
    what = int(rng.integers(7))
    if what == 0:
        arrays[name] = _reshape(arrays[name], rng)
    elif what in (1, 2):
        arrays[name] = _revalue(arrays[name], rng)
    elif what == 3:
        kind = _some([np.float16, np.float64, np.int8, np.int64, np.int32, np.bool_, np.uint8], rng)
        arrays[name] = np.nan_to_num(arrays[name]).astype(kind)
    elif what == 4:
        array = arrays[name].astype(np.float16)
        arrays[name], stored[name] = array, _some(["BF16", "F16", "I16", "U16"], rng)
    elif what == 5:
        del arrays[name]
    else:
        arrays[_some([*arrays, "other_", "embedding_", "a.b.c_", ""], rng)] = arrays[name].copy()
    if stored.get(name) and (name not in arrays or arrays[name].dtype != np.float16):
        del stored[name]
    return f"array {what} {name}"


CHANGES = (_setting, _setting, _array, _array, _part)
