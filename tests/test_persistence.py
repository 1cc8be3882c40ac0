"""Models as files: what is saved comes back, its fingerprint names it, and saving is one step."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from jaxtyping import Float
from sklearn.base import clone

from backends import Backend
from faemb import (
    ITQ,
    TLCC,
    VLAD,
    VLAT,
    BoW,
    Collection,
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
from faemb import component as component_module
from faemb.arrays import to_numpy
from faemb.component import Component, digest_of
from faemb.embedding import Embedding
from faemb.errors import FaembError, FormatError, InputError
from faemb.persistence import fingerprint, load, save
from faemb.whitening import Moments
from recording import recording

WIDTH = 9

COMPONENTS: dict[str, Component] = {
    "bow": BoW(3),
    "vlad": VLAD(3, unit_residuals=True),
    "vlad-lcs": VLAD(3, local_axes=True),
    "vlat": VLAT(3),
    "temb": Triangulation(3),
    "fisher": Fisher(2),
    "tlcc": TLCC(3, mu=0.05),
    "faemb": FAemb(3, order=1),
    "ffaemb": FastFAemb(3, unit_residuals=True),
    "ffaemb-alternating": FastFAemb(3, anchor_learning="alternating"),
    "projection": Projection(4, unit_after=True),
    "whitening": Whitening(floor=1e-4, raise_last=1),
    "rotation": Rotation("whiten", max_axes=4),
    "itq": ITQ(8, iterations=3, seed=7),
    "encoder": Encoder(
        FastFAemb(2),
        projection=Projection(3),
        whitening=Whitening(discard=1),
        rotation=Rotation(max_axes=2),
        keep=7,
    ),
    "encoder-without-parts": Encoder(VLAD(2), pooling="sum", power=0.3),
}

# Any change of a setting that the component accepts, whatever its type.
CHANGES: dict[type, Callable[[Any], Any]] = {
    bool: lambda value: not value,
    int: lambda value: value + 1,
    float: lambda value: value * 1.5 + 1,
    str: lambda value: value + "x",
    type(None): lambda value: 5,  # a length, or what stands in for a part: only the fingerprint is asked
}


def fitted(component: Component, rng: np.random.Generator, backend: Backend) -> Component:
    """A copy, fitted as its kind is."""
    component = clone(component)
    rows = rng.standard_normal((80, WIDTH)) + 1
    if isinstance(component, Whitening):
        return component.fit(Moments.of(backend.array(rows)))
    if isinstance(component, Encoder):
        return component.fit(list(np.split(rows, 8))).to(backend.device)
    assert isinstance(component, Embedding | Projection | Rotation | ITQ)
    return component.fit(backend.array(rows))


@pytest.fixture(params=COMPONENTS, ids=str)
def component(request: pytest.FixtureRequest) -> Component:
    return clone(COMPONENTS[request.param])


@pytest.fixture
def whitening(rng: np.random.Generator) -> Whitening:
    return Whitening(floor=1e-4).fit(Moments.of(rng.standard_normal((30, 3))))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.faemb"


def assert_equal(found: Component, expected: Component) -> None:
    """The same kind, settings and learned arrays, to the last bit, in all parts."""
    assert type(found) is type(expected)
    assert found.is_fitted == expected.is_fitted
    arrays, parts = found.learned_arrays(), found.learned_parts()
    assert arrays.keys() == expected.learned_arrays().keys()
    assert parts.keys() == expected.learned_parts().keys()
    for name, array in expected.learned_arrays().items():
        assert arrays[name].dtype == to_numpy(array).dtype
        np.testing.assert_array_equal(arrays[name], to_numpy(array))
    for name, part in expected.learned_parts().items():
        assert_equal(parts[name], part)
    for name, value in expected.settings().items():
        given = getattr(found, name)
        if isinstance(value, Component):
            assert_equal(given, value)
        else:
            assert given == value


def all_arrays(component: Component) -> dict[str, np.ndarray]:
    """Copies of the learned arrays of a component and of its parts."""
    own = {name: to_numpy(array).copy() for name, array in component.learned_arrays().items()}
    nested = {
        f"{name}.{inner}": array
        for name, part in component.learned_parts().items()
        for inner, array in all_arrays(part).items()
    }
    return own | nested


# Round trips


def test_every_public_component_has_an_example_here() -> None:
    known = {name: kind.__module__ for name, kind in Component.registry.items()}
    elsewhere = ("faemb.features", "faemb.collection")  # tested with the extractors and with collections
    public = {name for name, home in known.items() if home.startswith("faemb.") and not home.startswith(elsewhere)}
    assert {type(example).__name__ for example in COMPONENTS.values()} == public - {"Embedding"}


def test_a_fitted_component_comes_back(
    component: Component, backend: Backend, rng: np.random.Generator, path: Path
) -> None:
    model = fitted(component, rng, backend)
    mark = save(model, path)
    loaded = load(path)
    assert loaded.is_fitted
    assert_equal(loaded, model)
    assert mark == fingerprint(model) == fingerprint(loaded)


def test_an_unfitted_component_comes_back_unfitted(component: Component, path: Path) -> None:
    save(component, path)
    loaded = load(path)
    assert not loaded.is_fitted
    assert_equal(loaded, component)


def test_a_loaded_encoder_gives_the_same_bits(rng: np.random.Generator, backend: Backend, path: Path) -> None:
    model = fitted(COMPONENTS["encoder"], rng, backend).to("cpu")
    assert isinstance(model, Encoder)
    save(model, path)
    images = [rng.standard_normal((n, WIDTH)) for n in (5, 0, 9)]
    np.testing.assert_array_equal(Encoder.load(path).encode(images), model.encode(images))


def test_a_fitted_part_of_an_unfitted_whole_comes_back(rng: np.random.Generator, path: Path) -> None:
    half = Encoder(VLAD(2), projection=Projection(3).fit(rng.standard_normal((20, 5))))
    save(half, path)
    loaded = load(path)
    assert isinstance(loaded, Encoder)
    assert not loaded.is_fitted
    assert loaded.projection is not None
    assert loaded.projection.is_fitted
    assert_equal(loaded, half)


def test_numpy_numbers_come_back_as_plain_ones(path: Path) -> None:
    save(Whitening().set_params(discard=np.int64(3), floor=np.float64(0.25), centre=np.bool_(False)), path)
    loaded = load(path)
    assert isinstance(loaded, Whitening)
    assert (loaded.discard, loaded.floor, loaded.centre) == (3, 0.25, False)
    assert (type(loaded.discard), type(loaded.floor), type(loaded.centre)) == (int, float, bool)


def test_a_setting_that_is_no_number_or_text_is_refused(path: Path) -> None:
    with pytest.raises(InputError, match="the setting floor is a set; only finite numbers, texts and components"):
        save(Whitening().set_params(floor={1}), path)
    assert not path.exists()


def test_lists_of_numbers_mean_the_same_as_tuples() -> None:
    assert fingerprint(Whitening().set_params(floor=(1, 2.5))) == fingerprint(Whitening().set_params(floor=[1, 2.5]))


def test_a_class_that_nothing_has_imported_yet_is_found(path: Path) -> None:
    save(ITQ(8), path)
    code = f"from faemb.persistence import load; print(load({str(path)!r}))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert "ITQ" in told.stdout


def test_saving_again_replaces_the_file(whitening: Whitening, path: Path) -> None:
    save(whitening, path)
    save(ITQ(8), path)
    assert_equal(load(path), ITQ(8))


def test_paths_may_be_texts(whitening: Whitening, path: Path) -> None:
    save(whitening, str(path))
    assert_equal(load(str(path)), whitening)


def test_a_path_without_a_folder_is_in_the_current_one(
    whitening: Whitening, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    save(whitening, path.name)
    assert_equal(load(path.name), whitening)


def test_saving_changes_nothing_in_the_model(
    component: Component, backend: Backend, rng: np.random.Generator, path: Path
) -> None:
    model = fitted(component, rng, backend)
    before = all_arrays(model)
    save(model, path)
    for name, array in all_arrays(model).items():
        np.testing.assert_array_equal(array, before[name])


# Fingerprints


def test_equal_models_have_equal_fingerprints(component: Component, backend: Backend, rng: np.random.Generator) -> None:
    state = rng.bit_generator.state
    first = fitted(component, rng, backend)
    rng.bit_generator.state = state
    again = fitted(component, rng, backend)
    assert fingerprint(first) == fingerprint(again)
    assert fingerprint(first) != fingerprint(component)


def test_the_fingerprint_does_not_depend_on_the_library(
    component: Component, rng: np.random.Generator, backend: Backend
) -> None:
    model = fitted(component, rng, backend)
    mark = fingerprint(model)
    assert fingerprint(model.to("cpu")) == mark
    assert fingerprint(model.to(backend.device)) == mark


def test_any_setting_changes_the_fingerprint(component: Component) -> None:
    settings = component.get_params(deep=True).items()
    plain = {name: value for name, value in settings if type(value) in CHANGES and name not in component.transient}
    changed = [clone(component).set_params(**{name: CHANGES[type(value)](value)}) for name, value in plain.items()]
    assert len({fingerprint(variant) for variant in [component, *changed]}) == 1 + len(plain)


def test_one_and_one_point_zero_are_the_same_setting() -> None:
    assert fingerprint(Encoder(VLAD(2), power=1)) == fingerprint(Encoder(VLAD(2), power=1.0))


def test_any_bit_of_any_array_changes_the_fingerprint(rng: np.random.Generator) -> None:
    model = Whitening(floor=1e-4).fit(Moments.of(rng.standard_normal((30, 3))))
    marks, changes = {fingerprint(model)}, 0
    for name in Whitening.learned:
        array = getattr(model, name)
        raw = bytearray(array.tobytes())
        for place in {0, len(raw) // 2, len(raw) - 1}:
            changed = raw.copy()
            changed[place] ^= 1
            setattr(model, name, np.frombuffer(bytes(changed), array.dtype).reshape(array.shape))
            marks.add(fingerprint(model))
            changes += 1
        setattr(model, name, array)
    assert len(marks) == 1 + changes


def test_shape_dtype_and_name_of_an_array_change_the_fingerprint(whitening: Whitening) -> None:
    def mark_with(**arrays: np.ndarray | None) -> str:
        variant = whitening.clone()
        for name, array in (whitening.learned_arrays() | arrays).items():
            setattr(variant, name, array)
        return fingerprint(variant)

    matrix = whitening.matrix_
    variants = [
        mark_with(),
        mark_with(matrix_=matrix.reshape(1, 9)),
        mark_with(matrix_=matrix.view(np.int32)),
        mark_with(matrix_=None),
        mark_with(matrix_=whitening.mean_, mean_=matrix),
    ]
    assert len(set(variants)) == len(variants)


def test_a_model_is_hashed_once_to_be_loaded_and_not_again(
    rng: np.random.Generator, backend: Backend, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model may have gigabytes; its fingerprint is made from the digests that reading it has computed."""
    mark = save(fitted(COMPONENTS["encoder"], rng, backend), path)
    hashed: list[Any] = []
    for module in (persistence, component_module):
        monkeypatch.setattr(module, "digest_of", recording(hashed.append, digest_of))
    loaded = load(path)
    assert fingerprint(loaded) == fingerprint(loaded.to(backend.device)) == fingerprint(deepcopy(loaded)) == mark
    assert len(hashed) == len(all_arrays(loaded))


# Models that outlive the code that made them


class _Ruler(Component):
    """Stands for any class of the package, at two moments of its history."""

    learned: ClassVar[tuple[str, ...]] = ("marks_",)
    marks_: np.ndarray

    def __init__(self, length: int = 1) -> None:
        self.length = length


class _LaterRuler(_Ruler):
    """The same class after a release: one setting more, by default with new behaviour."""

    baseline: ClassVar[Mapping[str, object]] = {"unit": "inch"}

    def __init__(self, length: int = 1, *, unit: str = "cm") -> None:
        super().__init__(length)
        self.unit = unit


class _WithMore(_Ruler):
    """The same class after it has learned to learn a second array."""

    learned: ClassVar[tuple[str, ...]] = ("marks_", "weights_")
    baseline: ClassVar[Mapping[str, object]] = {"weights_": None}
    marks_: Float[np.ndarray, " n"]
    weights_: Float[np.ndarray, " n"] | None = None


class _WithMoreUndeclared(_WithMore):
    """The same, by someone who has forgotten the rule."""

    baseline: ClassVar[Mapping[str, object]] = {}


_Ruler.__name__ = _LaterRuler.__name__ = _WithMore.__name__ = _WithMoreUndeclared.__name__ = "Ruler"


@pytest.fixture
def known_as_ruler(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Component]], None]:
    """Lets the package know one of these classes under the name Ruler, as if it had been released."""

    return lambda kind: monkeypatch.setitem(Component.registry, "Ruler", kind)


def old_ruler() -> Component:
    ruler = _Ruler(3)
    ruler.marks_ = np.arange(3.0)
    return ruler


def test_a_setting_that_is_added_later_changes_no_saved_model(
    known_as_ruler: Callable[[type[Component]], None], path: Path
) -> None:
    known_as_ruler(_Ruler)
    mark = save(old_ruler(), path)
    known_as_ruler(_LaterRuler)
    loaded = load(path)
    assert isinstance(loaded, _LaterRuler)
    assert loaded.unit == "inch"  # the old behaviour, not the new default
    assert fingerprint(loaded) == mark
    assert fingerprint(loaded.set_params(unit="cm")) != mark


def test_an_array_that_is_learned_later_changes_no_saved_model(
    known_as_ruler: Callable[[type[Component]], None], path: Path
) -> None:
    known_as_ruler(_Ruler)
    mark = save(old_ruler(), path)
    known_as_ruler(_WithMore)
    loaded = load(path)
    assert isinstance(loaded, _WithMore)
    assert loaded.weights_ is None
    assert loaded.is_fitted
    assert fingerprint(loaded) == mark
    assert save(loaded.to("cpu"), path) == mark


def test_an_array_that_is_learned_later_is_saved_and_checked(
    known_as_ruler: Callable[[type[Component]], None], path: Path
) -> None:
    known_as_ruler(_WithMore)
    ruler = _WithMore(3)
    ruler.marks_, ruler.weights_ = np.arange(3.0), np.ones(3)
    mark = save(ruler, path)
    loaded = load(path)
    assert isinstance(loaded, _WithMore)
    np.testing.assert_array_equal(loaded.weights_, np.ones(3))
    assert fingerprint(loaded) == mark
    ruler.weights_ = np.ones(2)
    save(ruler, path)
    with pytest.raises(FormatError, match=r"the array weights_ has shape \(2,\); expected \(3\)"):
        load(path)
    known_as_ruler(_Ruler)
    with pytest.raises(FormatError, match="reads it differently"):
        load(path)


def test_an_array_without_a_baseline_is_missed(known_as_ruler: Callable[[type[Component]], None], path: Path) -> None:
    known_as_ruler(_Ruler)
    save(old_ruler(), path)
    known_as_ruler(_WithMoreUndeclared)
    with pytest.raises(FormatError):
        load(path)


def test_a_setting_that_this_version_does_not_have_is_a_newer_versions(
    known_as_ruler: Callable[[type[Component]], None], path: Path
) -> None:
    known_as_ruler(_LaterRuler)
    save(_LaterRuler(3, unit="cm"), path)
    known_as_ruler(_Ruler)
    with pytest.raises(
        FormatError, match=r"made by a newer faemb, \S+ \(its Ruler has 'unit'\); pip install --upgrade"
    ):
        load(path)


@pytest.mark.parametrize(
    ("written", "known", "message"),
    [
        (2, 1, r"made by a newer faemb, .*revision 2, here 1\); pip install --upgrade faemb"),
        (
            1,
            2,
            r"made by faemb .*computes other numbers: revision 1, here 2\); fit again, or use: pip install .faemb==",
        ),
    ],
    ids=["newer", "older"],
)
def test_another_revision_is_refused_with_the_version_that_reads_it(
    known_as_ruler: Callable[[type[Component]], None],
    monkeypatch: pytest.MonkeyPatch,
    path: Path,
    written: int,
    known: int,
    message: str,
) -> None:
    known_as_ruler(_Ruler)
    monkeypatch.setattr(_Ruler, "revision", written)
    mark = save(old_ruler(), path)
    monkeypatch.setattr(_Ruler, "revision", known)
    with pytest.raises(FormatError, match=message):
        load(path)
    assert fingerprint(old_ruler()) != mark


# What is in the file


def test_the_file_is_json_and_raw_arrays_and_nothing_else(whitening: Whitening, path: Path) -> None:
    """Every byte is accounted for, so there is no place for a pickle."""
    save(whitening, path)
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    data = raw[8 + size :]
    metadata = header.pop("__metadata__")
    assert metadata.keys() == {"format", "version", "made_by", "model", "fingerprint", "checksum"}
    assert json.loads(metadata["model"])["component"] == "Whitening"
    assert header.keys() == set(Whitening.learned)
    for name, entry in header.items():
        start, stop = entry["data_offsets"]
        assert data[start:stop] == getattr(whitening, name).tobytes()
    assert sum(stop - start for start, stop in (entry["data_offsets"] for entry in header.values())) == len(data)


def test_the_file_follows_the_umask(whitening: Whitening, path: Path) -> None:
    for mask, expected in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
        old = os.umask(mask)
        try:
            save(whitening, path)
        finally:
            os.umask(old)
        assert path.stat().st_mode & 0o777 == expected


# Saving in one step


def half_written(arrays: Any, path: Path, metadata: Any) -> None:
    Path(path).write_bytes(b"half")
    raise OSError(28, "No space left on device")


def interrupted(arrays: Any, path: Path, metadata: Any) -> None:
    Path(path).write_bytes(b"half")
    raise KeyboardInterrupt


@pytest.mark.parametrize("failure", [half_written, interrupted])
def test_a_failure_while_writing_leaves_the_old_file(
    whitening: Whitening, path: Path, monkeypatch: pytest.MonkeyPatch, failure: Callable[..., None]
) -> None:
    save(whitening, path)
    monkeypatch.setattr(persistence, "save_file", failure)
    with pytest.raises((FaembError, KeyboardInterrupt)):
        save(ITQ(8), path)
    assert_equal(load(path), whitening)
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_while_renaming_leaves_the_old_file(
    whitening: Whitening, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    save(whitening, path)
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(FaembError, match="Input/output error"):
        save(ITQ(8), path)
    monkeypatch.undo()
    assert_equal(load(path), whitening)
    assert list(path.parent.iterdir()) == [path]


def test_saving_leaves_nothing_beside_the_file(whitening: Whitening, path: Path) -> None:
    save(whitening, path)
    assert list(path.parent.iterdir()) == [path]


def test_saving_into_a_missing_folder_is_explained(whitening: Whitening, tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "model.faemb"
    with pytest.raises(InputError, match=f"the folder {re.escape(str(target.parent))} does not exist; make it first"):
        save(whitening, target)
    assert list(tmp_path.iterdir()) == []


def test_saving_over_a_folder_is_explained(whitening: Whitening, tmp_path: Path) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    with pytest.raises(InputError, match=re.escape(str(target))):
        save(whitening, target)
    assert list(tmp_path.iterdir()) == [target]


def test_loading_something_else_as_an_encoder_is_explained(whitening: Whitening, path: Path) -> None:
    save(whitening, path)
    with pytest.raises(FormatError, match="holds a Whitening, not an Encoder"):
        Encoder.load(path)


def test_a_collection_is_named_as_what_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "photos.faemb"
    Collection.create(folder, Model(HessianAffine(), Encoder(FastFAemb(2)))).close()
    for kind in (Encoder, Model):
        with pytest.raises(FormatError, match=r"photos\.faemb is a collection; open it with faemb\.Collection\.open$"):
            kind.load(folder)
