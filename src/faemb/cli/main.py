"""The commands, and how they end: exit codes, and one line on standard error for an error or an interruption."""

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Annotated, Any, NoReturn, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from faemb.cli.benchmark import benchmark, datasets, leaderboard
from faemb.cli.collection import check, duplicates, export, info, relocate, remove, search
from faemb.cli.console import misuse, print_what_python_reports, result, warning
from faemb.cli.demo import demo
from faemb.cli.explain import explain
from faemb.cli.features import convert_features, features, show_features
from faemb.cli.help import CONTEXT, Command
from faemb.cli.indexing import add, encode, fit, index, relearn, update
from faemb.cli.options import FAILED, PARTLY, expanded
from faemb.cli.serve import serve

STOPPED = 130
SIGNALS = {getattr(signal, name): name for name in ("SIGHUP", "SIGTERM") if hasattr(signal, name)}
"""They end a command in the same way as Ctrl-C does; without a handler, the process would end at once."""
_UsageError: type[Any] = typer.BadParameter.__bases__[0]
"""Raised for wrong options and arguments; typer exports only this one of its kinds."""
EXIT_CODES: dict[int | str, str] = {
    0: "success",
    FAILED: "error",
    2: "wrong options or arguments",
    PARTLY: "done, but some inputs could not be used",
    STOPPED: "stopped by Ctrl-C",
    "129, 143": "stopped by SIGHUP, SIGTERM",
}
CONTINUED = ("index", "add", "update", "relearn", "features", "benchmark")
"""Commands that keep what they have done: given again, they do the rest."""

app = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=CONTEXT,
    epilog="Exit codes: " + "; ".join(f"{code}: {meaning}" for code, meaning in EXIT_CODES.items()) + ".",
)
COMMANDS: tuple[Callable[..., None], ...] = (
    *(index, search, explain, add, remove, relocate, update, relearn, info, check, duplicates, export),
    *(serve, fit, encode, demo),
    *(features, show_features, convert_features),
    *(benchmark, datasets, leaderboard),
)
for _command in COMMANDS:
    app.command(_command.__name__.replace("_", "-"), cls=Command)(expanded(_command))


def _version(wanted: bool) -> bool:
    if wanted:
        from faemb import __version__

        result(__version__)
        raise typer.Exit
    return wanted


@app.callback()
def _about(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, metavar="", help="Print the version and exit."),
    ] = False,
) -> None:
    """Instance-level image search: find the images that show the same object or scene."""


@cache
def _commands() -> TyperGroup:
    """What typer makes of all options of all commands, which takes a while."""
    return cast(TyperGroup, get_command(app))


def _given_command() -> str:
    return next((given for given in sys.argv[1:] if not given.startswith("-")), "")


def _stopped() -> str:
    return "stopped; run the same command again to go on" if _given_command() in CONTINUED else "stopped"


def _in_options(sentence: str) -> str:
    """A sentence on a setting of Python, such as "max_side is 3", about the option that sets it: "--max-side is 3"."""
    command = _commands().commands.get(_given_command())
    for parameter in command.params if command is not None else ():
        option = max(parameter.opts, key=len)
        setting = option.lstrip("-").replace("-", "_")
        if option.startswith("--"):
            sentence = re.sub(rf"^{setting}(?= is [^;]+; expected)|(?<= no setting ){setting}\b", option, sentence)
    return sentence


@contextmanager
def _stopped_by_signals() -> Iterator[list[int]]:
    """The signals that have come; the first one interrupts the block. Those that were ignored, as by nohup, stay so."""
    received: list[int] = []

    def stop(number: int, frame: object) -> None:
        received.append(number)
        if len(received) == 1:
            raise KeyboardInterrupt

    can_set = threading.current_thread() is threading.main_thread()
    wanted = [number for number in SIGNALS if can_set and signal.getsignal(number) is signal.SIG_DFL]
    for number in wanted:
        signal.signal(number, stop)
    try:
        yield received
    finally:
        for number in wanted:
            signal.signal(number, signal.SIG_DFL)


def _usage(error: Any) -> str:
    context = error.ctx
    if context is None:
        return ""
    return f"{context.get_usage()}\nTry '{context.command_path} {context.help_option_names[0]}' for help."


def main() -> None:
    """Run the command that is named by the arguments."""
    with _stopped_by_signals() as received:
        try:
            _run()
        except KeyboardInterrupt:
            with suppress(OSError):  # a terminal that was closed
                warning(_stopped())
            sys.exit(128 + received[0] if received else STOPPED)


def _leave_closed_output() -> NoReturn:
    """End with success: the reader of the output has read enough, as in `faemb ... | head -1`."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # Python writes the rest of its buffers after this
        os.dup2(nowhere, stream)
    sys.exit(0)


def _run() -> None:
    from faemb.errors import TOO_FEW_FILES, FaembError, is_lack_of_open_files

    print_what_python_reports()
    try:
        # Not in standalone mode, in which typer would print arguments as they are.
        code = _commands()(args=sys.argv[1:] or ["--help"], prog_name="faemb", standalone_mode=False)
        if code == STOPPED:  # typer has caught the interrupt
            raise KeyboardInterrupt
        sys.stdout.flush()  # Python would do it after this, where an error gets no sentence
        sys.exit(code)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer has caught it
            _leave_closed_output()
        raise
    except _UsageError as error:
        misuse(_usage(error), error.format_message())
        sys.exit(error.exit_code)
    except BrokenPipeError:
        _leave_closed_output()
    except FaembError as error:
        warning(_in_options(str(error)))
        sys.exit(FAILED)
    except MemoryError:
        warning("there is not enough memory; close other programs, use fewer jobs, or give fewer or smaller inputs")
        sys.exit(FAILED)
    except Exception as error:
        if is_lack_of_open_files(error):  # wherever it is: libraries have errors of their own for it
            warning(TOO_FEW_FILES)
        elif isinstance(error, OSError):  # for example a full disk behind standard output
            warning(_in_options(str(error)))
        else:
            raise
        sys.exit(FAILED)
