"""Writes one small example of each current format, with what must be read from it: python make.py FOLDER."""

import json
import sys
from pathlib import Path

import numpy as np

from faemb import Collection, Encoder, FastFAemb, HessianAffine, Model, Projection, Rotation, Whitening
from faemb.benchmark.run import VERSION as RUN
from faemb.collection.catalogue import VERSION as COLLECTION
from faemb.features.files.npz import write_npz
from faemb.persistence import VERSION as MODEL
from made_up_runs import run
from pictures import picture, pictures, pixels

FEATURES = 1
"""Version of .npz feature files, which are known by the names of their arrays."""
EXTRACTOR = HessianAffine(max_features=40)


def encoder() -> Encoder:
    """With every part that an encoder can have."""
    return Encoder(
        FastFAemb(2, unit_residuals=True),
        projection=Projection(6, unit_after=True),
        whitening=Whitening(discard=3),
        rotation=Rotation("whiten"),
        keep=20,
    )


def make_model(folder: Path) -> None:
    sets = [EXTRACTOR.extract(pixels(seed)).descriptors for seed in range(12)]
    fitted = encoder().fit(sets)
    folder.mkdir()
    fingerprint = fitted.save(folder / "model.faemb")
    np.savez(folder / "expected.npz", descriptors=sets[0], vector=fitted.encode(sets[:1])[0])
    (folder / "expected.json").write_text(json.dumps({"fingerprint": fingerprint}) + "\n")


def make_collection(folder: Path) -> None:
    pictures(folder / "photos", range(5))
    with Collection.create(
        folder / "photos.faemb", Model(EXTRACTOR, encoder().set_params(rotation=None, keep=None))
    ) as collection:
        collection.add([folder / "photos" / "000.png", folder / "photos" / "001.png"])
        collection.add(folder / "photos")  # the model is learned again
        collection.add(picture(folder / "photos" / "removed.png", 5))
        collection.remove(folder / "photos" / "removed.png")
        answers = collection.search(sorted((folder / "photos").glob("0*.png")), top=5)
        fingerprint = collection.model.fingerprint
    hits = {Path(answer.query).name: [[hit.path.name, hit.similarity] for hit in answer.hits] for answer in answers}
    (folder / "expected.json").write_text(json.dumps({"fingerprint": fingerprint, "hits": hits}, indent=1) + "\n")
    (folder / "photos.faemb" / "writer.lock").unlink(missing_ok=True)


def make_features(folder: Path) -> None:
    features = EXTRACTOR.extract(pixels(0))
    folder.mkdir()
    write_npz(folder / "features.npz", features, image_hash="0" * 64)
    sums = {"descriptors": float(features.descriptors.sum()), "frames": float(features.frames.sum())}
    expected = {"count": len(features), "fingerprint": features.fingerprint, **sums}
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


def make_run(folder: Path) -> None:
    folder.mkdir()
    run().save(folder)


if __name__ == "__main__":
    out = Path(sys.argv[1])
    for kind, version, make in (
        ("model", MODEL, make_model),
        ("collection", COLLECTION, make_collection),
        ("features", FEATURES, make_features),
        ("run", RUN, make_run),
    ):
        if not (out / f"{kind}-v{version}").exists():
            make(out / f"{kind}-v{version}")
