"""Watches what Python code does while an input is read: files changed elsewhere, programs started, connections made.

Files that libraries open by themselves are not seen.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGING = {"os.remove": 1, "os.rename": 2, "os.mkdir": 1, "os.rmdir": 1, "os.link": 2, "os.symlink": 2}
"""Events, and how many of their arguments are paths that change."""
_FOREIGN = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "pty.spawn", "socket.connect")


class Guard:
    """One for a process: a hook cannot be removed."""

    def __init__(self) -> None:
        self._allowed: Path | None = None
        self.seen: list[str] = []
        """A sentence for each forbidden act."""
        sys.addaudithook(self._hook)

    @contextmanager
    def watching(self, allowed: Path) -> Iterator[None]:
        """Only files below `allowed` may be changed in the block."""
        self.seen, self._allowed = [], allowed
        try:
            yield
        finally:
            self._allowed = None

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._allowed is None:
            return
        if event in _FOREIGN:
            self.seen.append(f"{event} {arguments[0]!r}")
        elif event == "open" and arguments[2] is not None and arguments[2] & _WRITING:
            self._require_inside(event, arguments[:1])
        elif event in _CHANGING:
            self._require_inside(event, arguments[: _CHANGING[event]])

    def _require_inside(self, event: str, paths: tuple[Any, ...]) -> None:
        for path in paths:
            if isinstance(path, str | bytes | os.PathLike) and not self._is_inside(os.fsdecode(path)):
                self.seen.append(f"{event} {os.fsdecode(path)!r}")

    def _is_inside(self, path: str) -> bool:
        """By the folder of a file: a link in the place of a file is itself inside."""
        if path == os.devnull or self._allowed is None:
            return True
        folder, name = os.path.split(os.path.abspath(path))
        return Path(os.path.realpath(folder), name).is_relative_to(self._allowed)
