"""Images from users are read in worker processes, which may die: their features, or a smaller picture."""

import io
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pillow

from faemb.collection.queries import DescribedQuery, DescribeQuery
from faemb.features import Extractor
from faemb.features.image import as_image
from faemb.runtime.worker_processes import Workers

Region = tuple[float, ...] | None
"""x1, y1, x2, y2 in pixels; None: the whole image."""
_QUALITY = 85


@dataclass(frozen=True)
class _Features:
    """Request for the local features of a file, in a region of it."""

    file: Path
    box: Region
    turned: bool

    def answer(self, extractor: Extractor) -> DescribedQuery:
        return DescribeQuery(extractor, self.box, self.turned)((0, self.file))


@dataclass(frozen=True)
class _Picture:
    """Request for a JPEG of a file."""

    file: Path
    side: int

    def answer(self, extractor: Extractor) -> bytes:
        pixels = np.rint(as_image(self.file, self.side).pixels).astype(np.uint8)
        stream = io.BytesIO()
        Pillow.fromarray(pixels).save(stream, format="JPEG", quality=_QUALITY)
        return stream.getvalue()


@dataclass(frozen=True)
class _WarmUp:
    """Warm-up request, so that a worker has loaded its libraries before the first image."""

    def answer(self, extractor: Extractor) -> bytes:
        extractor.extract(np.random.default_rng(0).integers(0, 256, (128, 128, 3), np.uint8))
        return b""


_Request = _Features | _Picture | _WarmUp


@dataclass(frozen=True)
class _Work:
    """The task of the workers."""

    extractor: Extractor

    def __call__(self, request: _Request) -> DescribedQuery | bytes:
        return request.answer(self.extractor)


class Describers:
    def __init__(self, extractor: Extractor, jobs: int | None = None) -> None:
        self.upright = extractor.is_upright
        self._workers: Workers[_Request, Any] = Workers(_Work(extractor), jobs)
        self._workers.start(_WarmUp())

    def features(self, file: Path, box: Region = None, *, turned: bool = False) -> "Future[DescribedQuery]":
        """The local features of a query, as `Collection.search` extracts them."""
        return self._workers.submit(_Features(file, box, turned))

    def picture(self, file: Path, side: int) -> "Future[bytes]":
        """A JPEG of at most this side, upright and without metadata."""
        return self._workers.submit(_Picture(file, side))

    def close(self) -> None:
        self._workers.close()
