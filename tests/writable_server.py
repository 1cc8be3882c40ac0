"""A server that may change its collection: a client, and what its answers say."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from faemb.web.app import create_app
from faemb.web.changing import Changes
from faemb.web.settings import ServerSettings
from processes import wait_until
from served import answering


@contextmanager
def writable(collection: Path, **settings: Any) -> Iterator[httpx.Client]:
    with writable_from_within(collection, **settings) as (client, _):
        yield client


class Within(NamedTuple):
    client: httpx.Client
    changes: Changes


@contextmanager
def writable_from_within(collection: Path, **settings: Any) -> Iterator[Within]:
    """With what the server does its changes with: it runs in this process."""
    app = create_app(ServerSettings(collection, **{"writable": True, "jobs": 1, **settings}))
    with answering(app) as client:
        yield Within(client, app.state.service.changes)


def post(client: httpx.Client, *files: Path | tuple[str, bytes]) -> httpx.Response:
    """Upload files, or contents under other names."""
    pairs = [(each.name, each.read_bytes()) if isinstance(each, Path) else each for each in files]
    return client.post("/api/images", files=[("files", pair) for pair in pairs])


def send(client: httpx.Client, *files: Path | tuple[str, bytes], status: int | tuple[int, ...] = 201) -> Any:
    """What the answer to an upload says, if it has this status, or one of these."""
    answer = post(client, *files)
    assert answer.status_code in (status if isinstance(status, tuple) else (status,)), answer.text
    return answer.json()


def names(images: list[dict[str, Any]]) -> list[str]:
    return [image["name"] for image in images]


def ended(client: httpx.Client, job: dict[str, Any]) -> dict[str, Any]:
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
