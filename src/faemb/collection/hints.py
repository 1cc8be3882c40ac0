"""Commands in messages, as a user can type them."""

import os
import shlex
from pathlib import Path


def typed(path: str | os.PathLike[str]) -> str:
    """A path for a command line in the current folder: relative if it lies below, quoted where a shell needs it."""
    place = Path(os.path.abspath(path))
    here = Path(os.path.abspath(os.curdir))
    return shlex.quote(str(place.relative_to(here) if place.is_relative_to(here) else place))


def repair_command(file: Path) -> str:
    """The command that repairs the collection to which a file belongs."""
    return f"faemb check {typed(file.parent)} --repair"
