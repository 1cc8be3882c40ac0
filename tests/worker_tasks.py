"""Tasks for worker processes, in a module that is imported quickly: each new worker imports it."""

import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np
import threadpoolctl

from faemb.errors import FaembError, MissingExtraError


class TalkativeError(Exception):
    """Cannot be unpickled, like the errors of many libraries: its arguments are not those of its constructor."""

    def __init__(self, place: str, number: int) -> None:
        super().__init__(f"{place} has failed with {number}")


class Witness:
    """A task that reports where it ran; the item gives the error that it raises."""

    times_unpacked: ClassVar[int] = 0

    def __setstate__(self, state: object) -> None:
        Witness.times_unpacked += 1

    def __getstate__(self) -> str:
        return "some state, so that it is set again on the other side"

    def __call__(self, item: Any) -> dict[str, Any]:
        if item == "value":
            raise ValueError("no good")
        if item == "extra":
            raise MissingExtraError("reading a.heic", "heic")
        if item == "talkative":
            raise TalkativeError("here", 7)
        if item == "lock":
            raise ValueError(threading.Lock())
        pools = [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]
        return {
            "item": item,
            "process": os.getpid(),
            "unpacked": Witness.times_unpacked,
            "threads": {cv2.getNumThreads(), *pools},
        }


def kill_the_worker_on_a_multiple_of_five(item: int) -> int:
    if item % 5 == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
    return -item


def kill_on_three(item: int) -> int:
    if item == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.5 if item == 2 else 0)
    return -item


def endless_from_ten(item: int) -> int:
    """Python code or, from 20, a call of a library that keeps the GIL; others end soon."""
    while 10 <= item < 20:
        pass
    return -item if item < 10 else len(re.findall("(a*)*b", "a" * 40))


def hungry(item: int) -> int:
    return int(np.ones(item, np.uint8)[-1])


def refused_by_the_system(item: str) -> None:
    if item == "NumPy":
        np.ones(10**10)
    if item == "OpenCV":
        cv2.resize(np.ones((2000, 2000), np.float32), (100_000, 30_000))
    raise MemoryError


def process_that_slept(item: float) -> int:
    time.sleep(item)
    return os.getpid()


def slowly_negated(item: int) -> int:
    time.sleep(0.01)
    return -item


def name_of(item: Path) -> str:
    return str(item)


def slowly_identified(item: tuple[Path, int]) -> int:
    time.sleep(0.05)
    return item[1]


class Refusing:
    """Fails unless it is run for a Dask worker in a given process, or the item is 0."""

    def __init__(self, process: int, error: FaembError) -> None:
        self._process, self._error = process, error

    def __call__(self, item: int) -> int:
        time.sleep(0.02)
        if item and os.getppid() != self._process:
            raise self._error
        return item


def a_megabyte(item: int) -> bytes:
    return bytes(1_000_000)
