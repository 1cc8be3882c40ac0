"""A fitted component as one file: safetensors for the learned arrays, JSON for the settings, never pickle.

The JSON lies in the file's own header, so a model is always one file that is renamed into place when complete. It
names this format and its version, the tree of components with their settings, and a fingerprint of settings and
arrays together, which is checked on loading: a file that was cut, changed or made by something else is refused.
"""

import hashlib
import json
import math
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from faemb.arrays import to_numpy
from faemb.component import Component
from faemb.errors import FaembError, FormatError, InputError
from faemb.runtime.storage import replacing

FORMAT = "faemb-model"
VERSION = 1

Tree = dict[str, Any]


def save(component: Component, path: str | os.PathLike[str]) -> str:
    """Write `component`, fitted or not, replacing `path` in one step; returns the fingerprint."""
    tree, arrays = describe(component)
    mark = fingerprint_of(tree, arrays)
    header = {"format": FORMAT, "version": str(VERSION), "fingerprint": mark, "model": json.dumps(tree)}
    try:
        with replacing(path) as temporary:
            _write(arrays, header, temporary)
    except SafetensorError as error:
        raise FaembError(f"cannot write {path}: {error}") from error
    return mark


def load(path: str | os.PathLike[str]) -> Component:
    """Read what `save` wrote, on the host; move it with `.to("cuda")`."""
    header, arrays = _read(Path(path))
    mark = header["fingerprint"]
    try:
        tree = json.loads(header["model"])
        if _is_old_model(tree) and fingerprint_of(tree, arrays) == mark:
            tree, arrays = _without_codes(tree, arrays)
            mark = fingerprint_of(tree, arrays)
        component = _build(tree, arrays, "")
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, FaembError) as error:
        raise FormatError(
            f"{path} is damaged, or does not fit this version of faemb ({_line(error)}); restore it or fit again"
        ) from error
    # What was built describes itself again: a setting or an array too few, too many or changed shows here.
    if fingerprint(component) != mark:
        raise FormatError(f"{path} is damaged: its contents do not match its fingerprint; restore it or fit again")
    return component


def fingerprint(component: Component) -> str:
    """A name for exactly these settings and these learned arrays: equal fingerprints, equal vectors."""
    return fingerprint_of(*describe(component))


def describe(component: Component) -> tuple[Tree, dict[str, np.ndarray]]:
    """The settings as a JSON tree, and the learned arrays under dotted names."""
    arrays: dict[str, np.ndarray] = {}
    return _describe(component, "", arrays), arrays


def fingerprint_of(tree: Tree, arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.blake2b(json.dumps(tree, sort_keys=True).encode(), digest_size=16)
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _describe(component: Component, prefix: str, arrays: dict[str, np.ndarray]) -> Tree:
    for name, array in component.learned_arrays().items():
        arrays[prefix + name] = np.ascontiguousarray(to_numpy(array))
    settings: Tree = {}
    for name, value in component.settings().items():
        nested = isinstance(value, Component)
        settings[name] = _describe(value, f"{prefix}{name}.", arrays) if nested else _plain(value, name)
    tree = {"component": type(component).__name__, "settings": settings}
    parts = component.learned_parts().items()
    learned = {name: _describe(part, f"{prefix}{name}.", arrays) for name, part in parts}
    return tree | {"learned": learned} if learned else tree


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


def _read(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    try:
        if not path.is_file():
            raise FormatError(f"no model at {path}; expected a file that faemb has saved")
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            _check(header, path)
            return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise FormatError(f"{path} is not a faemb model, or is cut short ({error}); restore it or fit again") from error
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}") from error


def _check(header: dict[str, str], path: Path) -> None:
    if header.get("format") != FORMAT or not {"version", "fingerprint", "model"} <= header.keys():
        raise FormatError(f"{path} is a safetensors file of something else, not a faemb model")
    if header["version"] not in {str(version) for version in range(1, VERSION + 1)}:
        raise FormatError(
            f"{path} has format version {header['version']}; this faemb reads up to {VERSION}: "
            "pip install --upgrade faemb"
        )


def _build(tree: Tree, arrays: dict[str, np.ndarray], prefix: str) -> Component:
    kind = _kind(tree["component"])
    settings = {
        name: _build(value, arrays, f"{prefix}{name}.") if isinstance(value, dict) else value
        for name, value in tree["settings"].items()
    }
    component = kind(**settings)
    for name in kind.learned:
        if prefix + name in arrays:
            setattr(component, name, arrays[prefix + name])
    for name, part in tree.get("learned", {}).items():
        setattr(component, name, _build(part, arrays, f"{prefix}{name}."))
    return component


def _is_old_model(tree: Tree) -> bool:
    return tree["component"] == "Model" and "rotation" in tree["settings"]


def _without_codes(tree: Tree, arrays: dict[str, np.ndarray]) -> tuple[Tree, dict[str, np.ndarray]]:
    """A model that had short vectors and codes as parts, and whose encoder was fitted in place."""
    settings = {name: tree["settings"][name] for name in ("encoder", "extractor", "shrink")}
    encoder = settings["encoder"]["settings"]
    encoder["pooling"] = {"exact": "democratic", "clipped": "sinkhorn"}.get(encoder["pooling"], encoder["pooling"])
    learned = {name: array for name, array in arrays.items() if name.startswith("encoder.")}
    kept = {name: array for name, array in arrays.items() if name.startswith("extractor.")}
    moved = {name.replace("encoder.", "encoder_.", 1): array for name, array in learned.items()}
    fitted = {"learned": {"encoder_": settings["encoder"]}} if learned else {}
    return {"component": "Model", "settings": settings} | fitted, kept | moved


def _kind(name: str) -> type[Component]:
    """The class of this name; the package's modules are imported when first used, so it may not be there yet."""
    if name not in Component.registry:
        package = import_module("faemb")
        for public in package.__all__:
            getattr(package, public)
    if name not in Component.registry:
        raise FormatError(f"it holds a {name!r}, which this version of faemb does not know")
    return Component.registry[name]


def _write(arrays: dict[str, np.ndarray], header: dict[str, str], path: Path) -> None:
    path.touch()
    mode = path.stat().st_mode  # what the umask allows; safetensors would leave the file to its owner alone
    save_file(arrays, path, metadata=header)
    path.chmod(mode)


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
