"""A collection of rendered photographs, as its files lie on the disk."""

from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from faemb.collection import Collection, new_model
from faemb.demo.prints import pictures
from faemb.demo.views import render_views
from faemb.features import HessianAffine

SHOWN = ("palace", "flower", "skyline", "map")
SCRIPT = "<img src=x onerror=document.title='it-ran'>.jpg"
"""A file name that would run if it became part of the page."""
PLANTED = np.array([[0.82, -0.16, 120.0], [0.12, 0.88, 30.0], [1.5e-4, -8e-5, 1.0]])
"""From pixels of planted/before.png to pixels of planted/after.png."""


def make_gallery(folder: Path) -> Path:
    """folder/images and folder/gallery.faemb, which may be copied together."""
    all_pictures = pictures()
    images = folder / "images"
    render_views(images, {name: all_pictures[name] for name in SHOWN})
    plant(images / "planted", all_pictures["palace"])
    evening = Image.open(images / "flower" / "evening.jpg")
    evening.resize((512, 384)).save(images / "flower" / SCRIPT)
    with Collection.create(folder / "gallery.faemb", new_model(HessianAffine(max_features=400))) as collection:
        collection.add(images)
    return folder


def plant(folder: Path, before: np.ndarray) -> None:
    folder.mkdir(parents=True)
    high, wide = before.shape[:2]
    after = cv2.warpPerspective(before, PLANTED, (wide, high), borderValue=(90, 90, 90))
    for name, pixels in (("before", before), ("after", after)):
        Image.fromarray(pixels).save(folder / f"{name}.png")
