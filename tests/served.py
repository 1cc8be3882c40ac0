"""A server as a real process."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from processes import COMMAND, PATIENCE


@dataclass(frozen=True)
class Served:
    process: subprocess.Popen[str]
    address: str
    """Of the page, with a slash at the end; without a token."""
    token: str | None

    @property
    def port(self) -> int:
        return int(self.address.rstrip("/").rsplit(":", 1)[1])


@contextmanager
def served(collection: Path, *options: object, **environment: str) -> Iterator[Served]:
    """`faemb serve` at a free port, until the block ends."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(  # noqa: S603
        [COMMAND, "serve", collection, "--port", "0", "--jobs", "1", *map(str, options)],
        env=os.environ | environment,
        stdout=pipe,
        stderr=pipe,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        found = re.search(r" at (http://\S+/)(?:\?token=(\S+))?$", process.stdout.readline().rstrip("\n"))
        assert found, process.stderr.read()
        yield Served(process, found[1], found[2])
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
