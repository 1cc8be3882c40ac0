"""Run folders: one for each set of options, which are stored in options.json before the first row is computed.

Options are those of the command, with the paths of its data. A run with the same options is resumed; a run with other
options never writes to the folder.
"""

import json
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from faemb.benchmark.run import Json
from faemb.errors import FormatError, InputError
from faemb.runtime.storage import make_folder, replacing

OPTIONS = "options.json"
_LONGEST_NAME = 150
"""Largest number of characters of a name without its number: file systems allow 255 bytes."""

Options = Mapping[str, Json]


def folder_for(options: Options, name: str, parent: Path) -> Path:
    """The folder in `parent` of a run with these options, else the first unused one of NAME, NAME-2, NAME-3 ..."""
    short = name[:_LONGEST_NAME]
    candidates = (parent / (short if number == 1 else f"{short}-{number}") for number in count(1))
    return next(folder for folder in candidates if _is_free(folder) or _is_of(folder, options))


def claim(folder: Path, options: Options) -> None:
    """Store the options in an unused folder; raises an error if it holds a run with other options, or other files."""
    if _is_free(folder):
        make_folder(folder)
        with replacing(folder / OPTIONS) as temporary:
            temporary.write_text(json.dumps(options, indent=2) + "\n", encoding="utf-8")
        return
    held = _held(folder)
    if held is None:
        raise InputError(
            f"{folder} holds files that are not a run with known options; give a new folder with --out, or none"
        )
    if held != _as_stored(options):
        raise InputError(
            f"{folder} holds a run of other options ({_differences(held, _as_stored(options))}); "
            "give another folder with --out, or none"
        )


def _is_free(folder: Path) -> bool:
    """Whether the folder is missing or empty. Temporary files of killed processes are ignored."""
    return not folder.exists() or (
        folder.is_dir() and all(path.name.startswith(".") and path.suffix == ".tmp" for path in folder.iterdir())
    )


def _is_of(folder: Path, options: Options) -> bool:
    try:
        return _held(folder) == _as_stored(options)
    except FormatError:
        return False


def _held(folder: Path) -> dict[str, Json] | None:
    """The options of the run in the folder; None if there are none."""
    if not (folder / OPTIONS).is_file():  # opening a pipe would block
        return None
    try:
        content = json.loads((folder / OPTIONS).read_text(encoding="utf-8"))
    except OSError:
        return None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{folder / OPTIONS} is damaged ({error}); give another folder with --out") from error
    return content if isinstance(content, dict) else {}


def _as_stored(options: Options) -> dict[str, Json]:
    stored: dict[str, Json] = json.loads(json.dumps(options))  # JSON turns tuples into lists
    return stored


def _differences(held: Options, given: Options) -> str:
    differing = [name for name in {**held, **given} if held.get(name) != given.get(name)]
    return ", ".join(f"{name} {_as_text(held.get(name))} instead of {_as_text(given.get(name))}" for name in differing)


def _as_text(value: Json) -> str:
    return "none" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
