"""Files that users send to be added: written completely and to the disk, then given a safe name of their own."""

import os
import re
import shutil
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO

from faemb.errors import InputError
from faemb.features.job import content_hash
from faemb.runtime.storage import CATALOGUE, make_folder, sync_folder
from faemb.web.problems import Problem

_BLOCK = 1 << 20
_LONGEST = 180
"""Bytes of a file name; file systems allow 255 or fewer, and a number may be added."""
_UNSAFE = re.compile("[/\\\\\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Separators of folders, control characters, marks that change the direction of text, and what is no text."""
_COMING = re.compile(r"\.faemb-coming-[0-9a-f]{32}")
_LEFT_OVER = 86_400.0
"""Seconds after which a file that was not received completely is deleted: its server was killed."""


@dataclass(frozen=True)
class Coming:
    """A file that was sent: complete and on the disk, under a temporary name that no search of a folder finds."""

    name: str
    file: Path
    hash: str
    """Of its content, as `Entry.hash`."""


def safe_name(given: str | None) -> str:
    """The last part of a name that a user has sent, as the name of a file."""
    last = re.split(r"[/\\]", given or "")[-1]
    name = _UNSAFE.sub("_", last).strip().lstrip(".")
    stem, suffix = os.path.splitext(name)
    suffix = _shortened(suffix, 20)
    name = _shortened(stem, _LONGEST - len(suffix.encode())) + suffix
    return f"_{name}" if name == CATALOGUE else name or "photograph"


def _shortened(text: str, most: int) -> str:
    return text.encode()[:most].decode(errors="ignore")


def prepare(folder: Path) -> None:
    """Make the folder of uploads, and delete what a server that was killed has not received completely."""
    try:
        if not folder.is_dir():
            make_folder(folder)
            sync_folder(folder.parent)
        for name in os.listdir(folder):
            if _COMING.fullmatch(name):
                with suppress(FileNotFoundError):
                    if time.time() - (folder / name).stat().st_mtime > _LEFT_OVER:
                        (folder / name).unlink()
    except (OSError, InputError) as error:
        raise Problem(507, f"The folder {folder} for added images cannot be used: {error}.") from error


def receive(sent: BinaryIO, name: str, folder: Path) -> Coming:
    file = folder / f".faemb-coming-{uuid.uuid4().hex}"
    try:
        with file.open("xb") as out:
            shutil.copyfileobj(sent, out, _BLOCK)
            out.flush()
            os.fsync(out.fileno())
        return Coming(name, file, content_hash(file))
    except OSError as error:
        file.unlink(missing_ok=True)
        reason = error.strerror or error
        raise Problem(507, f"{name} cannot be stored: {reason}; make room on the server's disk.") from error
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def place(coming: Coming, folder: Path) -> tuple[Path, bool]:
    """The file under its name, with a number where another file has that name; and whether the file is new.

    No file is replaced. A file that lies there already and has the same content is used as it is.
    """
    stem, suffix = os.path.splitext(coming.name)
    for number in count(1):
        target = folder / (coming.name if number == 1 else f"{stem} ({number}){suffix}")
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:
            if _is_same(target, coming):
                return target, False
            continue
        try:
            os.replace(coming.file, target)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        return target, True
    raise AssertionError("unreachable")


def _is_same(target: Path, coming: Coming) -> bool:
    try:
        if target.is_symlink() or not target.is_file() or target.stat().st_size != coming.file.stat().st_size:
            return False
        return content_hash(target) == coming.hash
    except (OSError, InputError):
        return False
