"""How much one input (an image, a file of features, a ground truth) may take before it is refused.

Readers count the bytes that they will need before they read, worker processes stop an item at its deadline. A worker
may hold several times the memory of one item: a reader that counts too little ends there in an error, and not when the
memory of the whole machine is used up. Both limits are environment variables, which worker processes inherit:

    FAEMB_ITEM_MEMORY     largest memory for one item, such as 4GB or 500MB; 1GB if not set
    FAEMB_ITEM_SECONDS    longest time for one item in a worker process; 120 if not set, 0: no limit
"""

import math
import os
import re
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from faemb.errors import FaembError, InputError, LimitError, ReadError, is_of_the_system, reason
from faemb.runtime.storage import AnyPath

MEMORY, SECONDS = "FAEMB_ITEM_MEMORY", "FAEMB_ITEM_SECONDS"
_MEMORY, _SECONDS = 1_000_000_000, 120.0
_LONGEST = 1e9
"""Seconds that a timer of the system can hold, more than 30 years."""
_NET = 8
"""Memory of a worker, as a multiple of one item's: networks may need gigabytes for an image of a few megabytes."""
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
    return min(seconds_in(SECONDS, _SECONDS, "; 0: no limit"), _LONGEST) or None


def seconds_in(variable: str, usual: float, more: str = "") -> float:
    """The seconds that an environment variable states, or the usual ones; `more` ends the sentence on wrong values."""
    given = os.environ.get(variable, "").strip()
    try:
        seconds = float(given) if given else usual
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InputError(f"{variable} is {given!r}; expected a number of seconds, such as 300{more}")
    return seconds


@dataclass(frozen=True)
class Limits:
    """Limits of one item in a worker process."""

    seconds: float | None
    memory: int | None
    """Bytes; None for no limit, also of the process."""

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which readers in the worker process keep to the same limit."""
        return {} if self.memory is None else {MEMORY: str(self.memory)}


NO_LIMITS = Limits(None, None)
"""Limits for work of this package on its own data, such as encoding."""


def limits_now() -> Limits:
    """The limits that the environment of this process sets."""
    return Limits(item_seconds(), item_memory())


def require_memory(needed: int, name: object) -> None:
    """Raise an error if an item would take more memory than one item may; call it before that memory is taken."""
    allowed = item_memory()
    if needed > allowed:
        raise LimitError(
            f"{name} needs {in_words(needed)} of memory; one file may take {in_words(allowed)}: give a smaller one, or "
            f"allow more with the environment variable {MEMORY}={math.ceil(needed / 10**9)}GB"
        )


def too_late(name: object, seconds: float) -> LimitError:
    """The error of an item that was not finished after so many seconds."""
    return LimitError(
        f"{name} took longer than {seconds:g} s; give a smaller or simpler file, or allow more with the environment "
        f"variable {SECONDS}={math.ceil(10 * seconds)}"
    )


def out_of_memory(name: object) -> LimitError:
    """The error of an item for which no memory was left."""
    return LimitError(
        f"{name} needs more memory than there is; give a smaller file, use fewer jobs, or allow more with the "
        f"environment variable {MEMORY}={math.ceil(2 * item_memory() / 10**9)}GB"
    )


def is_lack_of_memory(error: Exception) -> bool:
    """A MemoryError, or what OpenCV and onnxruntime raise in its place."""
    words = ("Insufficient memory", "bad_alloc", "smaller than requested bytes")
    return isinstance(error, MemoryError) or any(each in str(error) for each in words)


def net_memory() -> int:
    """Bytes that a worker process, or a network in any process, may take in all: several times one item's."""
    return _NET * item_memory()


def limit_memory_of_this_process() -> None:
    """Allow this worker process no more than it has and a multiple of one item's memory; on Linux only.

    Address space is not limited, only memory that can be written to: libraries reserve much more than they use.
    """
    if sys.platform == "linux":
        import resource

        with suppress(OSError, ValueError, StopIteration):  # a system that does not tell, or does not allow it
            soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
            lower = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
            resource.setrlimit(resource.RLIMIT_DATA, (min(_held() + net_memory(), 2**62, *lower), hard))


def _held() -> int:
    """Bytes of memory of this process that it can write to."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmData:"))


def require_plain_file(path: AnyPath, what: str) -> os.stat_result:
    """Raise an error unless a path is a plain file; call it before the file is opened: opening a pipe would block.

    `what` is expected there, such as "an image file".
    """
    name = os.fspath(path)
    try:
        status = path.stat() if isinstance(path, Path) else os.stat(name)  # that of a URL asks its server
    except FaembError:  # of a server
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"there is no file {name!r}; expected {what}: check the path") from None
    except (OSError, ValueError) as error:
        kind = ReadError if is_of_the_system(error) else InputError
        raise kind(f"{name!r} cannot be opened: {reason(error)}; expected {what}: check the path") from None
    if stat.S_ISDIR(status.st_mode):
        raise InputError(f"{name} is a folder; expected {what}: name the files in it")
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{name} is a pipe, a socket or a device; expected {what}: save the content to a file")
    return status


def require_input_file(path: AnyPath, what: str) -> int:
    """Bytes of a plain file; an error if they are more than the memory of one item, whether or not it is read whole."""
    size = require_plain_file(path, what).st_size
    allowed = item_memory()
    if size > allowed:
        raise LimitError(
            f"{os.fspath(path)} is a file of {in_words(size)}; expected {what} of at most {in_words(allowed)}: give a "
            f"smaller one, or allow more with the environment variable {MEMORY}={math.ceil(size / 10**9)}GB"
        )
    return size


def in_words(size: int) -> str:
    """A number of bytes, such as 2.4 GB."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}" if size < 1000 * factor else f"{size / factor:,.0f} {unit}"
    return f"{size} bytes"
