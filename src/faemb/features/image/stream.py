"""A file stream with limits on the number of reads, time and memory, through which all decoders read.

Decoders read a header piece by piece, some byte by byte, and keep most of it. A malicious file can have any number of
such pieces: extensions of GIF, chunks of PNG, segments of JPEG, tags of TIFF that all refer to the same bytes.
"""

import io
import math
import os
import time
from typing import Any

from faemb.errors import FaembError, InputError, LimitError
from faemb.runtime.limits import MEMORY, in_words, item_memory, item_seconds, too_late
from faemb.runtime.paths_and_urls import Url
from faemb.runtime.storage import AnyPath

HEADER_READS = 20_000
"""Largest number of reads of a header. Photographs need a few hundred, a GIF with a long comment some thousands."""
HEADER_SECONDS = 5.0
"""Seconds of CPU time for a header; ordinary files need milliseconds. Waiting for a slow disk does not count."""
HEADER_SHARE = 16
"""A header is limited to the memory of one item divided by this: 62 MB by default. Photographs with embedded sound
need up to 20 MB."""


class BoundedStream(io.BufferedReader):
    """An open file; a read beyond a limit raises an error, stored in `refusal` since a decoder may replace it."""

    def __init__(self, path: AnyPath) -> None:
        raw: Any = path.open("rb") if isinstance(path, Url) else io.FileIO(path)  # the content of a URL is in memory
        super().__init__(raw)
        self.length = raw.seek(0, os.SEEK_END)
        raw.seek(0)
        self.held = self.length if isinstance(path, Url) else 0
        self.refusal: FaembError | None = None
        self.header_bytes = 0
        self._name, self._seconds = os.fspath(path), item_seconds()
        self._end = math.inf if self._seconds is None else time.monotonic() + self._seconds
        self._reads, self._busy = float(HEADER_READS), time.thread_time() + HEADER_SECONDS
        self._allowed = self._left = item_memory() // HEADER_SHARE

    def allow_large_header(self) -> None:
        """Allow a header the memory of one item: a TIFF's may contain layers, other formats are read in one piece."""
        self._allowed = self._left = item_memory()

    def begin_pixels(self) -> None:
        """Switch from the limits of the header to those of pixels: any number of reads, twice the memory of one item.

        Each piece of the pixels is read once, but some decoders read the header again.
        """
        self.header_bytes = self._allowed - self._left + self.held
        self._reads, self._busy, self._allowed = math.inf, math.inf, 2 * item_memory()
        self._left = self._allowed

    def read(self, size: int | None = -1, /) -> bytes:
        rest = max(0, self.length - self.tell())
        wanted = rest if size is None or size < 0 else min(size, rest)  # `size` bytes would be allocated
        self._left -= wanted
        self._reads -= 1
        self.refusal = self.refusal or self._beyond_a_limit()
        if self.refusal is not None:
            raise self.refusal
        return super().read(wanted)

    def _beyond_a_limit(self) -> FaembError | None:
        if self._left < 0:
            return LimitError(
                f"{self._name} has more than {in_words(self._allowed)} of data beside its pixels; save it without "
                f"metadata, or allow more with the environment variable {MEMORY}"
            )
        if self._reads < 0:
            return InputError(
                f"{self._name} has more than {HEADER_READS:,} pieces of data before its pixels; save it again"
            )
        if time.thread_time() > self._busy:
            return InputError(
                f"{self._name} takes longer than {HEADER_SECONDS:g} s to read up to its pixels; save it again"
            )
        return too_late(self._name, self._seconds or 0) if time.monotonic() > self._end else None
