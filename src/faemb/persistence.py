"""Saves a component as one file: safetensors for the learned arrays, JSON for the settings, never pickle.

The JSON is stored in the header of the safetensors file, which is written atomically:

    format, version     name and version of this file format
    made_by             the version of faemb that wrote it
    model               the tree of components: class, revision, settings, learned parts
    fingerprint         the identity of the component
    checksum            checksum of all of the above and of every array

The checksum ensures *integrity*: it covers the stored bytes and is verified on reading, before any component is built.
The fingerprint is the *identity*: components with equal fingerprints compute equal vectors. It covers the class and its
`revision`, the settings that differ from the class's `baseline`, and the learned arrays. A setting that is missing in a
file gets its baseline value, so that a model keeps its identity when a class gains a setting. docs/formats.md states
the rules.

A matching checksum does not make the content valid, since anyone may have written the file: types and values of
settings, and types and shapes of arrays, are checked against the annotations of each class (declared.py) and by its
`check_loaded`.
"""

import hashlib
import json
import math
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from faemb import persistence_version_1
from faemb.arrays import to_numpy
from faemb.component import Component, digest_of
from faemb.declared import (
    Hint,
    learned_hints,
    require_declared,
    require_declared_arrays,
    require_part,
    setting_hints,
)
from faemb.errors import DamagedModelError, FaembError, FormatError, InputError, OtherNumbersError, reason
from faemb.runtime.storage import is_collection, replacing, require_replaceable
from faemb.settings import shown

FORMAT = "faemb-model"
VERSION = 2
_TEXTS = ("format", "version", "made_by", "model", "fingerprint")
_NEEDED = {"1": {"model", "fingerprint"}, "2": {*_TEXTS, "checksum"}}
_STORED = ("F32", "F64", "U8")
"""Types of arrays by their names in safetensors files."""
_LONGEST_VERSION = 40
_RESTORE = "restore it or fit again"

Tree = dict[str, Any]
_TREE = {"component": str, "revision": int, "settings": dict, "learned": dict}


class _NewerError(Exception):
    """The file holds a class, revision or setting that this version does not have."""


class _RevisionError(Exception):
    """The file holds a component whose results this version computes differently."""


def save(component: Component, path: str | os.PathLike[str], *, overwrite: bool = False) -> str:
    """Write `component`, fitted or not, replacing `path` in one step; returns the fingerprint.

    An existing file that is not a model of this package is replaced only with `overwrite`.
    """
    require_replaceable(path, is_model, overwrite=overwrite)
    arrays: dict[str, np.ndarray] = {}
    digests: dict[str, str] = {}
    tree = _describe(component, "", arrays, digests)
    header = {
        "format": FORMAT,
        "version": str(VERSION),
        "made_by": import_module("faemb").__version__,
        "model": json.dumps(tree),
        "fingerprint": fingerprint(component),
    }
    header["checksum"] = _checksum(header, digests)
    try:
        with replacing(path) as temporary:
            save_file(arrays, temporary, metadata=header)
    except SafetensorError as error:
        raise FaembError(f"cannot write {path}: {error}") from error
    return header["fingerprint"]


def is_model(path: Path) -> bool:
    """Whether a file was written by `save`, by its header."""
    try:
        with safe_open(path, framework="numpy") as file:
            return (file.metadata() or {}).get("format") == FORMAT
    except (SafetensorError, OSError):
        return False


def load(path: str | os.PathLike[str]) -> Component:
    """Read a file written by `save` as NumPy arrays; move the component with `.to("cuda")`."""
    header, arrays = _read(Path(path))
    if header["version"] == "1":
        return _load_version_1(header, arrays, path)
    digests = {name: digest_of(array) for name, array in arrays.items()}
    if header["checksum"] != _checksum(header, digests):
        raise _damaged(path)
    component = _built(header, arrays, digests, path)
    if arrays or fingerprint(component) != header["fingerprint"]:
        raise _of_another_version(
            header, f"{path} was made by faemb {_made_by(header)}, and this version reads it differently"
        )
    return component


def _load_version_1(header: dict[str, str], arrays: dict[str, np.ndarray], path: str | os.PathLike[str]) -> Component:
    """Version 1 computed fingerprints differently, so they cannot be compared with those of this version."""
    try:
        tree = json.loads(header["model"])
        if not persistence_version_1.is_whole(tree, arrays, header["fingerprint"]):
            raise _damaged(path)
        tree, arrays = persistence_version_1.upgraded(tree, arrays)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise _damaged(path) from error
    digests = {name: digest_of(array) for name, array in arrays.items()}
    return _built({"made_by": "0.1.0.dev0", "model": json.dumps(tree)}, arrays, digests, path)


def _built(
    header: dict[str, str], arrays: dict[str, np.ndarray], digests: dict[str, str], path: str | os.PathLike[str]
) -> Component:
    """Build the component, and convert every error to a FormatError; removes its arrays from `arrays`."""
    try:
        return _build(json.loads(header["model"]), arrays, digests, "", Any)
    except _NewerError as error:
        raise FormatError(
            f"{path} was made by a newer faemb, {_made_by(header)} ({reason(error)}); pip install --upgrade faemb"
        ) from error
    except _RevisionError as error:
        raise _of_another_version(header, f"{path} was made by faemb {_made_by(header)} ({reason(error)})") from error
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, FaembError) as error:
        raise _senseless(path, reason(error)) from error


def fingerprint(component: Component) -> str:
    """Hash of settings, learned arrays and revisions: components with equal fingerprints compute equal vectors."""
    settings = {
        name: fingerprint(value) if isinstance(value, Component) else _plain(value, name)
        for name, value in component.settings().items()
    }
    content = {
        "component": type(component).__name__,
        "revision": component.revision,
        "settings": {name: value for name, value in settings.items() if not _is_baseline(component, name, value)},
        "learned": component.digests() | {name: fingerprint(part) for name, part in component.learned_parts().items()},
    }
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


# Settings without what was learned.


def settings_tree(component: Component) -> Tree:
    """The classes and settings of a component and its parts, from which `unfitted` makes it again."""
    return _describe(component.clone(), "", {}, {})


def unfitted(tree: Tree, *, unchanged: Collection[str] = ()) -> Component:
    """The component of a tree, without what it has learned.

    Since it is to be fitted again, its classes may have had earlier revisions, but not those of the parts `unchanged`.
    """
    bare = _without_learned(tree)
    fresh = _in_this_revision(bare)
    kept = {name: bare["settings"][name] for name in unchanged}
    try:
        return _build({**fresh, "settings": {**fresh["settings"], **kept}}, {}, {}, "", Any)
    except (_NewerError, _RevisionError, InputError) as error:
        raise FormatError(f"the settings of the model cannot be used here: {reason(error)}") from error


def stated_settings(path: Path) -> Tree | None:
    """The settings in the header of a model file, not verified; None if they cannot be read."""
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
        return _without_learned(json.loads(header["model"])) if header["version"] == str(VERSION) else None
    except (OSError, SafetensorError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def _without_learned(tree: Tree) -> Tree:
    settings = {
        name: _without_learned(value) if isinstance(value, dict) else value for name, value in tree["settings"].items()
    }
    return {**tree, "settings": settings, "learned": {}}


def _in_this_revision(tree: Tree) -> Tree:
    """With the revisions that the classes have here; later ones stay, and are refused."""
    settings = {
        name: _in_this_revision(value) if isinstance(value, dict) else value for name, value in tree["settings"].items()
    }
    here = _registered(tree["component"])
    return {**tree, "revision": max(tree["revision"], 0 if here is None else here.revision), "settings": settings}


def _is_baseline(component: Component, name: str, value: Any) -> bool:
    return name in component.baseline and _plain(component.baseline[name], name) == value


def _checksum(header: dict[str, str], digests: dict[str, str]) -> str:
    content = [*(header[name] for name in _TEXTS), *(f"{name} {digests[name]}" for name in sorted(digests))]
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


# Components as trees.


def _describe(component: Component, prefix: str, arrays: dict[str, np.ndarray], digests: dict[str, str]) -> Tree:
    """The tree of a component; learned arrays are added to `arrays` and `digests`, under dotted names."""
    own_digests = component.digests()
    for name, array in component.learned_arrays().items():
        arrays[prefix + name] = np.ascontiguousarray(to_numpy(array))
        digests[prefix + name] = own_digests[name]
    parts = component.learned_parts()
    return {
        "component": type(component).__name__,
        "revision": component.revision,
        "settings": {
            name: _describe(value, f"{prefix}{name}.", arrays, digests)
            if isinstance(value, Component)
            else _plain(value, name)
            for name, value in component.settings().items()
        },
        "learned": {name: _describe(part, f"{prefix}{name}.", arrays, digests) for name, part in parts.items()},
    }


def _plain(value: Any, name: str) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() else value  # 1 and 1.0 are the same setting
    if isinstance(value, list | tuple):
        return [_plain(part, name) for part in value]
    raise InputError(
        f"the setting {name} is a {type(value).__name__}; only finite numbers, texts and components can be saved"
    )


def _build(tree: Tree, arrays: dict[str, np.ndarray], digests: dict[str, str], prefix: str, hint: Hint) -> Component:
    """Build the component of a tree, whose class `hint` must allow; removes its arrays from `arrays`."""
    with _in_part(prefix):
        if not isinstance(tree, dict) or any(not isinstance(tree.get(name), form) for name, form in _TREE.items()):
            raise InputError(f"it is {shown(tree)}; expected {', '.join(_TREE)} of a component")
    kind = _kind(tree["component"], tree["revision"])
    with _in_part(prefix):
        require_part("it", kind, hint)  # before its parts are built: no class contains itself, so nesting is bounded
    unknown = sorted({*tree["settings"], *tree["learned"]} - {*kind.setting_names(), *kind.learned})
    if unknown:
        raise _NewerError(f"its {kind.__name__} has {unknown[0]!r}")
    hints = {**dict.fromkeys((*kind.setting_names(), *kind.learned), Any), **setting_hints(kind), **learned_hints(kind)}
    settings = {
        name: _build(value, arrays, digests, f"{prefix}{name}.", hints[name]) if isinstance(value, dict) else value
        for name, value in tree["settings"].items()
    }
    with _in_part(prefix):
        for name, value in settings.items():
            require_declared(name, value, hints[name])
    older = {name: value for name, value in kind.baseline.items() if name not in kind.learned}
    component = kind(**{**older, **settings})
    for name in kind.learned:
        if name in kind.baseline:
            setattr(component, name, kind.baseline[name])  # unless the file has it
        if name in tree["learned"]:
            part = _build(tree["learned"][name], arrays, digests, f"{prefix}{name}.", hints[name])
            setattr(component, name, part)
        elif prefix + name in arrays:
            component.set_learned(name, arrays.pop(prefix + name), digests[prefix + name])
    with _in_part(prefix):
        require_declared_arrays(component)
        component.check_loaded()
    return component


@contextmanager
def _in_part(prefix: str) -> Iterator[None]:
    """Add the name of the part to errors."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{prefix.removesuffix('.')}: {error}" if prefix else str(error)) from error


def _kind(name: str, revision: int) -> type[Component]:
    """The class of this name, which must have this revision."""
    kind = _registered(name)
    if kind is None:
        raise _NewerError(f"it holds a {name!r}")
    if revision > kind.revision:
        raise _NewerError(f"its {name} has revision {revision}, here {kind.revision}")
    if revision < kind.revision:
        raise _RevisionError(f"its {name} computes other numbers: revision {revision}, here {kind.revision}")
    return kind


def _registered(name: str) -> type[Component] | None:
    """The class of this name, if there is one; imports all public modules if it is not registered yet."""
    if name not in Component.registry:
        package = import_module("faemb")
        for public in package.__all__:
            getattr(package, public)
    return Component.registry.get(name)


# Files.


def _read(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    try:
        if not path.is_file():
            raise _missing(path)
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            _check(header, path)
            return header, {name: _array(file, name, path) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise DamagedModelError(f"{path} is not a faemb model, or is cut short ({error})", _RESTORE) from error
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}") from error


def _array(file: Any, name: str, path: Path) -> np.ndarray:
    """Read an array; raises an error for types that no model has, such as BF16."""
    stored = file.get_slice(name).get_dtype()
    if stored not in _STORED:
        raise _senseless(path, f"the array {name} has type {stored}; expected {', '.join(_STORED)}")
    array: np.ndarray = file.get_tensor(name)
    return array


def _check(header: dict[str, str], path: Path) -> None:
    if header.get("format") != FORMAT or "version" not in header:
        raise DamagedModelError(f"{path} is a safetensors file of something else, not a faemb model", _RESTORE)
    version = header["version"]
    if version not in _NEEDED:
        fault = f"{path} has format version {version}; this faemb reads up to {VERSION}"
        if version.isdecimal():
            raise FormatError(f"{fault}: pip install --upgrade faemb")
        raise DamagedModelError(fault, _RESTORE)
    if not _NEEDED[version] <= header.keys():
        raise _damaged(path)


def _missing(path: Path) -> FormatError:
    if is_collection(path):
        return FormatError(f"{path} is a collection; open it with faemb.Collection.open")
    return DamagedModelError(f"no model at {path}", f"make one with: faemb fit IMAGES --out {path}")


def _damaged(path: str | os.PathLike[str]) -> DamagedModelError:
    return DamagedModelError(f"{path} is damaged: its contents do not match its checksum", _RESTORE)


def _senseless(path: str | os.PathLike[str], fault: str) -> DamagedModelError:
    return DamagedModelError(
        f"{path} does not hold a model ({fault}); it is damaged or was not made by faemb", _RESTORE
    )


def _of_another_version(header: dict[str, str], fault: str) -> OtherNumbersError:
    made_by = _made_by(header)
    return OtherNumbersError(fault, f"fit again, or use: {install_command(made_by)}", made_by)


def _made_by(header: dict[str, str]) -> str:
    return header["made_by"][:_LONGEST_VERSION]


def install_command(version: str) -> str:
    """The command that installs this version of faemb."""
    return f'pip install "faemb=={version}"'
