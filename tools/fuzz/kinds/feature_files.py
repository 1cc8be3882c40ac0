"""Files of local features, one format each: declared sizes, odd types, and HDF5 that points elsewhere."""

import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from files_reference import ellipses, oxford_text, siftgeo_bytes, some_cells, some_features, vecs_bytes
from tools.fuzz.kind import KEPT, Damage, Kind, Way
from tools.fuzz.mutations import odd_integer
from tools.fuzz.odd import odd_value

from faemb.features.files import read_features, read_hloc, read_npz_header, write_hloc, write_npz
from faemb.features.local_features import LocalFeatures

Rng = np.random.Generator
SECRET, SECRET_FILE = 123456.0, f"{KEPT}-secret.bin"
"""A number in a file that no reader has been asked to read."""


class FeatureFiles(Kind):
    name = "feature-files"

    def prepare(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        for name in ("a.siftgeo", "a.hesaff.sift", "a.fvecs", "a.bvecs", "a.npz", "a.h5", "b.npz"):
            target = folder / name.replace(".", "-")
            target.mkdir()
            _write(target / name, rng)
            (target / SECRET_FILE).write_bytes(np.full(4096, SECRET, "<f4").tobytes())

    def ways(self, victim: Path) -> Sequence[Way]:
        ways: dict[str, Sequence[Way]] = {".npz": (npz_changed,), ".h5": (hdf5_changed,), ".sift": (words_changed,)}
        return ways.get(victim.suffix, ())

    def read(self, folder: Path) -> None:
        path = next((path for path in folder.iterdir() if not path.name.startswith(KEPT)), folder / "gone.npz")
        found = [features for _, features in read_hloc(path)] if path.suffix == ".h5" else [read_features(path)]
        if path.suffix == ".npz":
            read_npz_header(path)
        for features in found:
            _require_sound(features)


def _require_sound(features: LocalFeatures) -> None:
    count = len(features.scores)
    if not len(features.descriptors) == len(features.frames) == count:
        raise Damage("arrays of different lengths")
    if not (np.isfinite(features.descriptors).all() and np.isfinite(features.scores).all()):
        raise Damage("descriptors or scores that are not finite")
    if any((array == SECRET).any() for array in (features.descriptors, features.frames, features.scores)):
        raise Damage("features from another file")


def _write(path: Path, rng: Rng) -> None:
    if path.suffix == ".siftgeo":
        path.write_bytes(siftgeo_bytes(rng, 3))
    elif path.suffix == ".sift":
        path.write_text(oxford_text(ellipses(rng, 3).round(4), rng.integers(0, 256, (3, 8))))
    elif path.suffix in (".fvecs", ".bvecs"):
        values = rng.integers(0, 256, (4, 6))
        path.write_bytes(vecs_bytes(values, "B" if path.suffix == ".bvecs" else "f"))
    elif path.suffix == ".h5":
        write_hloc(path, [("1.jpg", some_features(rng, 2)), ("db/2.jpg", some_cells(rng, 3))])
    elif path.name == "b.npz":  # of another tool
        np.savez_compressed(path, keypoints=rng.random((3, 2)), descriptors=rng.random((4, 3)), scores=rng.random(3))
    else:
        write_npz(path, some_cells(rng, 3), image_hash="abc")


def words_changed(path: Path, rng: Rng) -> None:
    """Numbers of a text replaced; the first two declare how many follow."""
    words = path.read_text().split(" ")
    odd = ("nan", "inf", "1e400", "-1", "0", "99999999", "9" * 5000, "1e308", "", "\x1b[2J", "1_0", "٣")
    head = path.read_text().split("\n")
    if rng.random() < 0.4:
        head[int(rng.integers(2))] = odd[int(rng.integers(len(odd)))]
        path.write_text("\n".join(head))
        return
    words[int(rng.integers(len(words)))] = odd[int(rng.integers(len(odd)))]
    path.write_text(" ".join(words))


def npz_changed(path: Path, rng: Rng) -> None:
    """An archive whose arrays declare odd shapes and types, with more or less data than that, packed or not."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    names = list(members)
    for _ in range(int(rng.integers(1, 3))):
        members[names[int(rng.integers(len(names)))]] = _npy(rng)
    kind = zipfile.ZIP_DEFLATED if rng.random() < 0.7 else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def _npy(rng: Rng) -> bytes:
    types = (
        "<f4",
        "<f8",
        ">f2",
        "<i8",
        "|u1",
        "|b1",
        "<U5",
        "|O",
        "|S0",
        "<c16",
        "[('a','<f4')]",
        "<U0",
        "<M8[s]",
        "|V9",
    )
    shapes = (
        f"({_count(rng)}, {_count(rng)})",
        f"({_count(rng)},)",
        "()",
        f"({odd_integer(rng)}, 1)",
        "(-1, 4)",
        "(2**9,)",
    )
    shape, kind = shapes[int(rng.integers(len(shapes)))], types[int(rng.integers(len(types)))]
    quoted = kind if kind.startswith("[") else repr(kind)
    order = (True, False, 1)[int(rng.integers(3))]
    stream = io.BytesIO()
    text = f"{{'descr': {quoted}, 'fortran_order': {order}, 'shape': {shape}}}".ljust(118) + "\n"
    stream.write(b"\x93NUMPY" + bytes([int(rng.choice([1, 1, 1, 2, 3])), 0]) + len(text).to_bytes(2, "little"))
    stream.write(text.encode())
    stream.write(bytes(int(10 ** rng.uniform(0, 7.7))))
    return stream.getvalue()


def _count(rng: Rng) -> int:
    return int(10 ** rng.uniform(0, 8)) if rng.random() < 0.3 else int(rng.integers(0, 9))


def hdf5_changed(path: Path, rng: Rng) -> None:
    """One dataset or group that HDF5 allows and hloc never writes, in the place of one that it does write."""
    change = _HDF5[int(rng.integers(len(_HDF5)))]
    with h5py.File(path, "a") as file:
        group = file[("1.jpg", "db/2.jpg")[int(rng.integers(2))]]
        keys = ("keypoints", "descriptors", "scores", "frames", "image_size")
        key = keys[int(rng.integers(len(keys)))]
        shape = group[key].shape
        del group[key]
        change(group, key, shape, rng)


def _external(group: Any, key: str, shape: tuple[int, ...], rng: Rng) -> None:
    places = (SECRET_FILE, str(_secret_beside(group)), "/etc/passwd", "/dev/zero")
    group.create_dataset(key, shape, "<f4", external=[(places[int(rng.integers(4))], 0, 4096)])


def _virtual(group: Any, key: str, shape: tuple[int, ...], rng: Rng) -> None:
    layout = h5py.VirtualLayout(shape, "<f4")
    layout[...] = h5py.VirtualSource(_another_file(group, shape), "x", shape)
    group.create_virtual_dataset(key, layout)


def _link(group: Any, key: str, shape: tuple[int, ...], rng: Rng) -> None:
    outside = h5py.ExternalLink(_another_file(group, shape), "x")
    links = (outside, outside, h5py.SoftLink("/1.jpg"), h5py.SoftLink(key), h5py.SoftLink("/no"), group.file["/"])
    group[key] = links[int(rng.integers(len(links)))]


def _another_file(group: Any, shape: tuple[int, ...]) -> str:
    path = _secret_beside(group).with_suffix(".h5")
    with h5py.File(path, "w") as secret:
        secret["x"] = np.full(shape, SECRET, np.float32)
    return path.name


def _secret_beside(group: Any) -> Path:
    return Path(group.file.filename).parent / SECRET_FILE


def _deep(group: Any, key: str, shape: tuple[int, ...], rng: Rng) -> None:
    for _ in range(int(10 ** rng.uniform(1, 3.3))):
        group = group.create_group("a")
    group[key] = np.zeros((2, 2), np.float32)


def _many(group: Any, key: str, shape: tuple[int, ...], rng: Rng) -> None:
    for number in range(int(10 ** rng.uniform(1, 3))):
        group.file[f"many/{number}/keypoints"] = group


def _huge(group: Any, key: str, shape: tuple[int, ...], rng: Rng) -> None:
    huge = (int(10 ** rng.uniform(2, 9)), int(10 ** rng.uniform(0, 4)))
    chunks = (min(huge[0], 1000), min(huge[1], 1000))
    kind = ("<f4", "<f2", "|u1", "<f8")[int(rng.integers(4))]
    group.create_dataset(key, huge, kind, chunks=chunks, compression="gzip")


def _typed(group: Any, key: str, shape: tuple[int, ...], rng: Rng) -> None:
    kinds: tuple[Any, ...] = (
        *(h5py.string_dtype(), h5py.vlen_dtype(np.float32), np.dtype("<c8"), np.dtype([("a", "<f4")]), np.dtype("V7")),
        *(
            np.dtype(("<f4", (3,))),
            h5py.ref_dtype,
            np.dtype("S9"),
            h5py.enum_dtype({"a": 1}),
            np.dtype(">f8"),
            np.dtype("?"),
        ),
    )
    odd: Any = (shape, shape, (), (0, 2), (2, 0), (4,), (2, 2, 2), None)[int(rng.integers(8))]
    kind = kinds[int(rng.integers(len(kinds)))]
    group[key] = h5py.Empty(kind) if odd is None else group.create_dataset(None, odd, kind)


def _value(group: Any, key: str, shape: tuple[int, ...], rng: Rng) -> None:
    odd = odd_value(rng)
    number = odd if isinstance(odd, int | float) and abs(odd) < 2**63 else -1
    group[key] = np.full(shape if rng.random() < 0.5 else (int(rng.integers(0, 4)), 2), number)
    group.attrs["fingerprint"] = np.bytes_(str(odd)[:100].encode(errors="replace") or b"x")


_HDF5: tuple[Callable[[Any, str, tuple[int, ...], Rng], None], ...] = (
    *(_external, _virtual, _link, _deep, _many, _huge, _huge, _typed, _typed, _value),
)
