"""A file exists completely or not at all, whatever happens while it is written."""

import errno
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faemb.errors import FaembError, InputError
from faemb.runtime.storage import replacing

SIZE = 1 << 20
KILLS = 10

WRITER = """
import itertools, sys
from faemb.runtime.storage import replacing

for version in itertools.count(1):
    with replacing(sys.argv[1]) as temporary:
        temporary.write_bytes(bytes([version % 256]) * int(sys.argv[2]))
    print(version, flush=True)
"""


def test_a_file_is_made_and_replaced(tmp_path):
    path = tmp_path / "model"
    for content in (b"first", b"second, longer", b""):
        with replacing(path) as temporary:
            temporary.write_bytes(content)
        assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["model"]


def test_until_the_end_the_old_version_is_seen(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    with replacing(str(path)) as temporary:
        temporary.write_bytes(b"new")
        assert path.read_bytes() == b"old"
        assert temporary.parent == tmp_path  # on the same disk, so that it can be renamed
        assert temporary.name.startswith(".")
    assert path.read_bytes() == b"new"


def fail_halfway(path: Path, error: BaseException) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(b"half")
        raise error


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, MemoryError])
def test_a_block_that_raises_leaves_the_old_version_and_nothing_else(tmp_path, error):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    with pytest.raises(error):
        fail_halfway(path, error())
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model"]


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path):
    with pytest.raises(FaembError, match=r"cannot write .*model: No space left on device"):
        fail_halfway(tmp_path / "model", OSError(28, "No space left on device"))
    assert os.listdir(tmp_path) == []


def test_a_read_only_disk_is_told_as_such(tmp_path, monkeypatch):
    """There even a file that does not exist cannot be deleted."""

    def refuse(*how: object, **more: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for call in ("touch", "unlink"):
        monkeypatch.setattr(Path, call, refuse)
    with pytest.raises(FaembError, match=r"cannot write .*: Read-only file system"), replacing(tmp_path / "out"):
        pass


def test_a_block_that_writes_nothing_is_an_error(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    with pytest.raises(FaembError, match="cannot write"), replacing(path):
        pass
    assert path.read_bytes() == b"old"


def test_two_at_a_time_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "model"
    with replacing(path) as one, replacing(path) as other:
        assert one != other
        one.write_bytes(b"one")
        other.write_bytes(b"other")
    assert path.read_bytes() == b"one"  # the outer block ends last
    assert os.listdir(tmp_path) == ["model"]


def test_a_missing_folder_is_explained(tmp_path):
    with pytest.raises(InputError, match=r"the folder .*nowhere does not exist; make it first"):
        replacing(tmp_path / "nowhere" / "model").__enter__()


def test_a_folder_in_its_place_is_explained(tmp_path):
    with pytest.raises(InputError, match="it is a folder; give the name of a file"):
        replacing(tmp_path).__enter__()


def test_names_of_any_length_and_alphabet(tmp_path):
    """The temporary name does not contain the file's name, so it is never too long."""
    path = tmp_path / ("ż " * 85)
    assert len(os.fsencode(path.name)) == 255
    with replacing(path) as temporary:
        temporary.write_bytes(b"here")
    assert path.read_bytes() == b"here"


@pytest.mark.parametrize("length", [256, 5000])
def test_a_name_that_is_too_long_is_explained(tmp_path, length):
    with pytest.raises(FaembError, match="cannot write"), replacing(tmp_path / ("n" * length)) as temporary:
        temporary.write_bytes(b"here")
    assert os.listdir(tmp_path) == []


def test_a_process_that_is_killed_leaves_a_complete_version(tmp_path):
    path, moments = tmp_path / "model", random.Random(7)  # noqa: S311
    for _ in range(KILLS):
        command = [sys.executable, "-c", WRITER, path, str(SIZE)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "1\n"
            time.sleep(moments.uniform(0, 0.02))
        finally:
            writer.kill()
            writer.communicate(timeout=60)
        content = path.read_bytes()
        assert len(content) == SIZE
        assert content == content[:1] * SIZE
    assert len(leftovers(tmp_path)) <= KILLS


def leftovers(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name != "model"]
