"""What a request may cost: bytes, seconds, and room beside the others."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse

from faemb.web import answer_cache, connections
from faemb.web.guard.costs import BoundCosts
from faemb.web.settings import ServerSettings
from processes import PATIENCE, wait_until
from served import serving
from small_collections import make_collection

FORM = "multipart/form-data; boundary=x"


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_collection(tmp_path_factory.mktemp("costly"), ["a.png", "b.png"]) / "photos.faemb"


@pytest.fixture(scope="module")
def client(collection: Path) -> Iterator[httpx.Client]:
    """A server that allows little."""
    settings = ServerSettings(collection, jobs=1, most_bytes=500_000, most_waiting=2)
    with serving(settings) as client:
        yield client


@contextmanager
def connected(client: httpx.Client) -> Iterator[socket.socket]:
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=PATIENCE) as connection:
        yield connection


def begin(connection: socket.socket, length: int = 100, kind: str = FORM) -> None:
    """A request whose body does not come."""
    head = f"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    connection.sendall(head.encode())


def status_of(connection: socket.socket) -> int:
    with connection.makefile("rb") as answer:
        return int(answer.readline().split()[1])


def assert_refused(response: httpx.Response, status: int, words: str) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert words in response.json()["detail"]


FILE = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.jpg"\r\n\r\n'


def blocks(size: int) -> Iterator[bytes]:
    """Sent in chunks, without a length."""
    yield FILE
    for _ in range(0, size, 100_000):
        yield bytes(100_000)
    yield b"\r\n--x--\r\n"


def test_a_large_file_is_refused_by_its_length(client):
    response = client.post("/api/search", files={"file": ("a.jpg", bytes(2_000_000))})
    assert_refused(response, 413, "at most 1.5 MB can be sent at a time")


def test_a_large_file_is_refused_without_a_length(client):
    response = client.post("/api/search", content=blocks(2_000_000), headers={"Content-Type": FORM})
    assert_refused(response, 413, "at most 1.5 MB can be sent at a time")


def test_a_request_without_a_file_is_small(client):
    for path in ("/api/search", "/nothing"):
        response = client.post(path, content=bytes(1_100_000), headers={"Content-Type": "application/json"})
        assert_refused(response, 413, "at most 1 MB can be sent at a time")


def test_a_file_of_the_allowed_size_is_read(client):
    response = client.post("/api/search", content=blocks(500_000), headers={"Content-Type": FORM})
    assert_refused(response, 422, "a.jpg is not an image")


def test_a_slow_request_is_ended(collection):
    settings = ServerSettings(collection, jobs=1, body_seconds=0.5)
    with serving(settings) as client, connected(client) as connection:
        begin(connection)
        assert status_of(connection) == 408


def test_many_parts_are_refused(client):
    response = client.post("/api/search", files=[("file", ("a.jpg", b"x"))] * 1100)
    assert_refused(response, 400, "Too many files")


def test_more_requests_than_the_server_can_do_are_told_to_come_again(client):
    with connected(client) as one, connected(client) as other:
        begin(one)
        begin(other)
        assert wait_until(lambda: _in_flight(client) == 2)
        refused = client.post("/api/search", data={"query": "image-1"})
        assert_refused(refused, 429, "ask again in a few seconds")
        assert int(refused.headers["Retry-After"]) > 0
        for path in ("/healthz", "/api/images/1/thumbnail", "/metrics"):
            assert client.get(path).status_code == 200  # what is ready is sent
    assert wait_until(lambda: client.get("/api/images").status_code == 200)


def test_all_requests_together_hold_little(collection):
    """Each one may be large, all of them may not."""
    bound = BoundCosts(reading, ServerSettings(collection, most_bytes=100_000))
    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"content-type", FORM.encode()), CHUNKED]}

    async def statuses() -> list[int]:
        held, sent = asyncio.Event(), asyncio.Event()
        first = asyncio.create_task(bound(scope, coming(750_000, held, sent), answers := Answers()))
        await held.wait()
        await bound(scope, coming(100_000), second := Answers())
        sent.set()
        await first
        await bound(scope, coming(100_000), third := Answers())
        return [*answers.statuses, *second.statuses, *third.statuses]

    assert asyncio.run(statuses()) == [200, 429, 200]


CHUNKED = (b"transfer-encoding", b"chunked")


class Answers:
    def __init__(self) -> None:
        self.statuses: list[int] = []

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.statuses.append(message["status"])


async def reading(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await PlainTextResponse("read")(scope, receive, send)


def coming(size: int, held: asyncio.Event | None = None, until: asyncio.Event | None = None) -> Any:
    """A body, whose end does not come before `until`."""
    messages: list[dict[str, Any]] = [{"body": bytes(size), "more_body": True}, {}]
    rest = iter([{"type": "http.request"} | message for message in messages])

    async def receive() -> Any:
        message = next(rest, None)
        if message is None:
            await asyncio.get_running_loop().create_future()
        elif "body" not in message and held is not None and until is not None:
            held.set()
            await until.wait()
        return message

    return receive


class Slow:
    """Searches that wait until they are allowed to go on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.begun, self.go_on = 0, threading.Event()
        self._find: Callable[..., object] = answer_cache._found
        patch.setattr(answer_cache, "_found", self)

    def __call__(self, *given: object) -> object:
        self.begun += 1
        assert self.go_on.wait(PATIENCE)
        return self._find(*given)


def ask(connection: socket.socket, id: int) -> None:
    begin(connection, 13, "application/x-www-form-urlencoded")
    connection.sendall(b"query=image-%d" % id)


def test_the_work_for_a_client_that_has_gone_is_left_out(collection, monkeypatch):
    slow = Slow(monkeypatch)
    with serving(ServerSettings(collection, jobs=1)) as client:
        try:
            with connected(client) as one, connected(client) as other:
                ask(one, 1)
                assert wait_until(lambda: slow.begun == 1)
                ask(other, 2)
                assert wait_until(lambda: _in_flight(client) == 2)
                other.close()
                assert wait_until(lambda: _in_flight(client) == 1)
                slow.go_on.set()
                assert status_of(one) == 200
                assert client.post("/api/search", data={"query": "image-1"}).status_code == 200
                assert slow.begun == 1
        finally:
            slow.go_on.set()


def _in_flight(client: httpx.Client) -> int:
    """Requests beside this one."""
    lines = client.get("/metrics").text.splitlines()
    return int(float(next(line for line in lines if line.startswith("faemb_requests_in_flight ")).split()[1])) - 1


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: local"])
def test_a_connection_on_which_nothing_is_asked_is_closed(client, monkeypatch, sent):
    monkeypatch.setattr(connections, "SECONDS", 0.5)
    with connected(client) as connection:
        connection.sendall(sent)
        while connection.recv(10_000):
            pass  # until the end


def test_a_head_that_comes_bit_by_bit_is_not_waited_for(client, monkeypatch):
    monkeypatch.setattr(connections, "SECONDS", 0.5)

    with connected(client) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        assert wait_until(lambda: _was_closed(connection))


def test_an_answer_that_is_not_taken_is_given_up(client, monkeypatch):
    monkeypatch.setattr(connections, "SECONDS", 0.5)
    monkeypatch.setattr("faemb.web.metrics.Metrics.page", lambda metrics: bytes(30_000_000))
    with connected(client) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 10_000)
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.recv(10)
        assert wait_until(lambda: _was_closed(connection))


def _was_closed(connection: socket.socket) -> bool:
    """Writing is refused, while nothing of the answer is read."""
    try:
        connection.sendall(b"X")
    except OSError:
        return True
    return False


def test_idle_connections_lock_nobody_out(client):
    """As many as there may be and more, all of one client; the oldest make room."""
    with ExitStack() as held:
        idle = [held.enter_context(connected(client)) for _ in range(connections.MOST + 20)]
        for _ in range(5):
            assert httpx.get(f"{client.base_url}/healthz", trust_env=False).status_code == 200
        assert wait_until(lambda: all(map(_ended, idle[:20])))
        assert not any(map(_ended, idle[-20:]))


def test_connections_that_are_at_work_keep_their_place(client, monkeypatch):
    with connected(client) as one, connected(client) as other:
        begin(one)
        begin(other)
        assert wait_until(lambda: _in_flight(client) == 2)
        monkeypatch.setattr(connections, "MOST", 2)
        # The third one takes the place of that of `client`, and the fourth one that of the third.
        with connected(client) as third, connected(client) as fourth:
            assert wait_until(lambda: _ended(third))
            assert not _ended(fourth)
        assert not _ended(one)
        assert not _ended(other)


def _ended(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
