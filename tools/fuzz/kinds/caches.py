"""The cache of benchmarks: stores of local features, with headers and checksums that fit odd content, and vectors."""

import json
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file
from tools.fuzz.kind import Damage, Kind, Way
from tools.fuzz.odd import tree_text

from faemb.benchmark.features import FeatureStore, StoredFeatures
from faemb.benchmark.workbench import kept, load_vectors
from faemb.features import HessianAffine, LocalFeatures
from faemb.features.local_features import Grids

FINGERPRINT = "fuzz"
VECTORS = "vectors.npy"
Rng = np.random.Generator


class Caches(Kind):
    name = "caches"

    def prepare(self, folder: Path) -> None:
        for name, of_maps in (("regions", False), ("maps", True)):
            store = FeatureStore(folder / name, HessianAffine())
            store._write({str(count): _features(count, of_maps=of_maps) for count in (0, 3, 8)})
        kept(folder / "pooled" / VECTORS, lambda: np.ones((5, 4), np.float16))

    def ways(self, victim: Path) -> Sequence[Way]:
        return (header_changed, rows_changed) if victim.suffix == ".safetensors" else (byte_changed,)

    def read(self, folder: Path) -> None:
        if (folder / VECTORS).exists():
            load_vectors(folder / VECTORS)
        places = FeatureStore(folder, HessianAffine())._places.values()
        for features in StoredFeatures(list(places), FINGERPRINT).all():
            if not np.isfinite(features.descriptors).all():
                raise Damage("descriptors that are not finite")


def header_changed(path: Path, rng: Rng) -> None:
    images, rows = _content(path)
    save_file({"features": rows}, path, {"images": tree_text(images, rng).encode(errors="replace").decode()})


def rows_changed(path: Path, rng: Rng) -> None:
    """An odd number, under a checksum that fits."""
    images, rows = _content(path)
    rows.flat[int(rng.integers(rows.size))] = (np.nan, np.inf, -1, 1e30)[int(rng.integers(4))]
    start = 0
    for image in images:
        image["crc32"] = zlib.crc32(rows[start : start + image["count"]].tobytes())
        start += image["count"]
    save_file({"features": rows}, path, {"images": json.dumps(images)})


def byte_changed(path: Path, rng: Rng) -> None:
    """Another byte in a file of vectors, mostly in its header, under a checksum that fits."""
    content = bytearray(path.read_bytes()[:-4])
    content[int(rng.integers(len(content)))] = int(rng.integers(256))
    path.write_bytes(bytes(content) + zlib.crc32(content).to_bytes(4, "little"))


def _content(path: Path) -> tuple[list[dict[str, int]], np.ndarray]:
    with safe_open(path, framework="numpy") as file:
        return json.loads(file.metadata()["images"]), np.array(file.get_tensor("features"))


def _features(count: int, *, of_maps: bool) -> LocalFeatures:
    rng = np.random.default_rng(count)
    grids = Grids(np.array([[4, 5]]), np.zeros((count, 3), np.int64)) if of_maps else None
    descriptors, frames = (rng.random((count, columns), np.float32) for columns in (16, 6))
    return LocalFeatures(descriptors, frames, np.ones(count, np.float32), (64, 48), FINGERPRINT, grids)
