"""A file that is read within limits: decoders read through it alone, so that no file keeps them busy for long.

Decoders read a header piece by piece, some byte by byte, and keep most of what they read. A file can make these pieces
endless: extensions of GIF, chunks of PNG, segments of JPEG, tags of TIFF that all name the same bytes.
"""

import io
import math
import os
import time

from faemb.errors import FaembError, InputError, LimitError
from faemb.runtime.limits import MEMORY, in_words, item_memory, item_seconds, too_late
from faemb.runtime.storage import AnyPath

HEADER_READS = 20_000
"""Pieces of a header. Those of photographs have a few hundred, a GIF with a long description some thousands."""
HEADER_SECONDS = 5.0
"""Processor time for a header; ordinary files need milliseconds. Waiting for a slow disk is not counted."""
HEADER_SHARE = 16
"""A header may have this part of the memory of one item: 62 MB; photographs with embedded sound have up to 20 MB."""


class BoundedStream(io.BufferedReader):
    """An open file; a read beyond a limit raises an error, which is kept: a decoder may report it as one of its own."""

    def __init__(self, path: AnyPath) -> None:
        super().__init__(io.FileIO(path))
        self.length = os.fstat(self.fileno()).st_size
        self.refusal: FaembError | None = None
        self.header_bytes = 0
        self._name, self._seconds = os.fspath(path), item_seconds()
        self._end = math.inf if self._seconds is None else time.monotonic() + self._seconds
        self._reads, self._busy = float(HEADER_READS), time.thread_time() + HEADER_SECONDS
        self._allowed = self._left = item_memory() // HEADER_SHARE

    def allow_large_header(self) -> None:
        """It may take the memory of one item: a TIFF's has whole layers in it, other formats are read in one piece."""
        self._allowed = self._left = item_memory()

    def begin_pixels(self) -> None:
        """Pixels are read in many pieces, but each once; some decoders read the header again."""
        self.header_bytes = self._allowed - self._left
        self._reads, self._busy, self._allowed = math.inf, math.inf, 2 * item_memory()
        self._left = self._allowed

    def read(self, size: int | None = -1, /) -> bytes:
        rest = max(0, self.length - self.tell())
        wanted = rest if size is None or size < 0 else min(size, rest)  # memory is taken for all that is asked for
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
