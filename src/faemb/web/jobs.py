"""Long work that a user follows, and can cancel: each job runs on a thread, one after the other."""

import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from faemb.collection import Collection
from faemb.errors import FaembError, Fault
from faemb.runtime import UNKNOWN, Progress, time_left
from faemb.web.collection_thread import CollectionThread
from faemb.web.problems import Problem, for_visitors, passes

State = Literal["waiting", "running", "done", "failed", "cancelled"]
WAITING: State = "waiting"
RUNNING: State = "running"
DONE: State = "done"
FAILED: State = "failed"
CANCELLED: State = "cancelled"
_KEPT = 50
"""Number of finished jobs that are still listed."""
_MOST_WAITING = 20
_LOG = logging.getLogger(__name__)


class Cancelled(Exception):
    """Raised by the progress of a job that was cancelled: its work ends as by Ctrl-C, and what was stored stays."""


@dataclass(frozen=True)
class Outcome:
    result: str
    """A sentence."""
    failed: Sequence[Fault] = ()
    """Files that could not be used."""
    passes: bool = False
    """It has failed for a reason that may pass by itself."""


Work = Callable[[Collection, Progress], Outcome]


class Job:
    """Changed by the thread that works on it, and read by others."""

    def __init__(self, kind: str) -> None:
        self.id, self.kind = secrets.token_hex(8), kind
        self.state: State = WAITING
        self.stage, self.done, self.total = "", 0, UNKNOWN
        self.outcome: Outcome | None = None
        self._is_cancelled, self._lock = False, threading.Lock()
        self._began = self._stage_began = self._ended = 0.0

    @property
    def has_ended(self) -> bool:
        return self.state not in (WAITING, RUNNING)

    @property
    def seconds(self) -> float:
        """Since its work began."""
        return (self._ended or time.monotonic()) - self._began if self._began else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Of the present stage."""
        return time_left(time.monotonic() - self._stage_began, self.done, self.total) if self.state == RUNNING else None

    def cancel(self) -> None:
        """At once if it waits, else at its next step; one that has ended stays as it is."""
        with self._lock:
            self._is_cancelled = True
            if self.state == WAITING:
                self._end(CANCELLED, Outcome("Cancelled before it began."))

    def progress(self, stage: str, done: int, total: int) -> None:
        if self._is_cancelled:
            raise Cancelled
        if stage != self.stage or done < self.done:
            self._stage_began = time.monotonic()
        self.stage, self.done, self.total = stage, done, total

    def run(self, photos: Collection, work: Work) -> None:
        with self._lock:
            if self.state != WAITING:
                return
            self.state, self._began = RUNNING, time.monotonic()
        state, outcome = self._worked(photos, work)
        with self._lock:
            self._end(state, outcome)

    def _worked(self, photos: Collection, work: Work) -> tuple[State, Outcome]:
        try:
            return DONE, work(photos, self.progress)
        except Cancelled:
            return CANCELLED, Outcome("Cancelled; what was done before stays.")
        except FaembError as error:
            return FAILED, Outcome(for_visitors(error), passes=passes(error))
        except Exception:
            _LOG.exception("a job has failed")
            return FAILED, Outcome("The server has met a fault of its own; its log has the details.")

    def _end(self, state: State, outcome: Outcome) -> None:
        self.outcome, self._ended = outcome, time.monotonic()
        self.state = state  # last: who sees it may read the outcome


class Jobs:
    """Queue of jobs, and the last finished ones; not thread-safe."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, Job] = OrderedDict()

    def start(self, kind: str, thread: CollectionThread, work: Work) -> Job:
        if sum(not job.has_ended for job in self._jobs.values()) >= _MOST_WAITING:
            raise Problem(429, "Too many jobs wait already; try again when some have ended.", Retry_After="30")
        job = Job(kind)
        self._jobs[job.id] = job
        for old in [each for each in self._jobs.values() if each.has_ended][:-_KEPT]:
            del self._jobs[old.id]
        thread.submit(lambda photos: job.run(photos, work))
        return job

    def get(self, id: str) -> Job:
        try:
            return self._jobs[id]
        except KeyError:
            raise Problem(404, "There is no such job; the server forgets jobs when it is started again.") from None

    def all(self) -> list[Job]:
        """The newest first."""
        return list(reversed(self._jobs.values()))

    def close(self) -> None:
        """Cancel all; those that run end at their next step."""
        for job in self._jobs.values():
            job.cancel()
