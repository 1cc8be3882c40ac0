"""A benchmark of rendered views, and encoders small enough for it."""

from pathlib import Path

import cv2
import numpy as np

from faemb import Encoder
from faemb.benchmark.datasets import Dataset
from pictures import pixels

SCENES, VIEWS = 6, 3


def tiny(encoder: Encoder) -> Encoder:
    """The same settings on few dimensions with few anchors."""
    encoder.set_params(embedding__n_anchors=2, projection__dimension=6, whitening_rows=200, whitening__discard=0)
    if hasattr(encoder.embedding, "restarts"):
        encoder.embedding.restarts = 1
    assert encoder.whitening is not None
    encoder.whitening.raise_last, encoder.discard_after = (
        min(encoder.whitening.raise_last, 2),
        min(encoder.discard_after, 2),
    )
    return encoder


def rendered(folder: Path) -> Path:
    """Scenes in a few views each, named as Holidays are."""
    folder.mkdir(parents=True)
    for scene in range(SCENES):
        image = pixels(scene, (160, 120))
        for view in range(VIEWS):
            shear = np.array([[1, 0.04 * view, 0], [0.03 * view, 1, 0]], np.float32)
            shown = cv2.warpAffine(image, shear, (160, 120), borderMode=cv2.BORDER_REFLECT)
            cv2.imwrite(str(folder / f"{1000 + scene}{view:02}.png"), shown)
    return folder


def mean_ap_by_hand(vectors: np.ndarray, dataset: Dataset) -> float:
    """In percent, for queries that are among the images: each is left out of its own ranking."""
    found = []
    for query in dataset.queries:
        order = np.argsort(-vectors @ vectors[query.number], kind="stable")
        order = order[order != query.number]
        places = np.flatnonzero(np.isin(order, query.relevant))
        rank = np.arange(len(places))
        before = np.where(places > 0, rank / np.maximum(places, 1), 1.0)
        found.append(np.sum(before + (rank + 1) / (places + 1)) / (2 * len(query.relevant)))
    return 100 * float(np.mean(found))
