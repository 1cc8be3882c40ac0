"""Temporary folders: removed in the end, whatever happens, and never those of others."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock, Timeout

from faemb.runtime.scratch import scratch_folder
from processes import PATIENCE

KILLED = """
import os, signal
from faemb.runtime.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "collection").mkdir()
    (folder / "collection" / "vectors.bin").write_bytes(bytes(1000))
    print(folder, flush=True)
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    """The system's temporary folder, empty."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left_by_a_killed_process() -> Path:
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=False
    )
    assert ended.returncode != 0
    return Path(ended.stdout.strip())


def test_a_folder_is_there_and_then_gone(place):
    with scratch_folder() as folder:
        (folder / "file").touch()
        assert folder.parent == place
    assert list(place.iterdir()) == []


def test_an_error_leaves_nothing(place):
    def fail() -> None:
        with scratch_folder():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(place.iterdir()) == []


def test_what_a_killed_process_has_left_goes_with_the_next(place):
    left = left_by_a_killed_process()
    assert (left / "collection" / "vectors.bin").exists()
    with scratch_folder() as folder:
        assert list(place.iterdir()) == [folder]


def test_a_folder_in_use_stays(place):
    with scratch_folder() as first, scratch_folder() as second:
        assert sorted(place.iterdir()) == sorted([first, second])
        assert first != second


def test_nothing_else_is_removed(place):
    """Not even what looks alike: a user's folder, one without a lock, a link, one with a longer name."""
    left = left_by_a_killed_process()
    (place / "faemb-12345678").mkdir()
    (place / "faemb-12345678" / "mine.txt").touch()
    left.rename(place / "faemb-of-mine")
    (place / "faemb-abcdefgh").symlink_to(place / "faemb-of-mine")
    (place / "faemb-00000000").touch()
    before = sorted(place.rglob("*"))
    with scratch_folder():
        pass
    assert sorted(place.rglob("*")) == before


def test_a_folder_that_is_swept_before_it_is_locked_is_made_anew(place, monkeypatch):
    made: list[str] = []
    make = tempfile.mkdtemp

    def swept_at_first(prefix: str) -> str:
        made.append(make(prefix=prefix))
        if len(made) == 1:
            os.rmdir(made[0])
            Path(made[0]).touch()  # so that it cannot be locked either
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", swept_at_first)
    monkeypatch.setattr(FileLock, "acquire", _refusing_first(FileLock.acquire))
    with scratch_folder() as folder:
        assert str(folder) == made[1]
        assert folder.is_dir()


def _refusing_first(acquire: Any) -> Any:
    calls: list[int] = []

    def replaced(self: Any, *arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise Timeout(self.lock_file)
        return acquire(self, *arguments, **options)

    return replaced


def test_a_system_without_locks_gives_a_folder_that_is_never_swept(place, monkeypatch):
    def unsupported(self, *arguments, **options):
        raise NotImplementedError

    monkeypatch.setattr(FileLock, "acquire", unsupported)
    with scratch_folder() as folder:
        assert list(folder.iterdir()) == []
        with scratch_folder():
            assert folder.is_dir()
    assert list(place.iterdir()) == []
