"""Commands as real processes: waiting for them and for their workers; and work that is done without any."""

import os
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faemb.errors import FaembError
from faemb.runtime.parallel import TaskFailed

COMMAND = Path(sysconfig.get_path("scripts")) / "faemb"
PATIENCE = 120.0
"""Seconds until something is taken to hang."""


@contextmanager
def heeded(number: signal.Signals) -> Iterator[None]:
    """As in a terminal: what nohup or a shell starts in the background ignores some signals, and so do its children."""
    before = signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, before)


def living(session: int) -> list[int]:
    """Processes of a session without zombies."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, owner = (place / "stat").read_text().rsplit(") ", 1)[1].split()[:4]
        except OSError:
            continue  # it has ended meanwhile
        if int(owner) == session and state != "Z":
            found.append(int(place.name))
    return found


def wait_until(condition: Callable[[], Any], *, pause: float = 0.02) -> bool:
    """Whether the condition became true within PATIENCE seconds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


def killed_when(arguments: Iterable[Any], when: Callable[[], bool]) -> bool:
    """Kill the command and all its workers at once as soon as the condition holds; False if it has ended by itself."""
    run = subprocess.Popen([COMMAND, *arguments, "--quiet"], start_new_session=True)  # noqa: S603
    try:
        assert wait_until(lambda: when() or run.poll() is not None, pause=0.005)
        assert run.poll() in (None, 0)
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
        code = run.wait(PATIENCE)
    return code == -signal.SIGKILL


def one_after_the_other(task: Callable[[Any], Any], items: Iterable[Any], *, jobs: int | None = None) -> Iterator[Any]:
    """In place of `spread`: no workers."""
    for item in items:
        try:
            yield item, task(item)
        except FaembError as error:
            yield item, error
        except Exception as error:
            yield item, TaskFailed(f"{type(error).__name__}: {error}")
