"""A process beside the tests that changes small collections and is killed on the way.

Run as a program this is that process: it has imported everything once and does each job in a child of its own, in
which no workers are used. A child can be ordered to die, or to wait, at its n-th step: a step is a call that changes a
file or the database, or that waits for the disk; or the beginning or the end of a call of a Milvus server.
"""

import atexit
import io
import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from faemb.collection import Collection
from faemb.errors import FaembError
from processes import PATIENCE
from small_collections import new_tiny_model, tiny_model, work_here


class Ended(NamedTuple):
    killed: bool
    steps: int
    """Number of steps made; 0 if it was killed."""
    fault: str
    """The error that stopped the job, if one did."""
    told: list[str]
    """What the job has reported as done."""


class Beside:
    """The process, and a file in which its jobs say what they have done."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._said = Path(self._folder.name) / "said.txt"
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")  # a child has no others
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | one_thread,
            text=True,
        )

    def close(self) -> None:
        self._process.communicate(timeout=PATIENCE)
        self._folder.cleanup()

    def run(self, job: str, *arguments: Any, **orders: float | str) -> Ended:
        """Until it ends: by itself, at step `stop`, or `after` seconds; it can make files of `limit` bytes only.

        At step `wait` it says so and waits for `go_on`. With `call`, steps are counted from the first call of that name
        of a Milvus server, such as "Upsert": its beginning is step 1, its end step 2.
        """
        self.start(job, *arguments, **orders)
        return self.end()

    def start(self, job: str, *arguments: Any, **orders: float | str) -> None:
        assert self._process.stdin is not None
        self._said.write_text("")
        order = {"job": job, "arguments": list(map(str, arguments)), "said": str(self._said), **orders}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def waits(self) -> bool:
        return "waits" in self.told()

    def go_on(self) -> None:
        Path(f"{self._said}.go").touch()

    def end(self) -> Ended:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process beside has died"
        return Ended(**json.loads(line), told=self.told())

    def told(self) -> list[str]:
        return self._said.read_text().splitlines()


@cache
def process_beside() -> Beside:
    """The one of this test run."""
    made = Beside()
    atexit.register(made.close)
    return made


class Job:
    """One order, in a child."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order, self._steps = order, 0
        self._is_counting = "call" not in order

    def run(self) -> int:
        """In the child: run the job and write the result to a file."""
        os.setsid()
        fault = ""
        sys.setprofile(self._count)
        limited(self._order.get("limit"))
        try:
            JOBS[self._order["job"]](self._say, *self._order["arguments"])
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        sys.setprofile(None)
        limited(None)
        Path(self._order["said"] + ".end").write_text(json.dumps({"steps": self._steps, "fault": fault}))
        return 0

    def _say(self, text: str) -> None:
        handle = os.open(self._order["said"], os.O_WRONLY | os.O_APPEND)
        os.write(handle, f"{text}\n".encode())
        os.close(handle)

    def _count(self, frame: Any, event: str, function: Any) -> None:
        if event == "c_call":
            if is_step(function):
                self._step(function.__self__)
        elif (name := remote_call(frame)) and event in ("call", "return"):
            self._is_counting |= name == self._order.get("call")
            self._step(None)

    def _step(self, owner: Any) -> None:
        self._steps += self._is_counting
        if self._steps == self._order.get("wait"):
            self._wait()
        if self._steps == self._order.get("stop"):
            if isinstance(owner, io.FileIO):  # a write that was begun: anything may be there now
                os.write(owner.fileno(), os.urandom(300))
            os.killpg(os.getpgrp(), signal.SIGKILL)

    def _wait(self) -> None:
        sys.setprofile(None)
        self._say("waits")
        go = Path(self._order["said"] + ".go")
        while not go.exists():
            time.sleep(0.005)
        go.unlink()
        sys.setprofile(self._count)


def limited(most: int | None) -> None:
    """From now on no file of this process can be made longer than this: the system's answer is an error."""
    import resource  # not everywhere

    resource.setrlimit(
        resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY if most is None else most, resource.RLIM_INFINITY)
    )


STEPS = ("fsync", "fdatasync", "replace", "rename", "unlink", "link", "mkdir", "serialize_file")


def is_step(function: Any) -> bool:
    """Whether a call changes what another process sees."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, sqlite3.Connection):
        return function.__name__.startswith(("execute", "close"))
    if isinstance(owner, io.FileIO):
        return function.__name__ == "write" and owner.name not in (0, 1, 2)
    return function.__name__ in STEPS


def remote_call(frame: Any) -> str:
    """The name of the call, such as "Upsert", if the frame sends one to a Milvus server; `future` does not wait."""
    code = frame.f_code
    if code.co_name not in ("_blocking", "future") or not code.co_filename.endswith(
        os.path.join("grpc", "_channel.py")
    ):
        return ""
    return os.path.basename(os.fsdecode(frame.f_locals["self"]._method))


def index(say: Callable[[str], None], folder: str, images: str, parts: str = "0") -> None:
    with Collection.resume(folder, new_tiny_model().set_params(parts=int(parts))) as collection:
        say("made")
        collection.add(images)
        say("added")


def open_collection(say: Callable[[str], None], folder: str) -> None:
    """Which converts one of an earlier format version."""
    with Collection.open(folder) as collection:
        say(str(collection.migrated))


def open_without_permission(say: Callable[[str], None], folder: str) -> None:
    """As a user who may read the files and may not write."""
    me = os.geteuid()
    os.seteuid(me or 65534)
    try:
        open_collection(say, folder)
    finally:
        os.seteuid(me)


def export(say: Callable[[str], None], folder: str, out: str, form: str, room: str) -> None:
    """Export with room for this number of bytes on the disk."""
    with Collection.open(folder) as collection:
        collection.export(f"{out}.before", form)
        limited(int(room))
        collection.export(out, form)


def add(say: Callable[[str], None], folder: str, *places: str) -> None:
    with Collection.open(folder) as collection:
        for place in places:
            collection.add(place)
            say(place)


def add_only(say: Callable[[str], None], folder: str, *places: str) -> None:
    """With the model as it is."""
    with Collection.open(folder) as collection:
        collection.add(places, relearn=False)
        say("added")


def remove(say: Callable[[str], None], folder: str, *places: str) -> None:
    with Collection.open(folder) as collection:
        collection.remove(places)
        say("removed")


def update(say: Callable[[str], None], folder: str) -> None:
    with Collection.open(folder) as collection:
        collection.update()
        say("updated")


def relearn(say: Callable[[str], None], folder: str) -> None:
    with Collection.open(folder) as collection:
        collection.relearn()
        say("relearned")


def compact(say: Callable[[str], None], folder: str) -> None:
    with Collection.open(folder) as collection, collection._changing(None) as writer:
        writer.compact(collection.model)
        say("compacted")


def repair(say: Callable[[str], None], folder: str) -> None:
    with Collection.open(folder) as collection:
        collection.check(repair=True)
        say("repaired")


def build_index(say: Callable[[str], None], folder: str, image: str) -> None:
    """On a disk that has no room for the index."""
    with Collection.open(folder) as collection:
        collection.search(image)
        limited(500)
        (answer,) = collection.search(image, index="hnsw")
        say(str(answer.hits[0].path))


def look_without_room(say: Callable[[str], None], folder: str, image: str) -> None:
    """On a disk on which nothing can be written at all."""
    limited(0)
    try:
        with Collection.open(folder) as collection:
            hits = [str(collection.search(image, index=kind)[0].hits[0].path) for kind in ("exact", "hnsw")]
            found = [*hits, collection.info().images, collection.check()]
    finally:
        limited(None)
    say(str(found))


def look_only(say: Callable[[str], None], folder: str, image: str) -> None:
    """As a user who may not write there."""
    with Collection.open(folder) as collection:
        collection.search(image)  # imports what others perhaps may not even read
    told, me = [], os.geteuid()
    os.seteuid(me or 65534)
    try:
        with Collection.open(folder) as collection:
            (answer,) = collection.search(image, index="hnsw")
            told += [str(answer.hits[0].path), str(collection.check())]
            collection.remove(image)
    finally:
        os.seteuid(me)
        say("\n".join(told))


def hold(say: Callable[[str], None], folder: str, until: str) -> None:
    """Keep the lock, until there is such a file or it is killed."""
    with Collection.open(folder) as collection, collection._changing(None):
        say("locked")
        while not os.path.exists(until):
            time.sleep(0.005)


def churn(say: Callable[[str], None], folder: str, one: str, other: str) -> None:
    """Many changes that cancel out."""
    try:
        for place in (one, other) * 4:
            with Collection.open(folder) as collection:
                collection.add(place)
                compact(say, folder)
                collection.remove(place)
    finally:
        say("done")


def command(say: Callable[[str], None], *arguments: str) -> None:
    """The command line; two images in a call of a Milvus server."""
    from faemb.cli import main

    pytest.MonkeyPatch().setattr("faemb.collection.stores.milvus._BATCH_BYTES", 400)
    sys.argv = ["faemb", *arguments]
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # which tells the tests how jobs have ended
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise FaembError(f"faemb {arguments[0]} has ended with {ended.code}") from None
    say("done")


def serve_uploads(say: Callable[[str], None], folder: str, pictures: str, until: str) -> None:
    """A server that may change a collection, until there is such a file; `pictures` will be sent.

    Its steps are those of all its threads, from when it has said its port.
    """
    count = sys.getprofile()
    sys.setprofile(None)
    import socket

    from faemb.runtime.worker_processes import Workers
    from faemb.web.app import create_app
    from faemb.web.server import Server
    from faemb.web.settings import ServerSettings

    pytest.MonkeyPatch().setattr(Workers, "start", lambda workers, rehearsal: None)  # for queries, which nobody sends
    server = Server(create_app(ServerSettings(Path(folder), writable=True, jobs=1)), lambda: None)

    def watch() -> None:
        while not os.path.exists(until):
            time.sleep(0.01)
        server.should_exit = True

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=watch, daemon=True).start()
        say(str(listener.getsockname()[1]))
        threading.setprofile(count)
        sys.setprofile(count)
        server.answer(listener)


JOBS = {
    job.__name__: job
    for job in (
        index,
        open_collection,
        open_without_permission,
        export,
        add,
        add_only,
        remove,
        update,
        relearn,
        compact,
        repair,
        build_index,
        look_without_room,
        look_only,
        hold,
        churn,
        command,
        serve_uploads,
    )
}


def get_acquainted(places: Iterable[str]) -> None:
    """Compute the features of all pictures there in this process, so that every child has them."""
    extractor = tiny_model().extractor
    for place in map(Path, places):
        for file in place.rglob("*.png") if place.is_dir() else [place]:
            with suppress(FaembError):  # a broken one is the child's own affair
                extractor.extract(file)


def wait_for(child: int) -> None:
    """Until it has ended. When nobody gives orders any more, such as after a test that failed, it is killed."""
    while not os.waitpid(child, os.WNOHANG)[0]:
        orders, _, _ = select.select([sys.stdin], [], [], 0.005)
        if orders:  # they have ended: a next one is given only after the answer to this one
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)


def serve() -> None:
    work_here(pytest.MonkeyPatch())
    tiny_model()  # imports what learning needs
    with suppress(ImportError):
        import faiss  # noqa: F401
    for line in sys.stdin:
        order = json.loads(line)
        end = Path(order["said"] + ".end")
        end.unlink(missing_ok=True)
        get_acquainted(order["arguments"])
        if order["job"] == "serve_uploads":
            import faemb.web.server  # noqa: F401  # once, for all children
        if order["job"] == "command":
            with suppress(ImportError):
                import pymilvus  # noqa: F401
        child = os.fork()
        if not child:
            os._exit(Job(order).run())
        if "after" in order:
            time.sleep(order["after"])
            os.kill(child, signal.SIGKILL)  # which does nothing to one that has ended
        wait_for(child)
        outcome = json.loads(end.read_text()) if end.exists() else {"steps": 0, "fault": ""}
        print(json.dumps({"killed": not end.exists(), **outcome}), flush=True)


if __name__ == "__main__":
    serve()
