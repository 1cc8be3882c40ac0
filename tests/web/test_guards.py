"""Who may ask a server, and what every answer carries; over real connections."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from faemb.errors import InputError
from faemb.web.guard.headers import HEADERS
from faemb.web.settings import ServerSettings
from served import serving
from small_collections import make_collection

SECRET = "a-token-of-a-test"  # noqa: S105


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_collection(tmp_path_factory.mktemp("guarded"), ["a.png", "b.png"]) / "photos.faemb"


@pytest.fixture(scope="module")
def client(collection: Path) -> Iterator[httpx.Client]:
    with serving(ServerSettings(collection, jobs=1, host_names=("Photos.example.org",))) as client:
        yield client


@pytest.fixture(scope="module")
def closed(collection: Path) -> Iterator[httpx.Client]:
    """A server for other machines, with a token."""
    with serving(ServerSettings(collection, jobs=1, host="0.0.0.0", token=SECRET)) as client:  # noqa: S104
        yield client


def assert_refused(response: httpx.Response, status: int, words: str) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert words in response.json()["detail"]


def raw(client: httpx.Client, request: bytes) -> tuple[int, bytes]:
    """Status and body of the answer to these bytes; the connection is closed by the server."""
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=60) as connection:
        connection.sendall(request)
        with connection.makefile("rb") as answer:
            line = answer.readline().split()
            head = b"".join(iter(answer.readline, b"\r\n"))
            length = next(
                (int(each[15:]) for each in head.lower().split(b"\r\n") if each[:15] == b"content-length:"), 0
            )
            return int(line[1]), answer.read(length)


# Answers


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/images", 200),
        ("GET", "/api/images/1/thumbnail", 200),
        ("GET", "/api", 200),
        ("GET", "/healthz", 200),
        ("GET", "/metrics", 200),
        ("GET", "/nothing", 404),
        ("GET", "/api/images/x", 422),
        ("OPTIONS", "/api/search", 405),
        ("TRACE", "/", 404),
    ],
)
def test_every_answer_carries_the_headers(client, method, path, status):
    response = client.request(method, path)
    assert response.status_code in (status, 405)
    assert {name: response.headers[name] for name in HEADERS} == HEADERS
    assert "unsafe" not in response.headers["Content-Security-Policy"]
    assert response.headers["Cache-Control"]
    assert "server" not in response.headers


def test_refused_requests_carry_the_headers(client):
    response = client.get("/api/images", headers={"Host": "evil.example"})
    assert response.status_code == 421
    assert {name: response.headers[name] for name in HEADERS} == HEADERS


def test_an_unforeseen_error_shows_no_trace(client, monkeypatch, caplog):
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a detail of the code")

    monkeypatch.setattr("faemb.web.routes.images.image_of", fail)
    response = client.get("/api/images")
    assert_refused(response, 500, "a fault of its own")
    assert "ZeroDivision" not in response.text
    assert "detail of the code" not in response.text
    assert {name: response.headers[name] for name in HEADERS} == HEADERS
    assert "a detail of the code" in caplog.text


# Host names


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:1",
        "localhost.",
        "127.0.0.1:8000",
        "[::1]:99",
        "photos.example.org",
        "photos.example.org:443",
    ],
)
def test_names_of_this_machine_are_known(client, host):
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "localhost.evil.example", "evil.example:8000", "127.0.0.1.evil.example", "192.168.0.1"),
        *("user@localhost", "localhost@evil.example", "localhost:x", "localhost/", "[::1", "", "local host", "::1"),
    ],
)
def test_other_names_are_refused(client, host):
    assert_refused(client.get("/api/images", headers={"Host": host}), 421, "--host-name")


def test_a_server_for_other_machines_is_known_by_numbers_and_its_own_name(closed):
    for host in ("192.168.0.1:8000", "[fe80::1]", socket.gethostname(), f"{socket.gethostname()}.local", "localhost"):
        assert closed.get("/healthz", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "192.168.0.1.evil.example", "300.1.1.1"):
        assert closed.get("/healthz", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("name", ["http://a.example", "a.example:80", "a b", ""])
def test_a_host_name_that_is_none_is_explained(name):
    with pytest.raises(InputError, match="expected a name such as photos"):
        ServerSettings(Path("photos.faemb"), host_names=(name,))


# The token


def test_without_the_token_only_health_is_told(closed):
    assert closed.get("/healthz").json() == {"status": "ok"}
    for path in (
        "/",
        "/api",
        "/api/images",
        "/api/info",
        "/metrics",
        "/openapi.json",
        "/api/images/1/file",
        "/nothing",
    ):
        response = closed.get(path)
        assert_refused(response, 401, "needs a token")
        assert response.headers["WWW-Authenticate"] == "Bearer"
    assert_refused(closed.post("/api/search", data={"query": "image-1"}), 401, "needs a token")


@pytest.mark.parametrize(
    "header",
    [
        *(f"Bearer {SECRET}x", f"Bearer {SECRET[:-1]}", "Bearer", f"Basic {SECRET}", SECRET, ""),
        *(f"Bearer {SECRET}\u00e9", f"Bearer {SECRET} {SECRET}"),
    ],
)
def test_a_wrong_token_is_refused(closed, header):
    response = closed.get("/api/images", headers={"Authorization": header.encode("latin-1")})
    assert_refused(response, 401, "needs a token")


def test_the_token_as_a_header(closed):
    for kind in ("Bearer", "bearer"):
        assert closed.get("/api/images", headers={"Authorization": f"{kind} {SECRET}"}).json()["total"] == 2


def test_opening_the_address_with_the_token_sets_a_cookie_that_other_sites_cannot_use(closed):
    entered = closed.get("/", params={"query": "image-1", "token": SECRET, "name": ""})
    assert (entered.status_code, entered.headers["location"]) == (303, "/?query=image-1&name=")
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie
    name, value = cookie.split(";")[0].split("=", 1)
    closed.cookies.clear()
    assert closed.get("/api/images", headers={"Cookie": f"{name}={value}"}).status_code == 200
    assert closed.get("/api/images", headers={"Cookie": f"{name}={value}x"}).status_code == 401
    assert closed.get("/api/images", headers={"Cookie": f"other={value}"}).status_code == 401


def test_behind_tls_the_cookie_is_secure(closed):
    entered = closed.get("/", params={"token": SECRET}, headers={"X-Forwarded-Proto": "https"})
    assert "Secure" in entered.headers["set-cookie"]
    closed.cookies.clear()


def test_the_way_on_stays_on_this_server(closed):
    for path in ("//evil.example/", "/%2fevil.example", "/\\evil.example"):
        status = closed.get(f"{str(closed.base_url).rstrip('/')}{path}?token={SECRET}")
        closed.cookies.clear()
        assert status.status_code == 303
        assert not status.headers["location"].startswith(("//", "/\\"))


def test_the_token_opens_no_api_route_through_the_address(closed):
    """It would stay in logs and in the history."""
    assert closed.get("/api/images", params={"token": SECRET}).status_code == 401


def test_a_browser_is_asked_for_the_token(closed):
    for path, words in (("/", "Whoever runs the server can tell its token"), ("/?token=wrong", "not the token")):
        response = closed.get(path, headers={"Accept": "text/html,*/*"})
        assert response.status_code == 401
        assert response.headers["content-type"].startswith("text/html")
        assert words in response.text
        assert "<script" not in response.text
        assert "style=" not in response.text
    assert closed.get("/api/images", headers={"Accept": "text/html"}).headers["content-type"].endswith("problem+json")


# Same origin

OWN = [
    {},
    {"Origin": "http://127.0.0.1:8000", "Host": "127.0.0.1:8000"},
    {"Origin": "http://localhost", "Host": "localhost"},
    {"Origin": "http://localhost", "Host": "LOCALHOST:80"},
    {"Origin": "https://photos.example.org", "Host": "photos.example.org"},
    {"Origin": "http://[::1]:8000", "Host": "[::1]:8000"},
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
]
OTHERS = [
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "http://evil.example"},
    {"Origin": "http://["},
    {"Origin": "file://"},
    {"Origin": "http://localhost:8001", "Host": "localhost:8000"},
    {"Origin": "http://localhost.evil.example", "Host": "localhost"},
    {"Origin": "http://127.0.0.1:8000", "Host": "localhost:8000"},
    {"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


@pytest.mark.parametrize("headers", OWN, ids=str)
def test_pages_of_this_server_and_programs_may_ask(client, headers):
    assert client.post("/api/search", data={"query": "image-1"}, headers=headers).status_code == 200


@pytest.mark.parametrize("headers", OTHERS, ids=str)
def test_pages_of_other_sites_may_not(client, headers):
    sentence = "only pages of this server"
    assert_refused(client.post("/api/search", data={"query": "image-1"}, headers=headers), 403, sentence)
    assert_refused(client.delete("/api/images/1", headers=headers), 403, sentence)
    assert_refused(client.get("/api/explain/image-1/2", headers=headers), 403, sentence)


def test_links_of_other_sites_may_lead_to_pages(client):
    assert client.get("/api", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


# Requests that no browser sends


@pytest.mark.parametrize("path", ["/", "/api/info", "/api/images/1/thumbnail", "/healthz", "/nothing"])
def test_a_head_is_that_of_the_answer(client, path):
    whole, head = client.get(path), client.head(path)
    assert head.status_code == whole.status_code
    assert head.content == b""
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert head.headers["content-length"] == str(len(whole.content))


def test_a_head_changes_nothing(client):
    assert client.head("/api/undo/1").status_code == 405


@pytest.mark.parametrize(
    "line",
    [
        *("HEAD /api/images", "OPTIONS *", "OPTIONS /api/images", "BREW /api/images", "CONNECT localhost:80"),
        *("GET http://localhost/api/images", "GET http://evil.example/", "GET //api//images", "GET /api/../etc/passwd"),
        *("GET /api/images/%2e%2e%2f", "GET /api/images/%00", "GET /%00", "GET /static/%00", "GET /static/..%2f..%2fx"),
        *("GET /api/images/-1", "GET /api/images/99999999999999999999", "GET /api/images/1%2ffile", "GET /\\..\\x"),
        *("GET /api/pictures/image-%F0%9F%92%A9", "GET /api/explain/image-%EF%BC%91/1", "GET /api/images?offset=%00"),
        *("GET /api/images/1e3", "GET /api/images/0x1", "GET /%ff%fe", "GET /api/images?limit=9999999999999999999999"),
        *("GET /api/pictures/upload-..%2f..%2fetc", "GET /api/images?folder=%00", "GET /api/images?name=%ff"),
        "GET /api/pictures/" + "a" * 5000,
    ],
)
def test_odd_requests_are_refused_or_answered_but_are_no_fault(client, line):
    status, body = raw(client, f"{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert 200 <= status < 500
    if status >= 400 and body:
        assert json.loads(body)["status"] == status


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: \0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000,
        b"GET /" + b"x" * 200_000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"not http\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
    ],
    ids=lambda given: repr(given[:40]),
)
def test_what_is_not_http_is_refused(client, request_):
    status, body = raw(client, request_)
    assert status in (400, 421)
    assert json.loads(body)["detail"].startswith(("The request is not HTTP", "This server is not called"))
    assert client.get("/healthz").status_code == 200


def test_both_lengths_at_once_cannot_smuggle_a_request(client):
    """RFC 9112: the chunks count, and the connection is not used again, or the request is refused."""
    head = b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    status, _ = raw(client, head + b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert 400 <= status < 500
