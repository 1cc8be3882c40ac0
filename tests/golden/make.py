"""Writes one small example of each current format, with what must be read from it: python make.py FOLDER."""

import json
import sys
from pathlib import Path

import numpy as np

from faemb import Collection, Encoder, FastFAemb, HessianAffine, Model, Projection, Rotation, Whitening
from faemb.benchmark.run import VERSION as RUN
from faemb.collection.schema import VERSION as COLLECTION
from faemb.features.files.npz import write_npz
from faemb.persistence import VERSION as MODEL
from faemb.persistence import fingerprint, load, save, settings_tree
from golden_components import computed, defaults, extractors, inputs
from made_up_runs import run
from model_mutations import examples
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


def make_collection_with_parts(folder: Path) -> None:
    """With the other ways of storing: vectors of parts, no features, and an index."""
    pictures(folder / "photos", range(5))
    model = Model(EXTRACTOR, encoder().set_params(rotation=None, keep=None), parts=2)
    photos = sorted((folder / "photos").glob("*.png"))
    model.fit([EXTRACTOR.extract(photo).descriptors for photo in photos])
    with Collection.create(folder / "photos.faemb", model, keep_features=False, index="hnsw") as collection:
        collection.make_thumbnails = False
        collection.add(photos)
        answers = collection.search(photos, top=5, verify=0)
    hits = {Path(answer.query).name: [[hit.path.name, hit.similarity] for hit in answer.hits] for answer in answers}
    (folder / "expected.json").write_text(json.dumps({"fingerprint": model.fingerprint, "hits": hits}, indent=1) + "\n")
    (folder / "photos.faemb" / "writer.lock").unlink(missing_ok=True)


def make_components(folder: Path) -> None:
    """Each class with default settings, as it is identified, and a small fitted model of each method."""
    folder.mkdir()
    known = {
        name: {"fingerprint": fingerprint(component), "tree": settings_tree(component)}
        for name, component in defaults().items()
    }
    (folder / "settings.json").write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    for name, file in examples(folder).items():
        model = load(file)
        given = inputs(model, np.random.default_rng(0))
        mark = np.array(fingerprint(model))
        np.savez(folder / f"{name}.npz", fingerprint=mark, given=given, computed=computed(model, given))


def make_extractors(folder: Path) -> None:
    """What each extractor finds in one picture."""
    picture(folder / "picture.png", 3)
    keypoints = np.stack([np.arange(9), np.arange(9) ** 2 / 2], axis=1)
    np.savez(folder / "theirs.npz", keypoints=keypoints, descriptors=np.arange(36.0).reshape(9, 4))
    for name, extractor in extractors().items():
        save(extractor, folder / f"{name}.faemb")
        found = extractor.extract(folder / ("theirs.npz" if name == "FeatureFiles" else "picture.png"))
        np.savez(folder / f"{name}.npz", frames=found.frames, descriptors=found.descriptors)


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
        ("collection-with-parts", COLLECTION, make_collection_with_parts),
        ("components", "0.1.0", make_components),
        ("extractors", "0.1.0", make_extractors),
    ):
        folder = out / (f"{kind}-v{version}" if isinstance(version, int) else f"{kind}-{version}")
        if not folder.exists():
            make(folder)
