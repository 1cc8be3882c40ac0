"""Files that are not a model, or not any more: each is refused in one sentence that names it."""

import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
import pytest
from safetensors.numpy import save_file

from faemb import VLAT, Encoder, FastFAemb, HessianAffine, Projection, Rotation, Whitening, persistence
from faemb.component import Component, digest_of
from faemb.errors import FormatError, InputError
from faemb.persistence import fingerprint, load, save
from faemb.whitening import Moments
from model_mutations import write


@pytest.fixture
def whitening(rng: np.random.Generator) -> Whitening:
    return Whitening(floor=1e-4).fit(Moments.of(rng.standard_normal((30, 3))))


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files as users meet them: without the run-time check of types that the tests add."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.faemb"


def assert_refused(path: Path, because: str = "") -> None:
    """One sentence, on one line, that names the file, and no other kind of error."""
    with pytest.raises(FormatError) as caught:
        load(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert re.search(because, message), message


def parts_of(component: Component) -> tuple[Any, dict[str, np.ndarray]]:
    """What `save` would write: the tree and the arrays."""
    arrays: dict[str, np.ndarray] = {}
    return persistence._describe(component, "", arrays, {}), arrays


def forge(path: Path, tree: Any, *, arrays: dict[str, np.ndarray] | None = None, **header: str) -> None:
    """A file with this tree, or this text in its place, under a checksum that fits it."""
    arrays = arrays or {}
    complete = {
        "format": persistence.FORMAT,
        "version": str(persistence.VERSION),
        "made_by": "0.1.0",
        "model": tree if isinstance(tree, str) else json.dumps(tree),
        "fingerprint": "",
    } | header
    digests = {name: digest_of(array) for name, array in arrays.items()}
    complete.setdefault("checksum", persistence._checksum(complete, digests))
    save_file(arrays, path, metadata=complete)


SENSELESS: dict[str, tuple[str, Any, str]] = {
    "no-tolerance": ("tolerance", None, "tolerance is None; expected a finite number"),
    "nan": ("power", math.nan, "power is nan; expected a finite number"),
    "infinite": ("whitening_rows", math.inf, "whitening_rows is inf; expected a finite number"),
    "huge": ("power", 10**400, r"power is 10+\.\.\.; expected a finite number"),
    "too-large": ("whitening_rows", 1e308, r"whitening_rows is 1e\+308; expected a number, more than 0"),
    "negative": ("keep", -1, "keep is -1; expected a whole number, 1 or more"),
    "huge-count": ("sample", 2**63, "sample is 9223372036854775808; expected a whole number"),
    "fraction": ("discard_after", 0.5, "discard_after is 0.5; expected a whole number"),
    "flag": ("seed", True, "seed is True; expected a whole number"),
    "text": ("pooling", "maximum", "pooling is 'maximum'; expected one of sum, democratic"),
    "list": ("pooling", ["sum"], r"pooling is \['sum'\]; expected a text"),
    "long": ("finishing", "x" * 5000, r"finishing is 'x{70,}\.\.\.; expected one of paper"),
    "number-as-part": ("whitening", 3, "whitening is 3; expected Whitening or null"),
    "discarded": ("discard_after", 10**6, "discard_after is 1000000, and the vectors have 12 components"),
    "not-asked": ("projection", None, "projection_ was learned, but projection is not among the settings"),
}


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    encoder = Encoder(FastFAemb(2), projection=Projection(3), whitening=Whitening(discard=0), rotation=Rotation())
    return encoder.fit(np.split(np.random.default_rng(1).standard_normal((90, 5)), 9))


@pytest.mark.parametrize(("name", "value", "words"), SENSELESS.values(), ids=SENSELESS)
def test_settings_that_make_no_sense_are_refused(
    encoder: Encoder, path: Path, name: str, value: Any, words: str
) -> None:
    tree, arrays = parts_of(encoder)
    tree["settings"][name] = value
    forge(path, tree, arrays=arrays)
    assert_refused(path, f"does not hold a model .{words}.*it is damaged or was not made by faemb")


@pytest.mark.parametrize("order", [0, 3, 2**63, -1])
def test_an_order_that_would_never_end_is_refused(encoder: Encoder, path: Path, order: int) -> None:
    tree, arrays = parts_of(encoder)
    tree["learned"]["embedding_"]["settings"]["order"] = order
    forge(path, tree, arrays=arrays)
    assert_refused(path, f"embedding_: order is {order}; expected a whole number")


def test_a_part_of_another_kind_is_refused(encoder: Encoder, path: Path) -> None:
    tree, arrays = parts_of(encoder)
    tree["learned"]["whitening_"] = parts_of(HessianAffine())[0]
    forge(path, tree, arrays=arrays)
    assert_refused(path, "whitening_: it is HessianAffine; expected Whitening or null")


@pytest.mark.parametrize("depth", [1, 400, 5000])
def test_parts_in_parts_are_refused(path: Path, depth: int) -> None:
    opening = '{"component": "Encoder", "revision": 1, "learned": {}, "settings": {"embedding": '
    forge(path, opening * depth + json.dumps(parts_of(FastFAemb(2))[0]) + "}}" * depth)
    assert_refused(
        path, "reads it differently" if depth == 1 else "embedding: it is Encoder; expected Embedding|recursion"
    )


ARRAYS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray | None], str]] = {
    "rank": ("embedding_.anchors_", np.ravel, r"embedding_: the array anchors_ has shape \(6,\); expected \(2, d\)"),
    "count": ("embedding_.anchors_", lambda a: a[:1], r"anchors_ has shape \(1, 3\); expected \(2, d\)"),
    "length": ("embedding_.anchors_", lambda a: a[:, :2], "projection_ is for vectors of length 3; .* have 2"),
    "not-alike": ("projection_.mean_", lambda a: a[1:], r"projection_: the array axes_ .* expected \(4, 3\)"),
    "whitening": ("whitening_.matrix_", lambda a: a[:, 1:], r"whitening_: the array matrix_ .* expected \(kept, 12\)"),
    "tall": ("whitening_.matrix_", lambda a: np.vstack([a, a]), "expected at most as many rows as columns"),
    "integers": ("whitening_.mean_", lambda a: a.astype(np.int64), "whitening_.mean_ has type I64; expected F32"),
    "bytes": ("whitening_.mean_", lambda a: a.astype(np.uint8), "mean_ has type uint8; expected float32 or float64"),
    "half": ("whitening_.mean_", lambda a: a.astype(np.float16), "mean_ has type F16; expected F32"),
    "nan": ("rotation_.axes_", lambda a: a * np.nan, "rotation_: the array axes_ has NaN or infinite values"),
    "infinite": ("rotation_.mean_", lambda a: a + np.inf, "rotation_: the array mean_ has NaN or infinite values"),
    "empty": ("rotation_.axes_", lambda a: a[:0], "rotation_: the array axes_ is empty"),
    "missing": ("rotation_.signs_", lambda a: None, "rotation_: the array signs_ is missing"),
}


@pytest.mark.parametrize(("name", "change", "words"), ARRAYS.values(), ids=ARRAYS)
def test_arrays_that_do_not_fit_are_refused(
    encoder: Encoder, path: Path, name: str, change: Callable[[np.ndarray], np.ndarray | None], words: str
) -> None:
    tree, arrays = parts_of(encoder)
    changed = change(arrays.pop(name))
    forge(path, tree, arrays=arrays if changed is None else {**arrays, name: changed.copy()})
    assert_refused(path, words)


def test_a_type_that_numpy_lacks_is_refused(encoder: Encoder, path: Path) -> None:
    tree, arrays = parts_of(encoder)
    arrays["whitening_.mean_"] = arrays["whitening_.mean_"].astype(np.float16)
    write(path, tree, arrays, stored={"whitening_.mean_": "BF16"})
    assert_refused(path, "the array whitening_.mean_ has type BF16; expected F32, F64, U8")


def test_an_embedding_that_is_too_long_for_memory_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Encoder(VLAT(1), whitening=None).fit([np.random.default_rng(1).standard_normal((40, 8))])
    save(model, path)
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "100B")
    assert_refused(path, "one embedded descriptor needs 288 bytes of memory")


def test_arrays_of_extreme_values_give_a_sentence(encoder: Encoder, path: Path) -> None:
    """Nothing is known to be wrong with them until they are used."""
    tree, arrays = parts_of(encoder)
    arrays["embedding_.anchors_"] *= 1e200
    write(path, tree, arrays)
    words = r"the vectors are not finite; descriptors or learned arrays have values that are too large: .* fit again"
    with np.errstate(all="ignore"), pytest.raises(InputError, match=words):
        Encoder.load(path).encode([np.ones((3, 5))])


def test_a_file_cut_anywhere_is_refused(whitening: Whitening, path: Path) -> None:
    save(whitening, path)
    raw = path.read_bytes()
    for length in range(len(raw)):
        path.write_bytes(raw[:length])
        assert_refused(path)


def test_a_file_with_more_bytes_is_refused(whitening: Whitening, path: Path) -> None:
    save(whitening, path)
    for tail in (b"\0", b" ", b"more"):
        path.write_bytes(path.read_bytes() + tail)
        assert_refused(path)


@pytest.mark.parametrize("bit", [0, 3, 5, 7])
def test_a_flipped_bit_anywhere_is_refused_or_harmless(whitening: Whitening, path: Path, bit: int) -> None:
    """Harmless is a bit that JSON does not see, such as that of 1e-6 and 1E-6: the model is then the very same."""
    mark = save(whitening, path)
    raw = path.read_bytes()
    for place in range(len(raw)):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 1 << bit]) + raw[place + 1 :])
        with suppress(FormatError):
            assert fingerprint(load(path)) == mark


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"\0" * 8,
        b"\0" * 100,
        b"\xff" * 100,
        b"This is a text.\n" * 20,
        b"{}",
        b"PK\x03\x04zip",
        b"\x80\x04K\x01.",
    ],
    ids=["empty", "one-zero", "eight-zeros", "zeros", "ones", "text", "json", "zip", "pickle"],
)
def test_a_file_of_something_else_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert_refused(path, "not a faemb model")


@pytest.mark.parametrize(
    "metadata",
    [None, {"format": "pt"}, {"format": "faemb-model"}, {"format": "faemb-model", "model": "{}"}],
    ids=["none", "pytorch", "only-format", "no-version"],
)
def test_a_safetensors_file_of_something_else_is_refused(path: Path, metadata: dict[str, str] | None) -> None:
    save_file({"weight": np.ones((2, 2), np.float32)}, path, metadata=metadata)
    assert_refused(path, "a safetensors file of something else, not a faemb model")


def test_a_missing_file_is_refused(path: Path) -> None:
    assert_refused(path, "no model at")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert_refused(tmp_path, "make one with: faemb fit IMAGES --out")


def test_a_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    assert_refused(tmp_path / ("a" * 300))


@pytest.mark.parametrize("version", ["3", "10", "999999999999999999999"])
def test_a_newer_version_is_refused_with_the_cure(path: Path, version: str) -> None:
    forge(path, parts_of(Whitening())[0], version=version)
    assert_refused(path, f"format version {version}; this faemb reads up to 2: pip install --upgrade faemb")


@pytest.mark.parametrize("version", ["", "one", "-1", "1.0", "²", "0"])
def test_a_version_that_never_was_is_refused(path: Path, version: str) -> None:
    forge(path, parts_of(Whitening())[0], version=version)
    assert_refused(path)


@pytest.mark.parametrize("name", ["Nope", "Component", "Embedding", "BaseEstimator", ""])
def test_an_unknown_component_is_refused(path: Path, name: str) -> None:
    forge(path, {"component": name, "revision": 1, "settings": {}, "learned": {}})
    assert_refused(path, f"made by a newer faemb, 0.1.0 \\(it holds a '{name}'\\); pip install --upgrade faemb")


def test_an_unknown_part_is_refused(path: Path) -> None:
    tree = parts_of(Encoder(FastFAemb(2), projection=Projection(3)))[0]
    tree["settings"]["projection"]["component"] = "Nope"
    forge(path, tree)
    assert_refused(path, "holds a 'Nope'")


def test_an_extra_setting_is_refused(path: Path) -> None:
    tree = parts_of(Whitening())[0]
    tree["settings"]["extra"] = 1
    forge(path, tree)
    assert_refused(path, "made by a newer faemb, 0.1.0 .its Whitening has 'extra'")


@pytest.mark.parametrize("name", ["floor", "discard", "centre"])
def test_a_missing_setting_is_refused(path: Path, name: str) -> None:
    tree = parts_of(Whitening(floor=0.5, discard=3, centre=False))[0]
    del tree["settings"][name]
    forge(path, tree, fingerprint=fingerprint(Whitening(floor=0.5, discard=3, centre=False)))
    assert_refused(path, "reads it differently")


def test_a_missing_part_is_refused(path: Path) -> None:
    tree = parts_of(Encoder(FastFAemb(2), projection=Projection(3)))[0]
    del tree["settings"]["embedding"]
    forge(path, tree)
    assert_refused(path, "does not hold a model .*embedding")


def test_settings_under_another_fingerprint_are_refused(path: Path) -> None:
    tree = parts_of(Whitening())[0]
    tree["settings"]["floor"] = 0.5
    forge(path, tree, fingerprint=fingerprint(Whitening()))
    assert_refused(path, "this version reads it differently")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "model",
    ["", "{", "[]", "null", "3", '"Whitening"', "{}", '{"component": "Whitening"}', '{"settings": {}}', "[" * 100_000],
    ids=["empty", "cut", "list", "null", "number", "text", "no-keys", "no-settings", "no-component", "deep"],
)
def test_a_tree_that_is_none_is_refused(path: Path, model: str) -> None:
    forge(path, model)
    assert_refused(path)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "tree",
    [
        [],
        {},
        3,
        {"component": "Whitening"},
        {"settings": {}},
        {"component": ["Whitening"], "settings": {}},
        {"component": "Whitening", "settings": []},
        {"component": "Whitening", "settings": {"floor": {}}},
    ],
    ids=str,
)
def test_a_tree_of_another_form_is_refused_under_its_own_fingerprint(path: Path, tree: Any) -> None:
    forge(path, tree)
    assert_refused(path)


@pytest.mark.parametrize("missing", Whitening.learned)
def test_a_missing_array_is_refused(whitening: Whitening, path: Path, missing: str) -> None:
    tree, arrays = parts_of(whitening)
    del arrays[missing]
    forge(path, tree, arrays=arrays)
    assert_refused(path)


def test_an_array_that_belongs_to_nothing_is_refused(whitening: Whitening, path: Path) -> None:
    tree, arrays = parts_of(whitening)
    forge(path, tree, arrays=arrays | {"other_": np.ones(3)})
    assert_refused(path)
