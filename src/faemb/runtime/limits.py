"""How much one input (an image, a file of features, a ground truth) may take before it is refused.

Readers count the bytes that they will need before they read, worker processes stop an item at its deadline. Both limits
are environment variables, which worker processes inherit:

    FAEMB_ITEM_MEMORY     largest memory for one item, such as 4GB or 500MB; 1GB if not set
    FAEMB_ITEM_SECONDS    longest time for one item in a worker process; 120 if not set, 0: no limit
"""

import math
import os
import re
import stat

from faemb.errors import InputError, reason
from faemb.runtime.storage import AnyPath

MEMORY, SECONDS = "FAEMB_ITEM_MEMORY", "FAEMB_ITEM_SECONDS"
_MEMORY, _SECONDS = 1_000_000_000, 120.0
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def item_memory() -> int:
    """Largest number of bytes of memory for one item."""
    given = os.environ.get(MEMORY, "").strip()
    if not given:
        return _MEMORY
    match = re.fullmatch(r"(\d{1,15})\s*([KMGT]B|B|)", given, re.ASCII | re.IGNORECASE)
    if match is None or not int(match[1]):
        raise InputError(f"{MEMORY} is {given!r}; expected a number of bytes, such as 4GB or 500MB")
    return int(match[1]) * _UNITS[match[2].upper()]


def item_seconds() -> float | None:
    """Longest time for one item in a worker process; None: no limit."""
    given = os.environ.get(SECONDS, "").strip()
    try:
        seconds = float(given) if given else _SECONDS
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InputError(f"{SECONDS} is {given!r}; expected a number of seconds, such as 300; 0: no limit")
    return seconds or None


def require_memory(needed: int, name: object) -> None:
    """Raise an error if an item would take more memory than one item may; call it before that memory is taken."""
    allowed = item_memory()
    if needed > allowed:
        raise InputError(
            f"{name} needs {in_words(needed)} of memory; one file may take {in_words(allowed)}: give a smaller one, or "
            f"allow more with the environment variable {MEMORY}={math.ceil(needed / 10**9)}GB"
        )


def require_plain_file(path: AnyPath, what: str) -> os.stat_result:
    """Raise an error unless a path is a plain file; call it before the file is opened: opening a pipe would block.

    `what` is expected there, such as "an image file".
    """
    name = os.fspath(path)
    try:
        status = os.stat(name)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"there is no file {name!r}; expected {what}: check the path") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{name!r} cannot be opened: {reason(error)}; expected {what}: check the path") from None
    if stat.S_ISDIR(status.st_mode):
        raise InputError(f"{name} is a folder; expected {what}: name the files in it")
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{name} is a pipe, a socket or a device; expected {what}: save the content to a file")
    return status


def in_words(size: int) -> str:
    """A number of bytes, such as 2.4 GB."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}" if size < 1000 * factor else f"{size / factor:,.0f} {unit}"
    return f"{size} bytes"
