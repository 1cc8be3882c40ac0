"""Commands that are stopped by a signal, or for which there is no memory, end in order and say so in one line."""

import os
import re
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from command_line import assert_mistake, commands

from faemb.collection import Model
from faemb.errors import FaembError
from pictures import pictures
from processes import COMMAND, PATIENCE, heeded, living, wait_until
from small_collections import tiny_model


@pytest.fixture
def photos(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return pictures(tmp_path / "photos", range(2))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize(
    ("name", "code", "whom"), [("SIGTERM", 143, "the process"), ("SIGHUP", 129, "all processes")], ids=str
)
def test_a_signal_ends_everything_and_leaves_no_folder(photos, tmp_path, name, code, whom):
    pictures(photos, range(30), size=(320, 240))
    tiny_model().save(tmp_path / "model.safetensors")
    arguments = ["encode", "photos", "--model", "model.safetensors", "--out", "vectors.npz", "--jobs", "2"]
    pipe = subprocess.PIPE
    with heeded(getattr(signal, name)):
        run = subprocess.Popen([COMMAND, *arguments], start_new_session=True, text=True, stdout=pipe, stderr=pipe)  # noqa: S603
    try:
        assert wait_until(lambda: any((tmp_path / "tmp").glob("faemb-*/collection")) or run.poll() is not None)
        (os.kill if whom == "the process" else os.killpg)(run.pid, getattr(signal, name))
        _, warned = run.communicate(timeout=PATIENCE)
    finally:
        run.kill()
        run.wait(PATIENCE)
        all_ended = wait_until(lambda: not living(run.pid))
    assert run.returncode == code
    assert warned.endswith("faemb: stopped\n")
    assert "Traceback" not in warned
    assert list((tmp_path / "tmp").glob("faemb-*")) == []
    assert not (tmp_path / "vectors.npz").exists()
    assert all_ended


@pytest.mark.skipif(os.name != "posix", reason="a process sends itself a signal")
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_interrupt_inside_sqlite_is_no_error_of_it(photos, monkeypatch, capfd, name, code):
    """SQLite makes an error of its own of whatever a function that it calls has raised."""

    def interrupted(*arguments, **options):
        with closing(sqlite3.connect(":memory:")) as database:
            database.create_function("checksum", 0, lambda: os.kill(os.getpid(), getattr(signal, name)))
            database.execute("select checksum()")

    monkeypatch.setattr(Model, "load", interrupted)
    with heeded(getattr(signal, name)):
        ended = commands(monkeypatch, capfd)("encode", "photos", "--model", "a.model", "--out", "vectors.npz")
    assert (ended.code, ended.err) == (code, "faemb: stopped\n")


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no such signal")
def test_a_signal_that_is_ignored_stays_ignored(photos, monkeypatch, capfd):
    """As with nohup."""

    def hung_up(*arguments, **options):
        os.kill(os.getpid(), signal.SIGHUP)
        raise FaembError("it went on")

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        monkeypatch.setattr(Model, "load", hung_up)
        ended = commands(monkeypatch, capfd)("encode", "photos", "--model", "a.model", "--out", "vectors.npz")
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert_mistake(ended, "it went on")


def test_a_lack_of_memory_is_one_sentence(photos, monkeypatch, capfd):
    def exhausted(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(Model, "load", exhausted)
    ended = commands(monkeypatch, capfd)("encode", "photos", "--model", "model.safetensors", "--out", "vectors.npz")
    assert_mistake(ended, re.escape("there is not enough memory; close other programs"))


@pytest.mark.skipif(os.name != "posix", reason="closes the reading end of a pipe")
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("arguments", [["datasets"], ["--version"], ["index", "--help"]], ids=" ".join)
def test_an_output_that_nobody_reads_any_more_is_no_error(arguments, unbuffered):
    """As in `faemb ... | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with os.fdopen(writing, "wb") as closed:
        run = subprocess.run([COMMAND, *arguments], stdout=closed, stderr=subprocess.PIPE, env=environment, check=False)  # noqa: S603
    assert (run.returncode, run.stderr) == (0, b"")


@pytest.mark.skipif(os.name != "posix", reason="sets a limit of POSIX systems")
@pytest.mark.parametrize("most", [12, 16, 18])
def test_too_few_open_files_for_worker_processes_are_one_sentence(photos, most):
    line = f'ulimit -n {most}; exec "$0" features photos --out features --jobs 2'
    run = subprocess.run(["/bin/sh", "-c", line, COMMAND], capture_output=True, text=True, timeout=PATIENCE)  # noqa: S603
    assert run.returncode == 1
    assert run.stderr.splitlines() == [
        "faemb: this process may open too few files at a time; allow more with: ulimit -n 1024, and run it again"
    ]
