"""Models: settings and arrays that make no sense, under a checksum and a fingerprint that fit them."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file
from tools.fuzz.kind import Damage, Kind, Way
from tools.fuzz.odd import odd_value, tree_text

from faemb import (
    Encoder,
    FAemb,
    FastFAemb,
    Fisher,
    Model,
    Projection,
    Rotation,
    Triangulation,
    Whitening,
    persistence,
)
from faemb.component import Component, digest_of
from faemb.features import HessianAffine

Rng = np.random.Generator
DIMENSION = 6
FILE = "model.faemb"


class Models(Kind):
    name = "models"

    def prepare(self, folder: Path) -> None:
        sets = list(np.random.default_rng(0).standard_normal((30, 12, DIMENSION)).astype(np.float32))
        for number, model in enumerate(_new_models()):
            target = folder / f"{number}"
            target.mkdir()
            model.fit(sets).save(target / FILE)
        (folder / "unfitted").mkdir()
        Model(HessianAffine(), Encoder(FastFAemb(2))).save(folder / "unfitted" / FILE)

    def ways(self, victim: Path) -> Sequence[Way]:
        return settings_changed, settings_changed, arrays_changed, tree_changed

    def read(self, folder: Path) -> None:
        model = persistence.load(folder / FILE)
        repr(model)
        if not isinstance(model, Encoder | Model):
            return
        if isinstance(model, Model):
            model.extractor.check_settings()
        sets = list(np.random.default_rng(1).standard_normal((2, 5, DIMENSION)).astype(np.float32))
        vectors = model.encode([*sets, np.zeros((0, DIMENSION), np.float32)])
        if len(vectors) != 3:
            raise Damage("not one vector for each image")


def _new_models() -> Iterator[Encoder | Model]:
    plain = Encoder(FastFAemb(2, unit_residuals=True), projection=Projection(4, unit_after=True), whitening=Whitening())
    yield plain
    yield Encoder(FAemb(3), rotation=Rotation("whiten"), whitening=Whitening(discard=2), keep=8)
    yield Encoder(Triangulation(3), whitening=Whitening(), pooling="sum")
    yield Encoder(Fisher(2), pooling="sum")
    yield Model(HessianAffine(max_features=20), plain.clone())


def settings_changed(path: Path, rng: Rng) -> None:
    """One to three settings anywhere in the tree have odd values, or are parts that belong elsewhere."""
    model = persistence.load(path)
    parts = list(_parts(model))
    for _ in range(int(rng.integers(1, 4))):
        part = parts[int(rng.integers(len(parts)))]
        names = part.setting_names()
        if names:
            value = parts[int(rng.integers(len(parts)))] if rng.random() < 0.2 else odd_value(rng)
            setattr(part, names[int(rng.integers(len(names)))], value)
    _save(model, path)


def arrays_changed(path: Path, rng: Rng) -> None:
    """A learned array has another type, another shape, or odd numbers."""
    model = persistence.load(path)
    arrays = [(part, name) for part in _parts(model) for name in part.learned_arrays()]
    if arrays:
        part, name = arrays[int(rng.integers(len(arrays)))]
        setattr(part, name, _odd_array(np.asarray(getattr(part, name)), rng))
    _save(model, path)


def tree_changed(path: Path, rng: Rng) -> None:
    """The tree of components itself: classes, revisions, parts that are missing or repeated."""
    with safe_open(path, framework="numpy") as file:
        header, arrays = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    header["model"] = tree_text(json.loads(header["model"]), rng)
    digests = {name: digest_of(array) for name, array in arrays.items()}
    header["checksum"] = persistence._checksum(header, digests)
    save_file(arrays, path, metadata=header)


def _save(model: Component, path: Path) -> None:
    """A value that cannot be saved, or a part inside itself, leaves the file as it was."""
    with suppress(Exception):
        persistence.save(model, path, overwrite=True)


def _parts(component: Component) -> Iterator[Component]:
    yield component
    inner: list[Any] = [*component.settings().values(), *component.learned_parts().values()]
    for part in inner:
        if isinstance(part, Component):
            yield from _parts(part)


def _odd_array(array: np.ndarray, rng: Rng) -> np.ndarray:
    odd = (np.nan, np.inf, 1e308, 1e-320, 0, -1)[int(rng.integers(6))]
    changed = np.array(array, dtype=np.float64 if array.dtype.kind == "f" else array.dtype)
    if changed.size and changed.dtype.kind == "f":
        changed.flat[int(rng.integers(changed.size))] = odd
    made = (
        changed,
        np.full_like(changed, odd) if changed.dtype.kind == "f" else changed,
        array[..., :-1] if array.ndim else array,
        array[:-1] if array.ndim else array,
        array[None],
        array.ravel(),
        array.T,
        np.repeat(array, 2, axis=0) if array.ndim else array,
        np.zeros((0, *array.shape[1:]), array.dtype),
        array.astype((np.float16, np.int8, np.int64, np.bool_, np.uint16)[int(rng.integers(5))]),
    )
    return made[int(rng.integers(len(made)))]
