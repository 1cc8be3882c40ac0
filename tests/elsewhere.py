"""Images on servers: fsspec's own in this process, and one of the standard library that lists a folder by HTTP."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec

SECRET = "Pa55-word"  # noqa: S105  (no text may contain it)


def in_memory(folder: Path) -> str:
    """The URL of a copy of a folder, in the memory of this process."""
    system, name = fsspec.filesystem("memory"), uuid.uuid4().hex
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        system.pipe_file(f"/{name}/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return f"memory://{name}"


def write(url: str, content: bytes) -> None:
    fsspec.filesystem("memory").pipe_file(url, content)


def delete(url: str) -> None:
    fsspec.filesystem("memory").rm(url, recursive=True)


class Files(SimpleHTTPRequestHandler):
    """Serves a folder; each request is noted, and some files have answers of their own."""

    asked: list[str]

    def do_HEAD(self) -> None:
        self._answer(super().do_HEAD)

    def do_GET(self) -> None:
        self._answer(super().do_GET)

    def _answer(self, usual: Callable[[], None]) -> None:
        self.asked.append(f"{self.command} {self.path} {self.headers.get('Authorization', '')}".rstrip())
        if "secret" in self.path and self.headers.get("Authorization") is None:
            self.send_error(401)
        elif self.path.rstrip("/").endswith("loop"):
            self._page('<a href="loop/">a folder that contains itself</a><a href="../secret/">up</a>')
        elif "forbidden" in self.path:
            self.send_error(403)
        elif "cut" in self.path and self.command == "GET":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"begin")
        elif "broken" in self.path:
            self.send_error(500)
        elif "endless" in self.path:
            self._endless("image/jpeg" if "jpg" in self.path else "text/html")
        else:
            usual()

    def _page(self, content: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content.encode())

    def _endless(self, kind: str) -> None:
        """Never says how long it is, and takes its time."""
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        if self.command == "GET":
            try:
                for _ in range(1000):
                    self.wfile.write(b"\xff" * 100_000)
                    time.sleep(0.01)
            except OSError:
                pass

    def log_message(self, *parts: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The address of a server of this folder, and the requests that it has got."""
    asked: list[str] = []
    handler = partial(type("Handler", (Files,), {"asked": asked}), directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()
