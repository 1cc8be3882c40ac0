"""A collection behind the HTTP API: a server in a thread of this process, and a client over the loopback."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from faemb.web.app import create_app
from faemb.web.service import Service
from faemb.web.settings import ServerSettings
from processes import PATIENCE, wait_until


class Client(httpx.Client):
    service: Service
    """Of the server, in this process."""


@contextmanager
def served(collection: Path, **settings: Any) -> Iterator[Client]:
    """A client of a server that may change the collection."""
    app = create_app(ServerSettings(collection, **{"writable": True, "jobs": 1, **settings}))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, loop="asyncio", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert wait_until(lambda: server.started or not thread.is_alive())
        host, port = server.servers[0].sockets[0].getsockname()
        with Client(base_url=f"http://{host}:{port}", timeout=PATIENCE, trust_env=False) as client:
            client.service = app.state.service
            yield client
    finally:
        server.should_exit = True
        thread.join(PATIENCE)


def send(client: Client, *files: Path | tuple[str, bytes]) -> Any:
    """The answer to an upload of files, or of contents under other names."""
    pairs = [(each.name, each.read_bytes()) if isinstance(each, Path) else each for each in files]
    answer = client.post("/api/images", files=[("files", pair) for pair in pairs])
    assert answer.status_code == 201, answer.text
    return answer.json()


def names(images: list[dict[str, Any]]) -> list[str]:
    return [image["name"] for image in images]


def ended(client: Client, job: dict[str, Any]) -> dict[str, Any]:
    """The job when it has ended."""
    found = dict(job)

    def has_ended() -> bool:
        found.update(client.get(f"/api/jobs/{job['id']}").json())
        return found["state"] not in ("waiting", "running")

    assert wait_until(has_ended)
    return found


def problem(answer: Any, status: int) -> str:
    """The sentence of an error."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return str(answer.json()["detail"])
