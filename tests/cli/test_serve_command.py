"""`faemb serve`: how it starts, what it prints, and how it ends."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from command_line import assert_mistake, commands

from processes import COMMAND, PATIENCE, heeded, wait_until
from served import served
from small_collections import NAMES, make_collection

pytestmark = pytest.mark.web


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    return make_collection(tmp_path_factory.mktemp("served"), NAMES) / "photos.faemb"


@pytest.fixture
def run(monkeypatch, capfd):
    return commands(monkeypatch, capfd)


def test_the_printed_address_answers(photos):
    with served(photos) as server:
        assert httpx.get(f"{server.address}api/images").json()["total"] == len(NAMES)


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_ends_it_in_order(photos, name, code, tmp_path):
    with served(photos, TMPDIR=str(tmp_path)) as server:
        server.process.send_signal(getattr(signal, name))
        _, warned = server.process.communicate(timeout=PATIENCE)
    assert (server.process.returncode, warned) == (code, "faemb: stopped\n")
    assert list(tmp_path.glob("faemb-*")) == []


def test_what_a_visitor_sends_wrongly_is_not_printed(photos):
    with served(photos) as server:
        form = {"Content-Type": "multipart/form-data; boundary=abc"}
        answer = httpx.post(f"{server.address}api/search", content=b"garbage that is no boundary", headers=form)
        server.process.send_signal(signal.SIGTERM)
        _, warned = server.process.communicate(timeout=PATIENCE)
    assert (answer.status_code, warned) == (400, "faemb: stopped\n")


def test_a_request_that_runs_is_answered_before_the_end(photos):
    with served(photos) as server, socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\n")
        client.sendall(b"Content-Type: application/x-www-form-urlencoded\r\n\r\nquery=")
        httpx.get(f"{server.address}api/images")  # now the request above has begun
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not _listens(server.port))
        client.sendall(b"image-1")
        assert client.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"
        assert server.process.wait(PATIENCE) == 143


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def test_another_host_needs_a_token_which_is_made_and_printed(photos):
    with served(photos, "--host", "0.0.0.0") as server:  # noqa: S104
        assert server.token is not None
        assert len(server.token) >= 32
        given = {"Authorization": f"Bearer {server.token}"}
        local = f"http://127.0.0.1:{server.port}/api/images"
        assert httpx.get(local).status_code == 401
        assert httpx.get(local, headers=given).status_code == 200


@pytest.mark.parametrize("how", ["option", "environment"])
def test_a_token_can_be_given(photos, how):
    options, environment = (["--token", "abcdefgh"], {}) if how == "option" else ([], {"FAEMB_TOKEN": "abcdefgh"})
    with served(photos, *options, **environment) as server:
        assert server.token is None  # it is not printed: output may go to a log
        assert httpx.get(f"{server.address}api/images").status_code == 401


@pytest.mark.skipif(sys.platform == "win32", reason="opens a terminal")
def test_a_token_that_was_given_is_printed_to_a_terminal(photos):
    import pty

    ours, theirs = pty.openpty()
    command = [COMMAND, "serve", photos, "--port", "0", "--jobs", "1", "--token", "abcdefgh"]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs) as process:  # noqa: S603
        os.close(theirs)
        with os.fdopen(ours, "rb") as terminal:
            printed = terminal.readline() + terminal.readline()
            process.terminate()
            assert process.wait(PATIENCE) == 143
    assert b"?token=abcdefgh" in printed


def test_faults_are_one_sentence(run, photos, tmp_path):
    assert_mistake(run("serve", tmp_path / "none.faemb", "--port", 0), "none.faemb")
    assert_mistake(run("serve", photos, "--port", 70000), "--port is 70000; expected a whole number, 0 to 65535")
    assert_mistake(run("serve", photos, "--host", "no.such.host.invalid"), "--host is 'no.such.host.invalid'; expected")
    assert_mistake(run("serve", photos, "--token", "a b"), "the token cannot be used; expected 8 to 200 letters")
    assert_mistake(run("serve", photos, "--jobs", 0, "--port", 0), "jobs is 0")


def test_a_port_in_use_is_one_sentence(run, photos):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert_mistake(run("serve", photos, "--port", port), f"cannot listen at port {port} of 127.0.0.1: .* in use; ")


def test_a_missing_extra_is_named(run, photos, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "uvicorn" else find(name))
    assert_mistake(run("serve", photos), r"faemb serve needs the extra 'web': pip install \"faemb\[web\]\"")


@pytest.fixture
def with_interrupts() -> Iterator[None]:
    with heeded(signal.SIGINT):
        yield


@pytest.mark.usefixtures("with_interrupts")
def test_the_browser_is_opened_at_the_address(run, photos, monkeypatch):
    opened = []

    def look(address: str) -> bool:
        opened.append(address)
        threading.Timer(0, os.kill, (os.getpid(), signal.SIGINT)).start()
        return True

    monkeypatch.setattr("webbrowser.open", look)
    ended = run("serve", photos, "--port", 0, "--open", "--token", "abcdefgh")
    assert ended.code == 130
    assert opened == [ended.out.splitlines()[0].rpartition(" at ")[2] + "?token=abcdefgh"]
