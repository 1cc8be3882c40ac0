"""Images from users are read in worker processes, which may die: their features, or a smaller picture."""

import io
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pillow

from faemb.collection.packing import rounded
from faemb.features import Extractor, LocalFeatures
from faemb.features.feature_files import features_of_query, picture_of
from faemb.features.image import as_image
from faemb.runtime.parallel import Workers

_QUALITY = 85


@dataclass(frozen=True)
class _Work:
    """The task of the workers, for a file and the longer side of the wanted picture; None for its features."""

    extractor: Extractor

    def __call__(self, item: tuple[Path, int | None]) -> LocalFeatures | bytes:
        file, side = item
        if side is None:
            return rounded(features_of_query(self.extractor, file))
        return _picture(file, side)


class Describers:
    def __init__(self, extractor: Extractor, jobs: int | None = None) -> None:
        self._workers: Workers[tuple[Path, int | None], Any] = Workers(_Work(extractor), jobs)
        self._workers.start()

    def features(self, file: Path) -> "Future[LocalFeatures]":
        """Its local features, rounded as stored ones are."""
        return self._workers.submit((file, None))

    def picture(self, file: Path, side: int) -> "Future[bytes]":
        """A JPEG of at most this side, upright and without metadata."""
        return self._workers.submit((file, side))

    def close(self) -> None:
        self._workers.close()


def _picture(file: Path, side: int) -> bytes:
    pixels = np.rint(as_image(picture_of(file) or file, side).pixels).astype(np.uint8)
    stream = io.BytesIO()
    Pillow.fromarray(pixels).save(stream, format="JPEG", quality=_QUALITY)
    return stream.getvalue()
