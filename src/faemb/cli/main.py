"""The list of commands; exit codes; errors and interruptions as one line on standard error."""

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
from faemb.cli.collection import check, copy, duplicates, export, info, relocate, remove, search
from faemb.cli.console import misuse, print_what_python_reports, result, warning
from faemb.cli.demo import demo
from faemb.cli.explain import explain
from faemb.cli.features import convert_features, features, show_features
from faemb.cli.help import CONTEXT, Command
from faemb.cli.indexing import add, encode, fit, index, relearn, update
from faemb.cli.options import FAILED, PARTLY, expanded
from faemb.cli.serve import serve

STOPPED = 130
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGHUP", "SIGTERM") if hasattr(signal, name)]
"""Signals that end a command as Ctrl-C does."""
_UsageError: type[Any] = typer.BadParameter.__bases__[0]
"""Base class of typer's usage errors, which typer does not export."""
EXIT_CODES: dict[int | str, str] = {
    0: "success",
    FAILED: "error",
    2: "wrong options or arguments",
    PARTLY: "done, but some inputs could not be used",
    STOPPED: "stopped by Ctrl-C",
    "129, 143": "stopped by SIGHUP, SIGTERM",
}
CONTINUED = ("index", "add", "update", "relearn", "features", "benchmark")
"""Commands that keep finished work: the same command continues an interrupted run."""

app = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=CONTEXT,
    epilog="Exit codes: " + "; ".join(f"{code}: {meaning}" for code, meaning in EXIT_CODES.items()) + ".",
)
COMMANDS: tuple[Callable[..., None], ...] = (
    *(index, search, explain, add, remove, relocate, update, relearn, info, check, duplicates, export, copy),
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
    """The command group built by typer; cached, since building takes a while."""
    return cast(TyperGroup, get_command(app))


def _given_command() -> str:
    return next((given for given in sys.argv[1:] if not given.startswith("-")), "")


def _stopped() -> str:
    return "stopped; run the same command again to go on" if _given_command() in CONTINUED else "stopped"


def _in_options(sentence: str) -> str:
    """A message with the option in place of the Python setting: "max_side is 3" becomes "--max-side is 3"."""
    command = _commands().commands.get(_given_command())
    for parameter in command.params if command is not None else ():
        option = max(parameter.opts, key=len)
        setting = option.lstrip("-").replace("-", "_")
        if option.startswith("--"):
            sentence = re.sub(rf"^{setting}(?= is [^;]+; expected)|(?<= no setting ){setting}\b", option, sentence)
    return sentence


@contextmanager
def _stopped_by_signals() -> Iterator[list[int]]:
    """Yields the list of received signals; the first one interrupts the block, and so does every Ctrl-C.

    Signals that are ignored, as under nohup, stay ignored.
    """
    received: list[int] = []

    def stop(number: int, frame: object) -> None:
        received.append(number)
        if len(received) == 1 or number == signal.SIGINT:
            raise KeyboardInterrupt

    can_set = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in _SIGNALS if can_set}
    wanted = [number for number, how in before.items() if how in (signal.SIG_DFL, signal.default_int_handler)]
    for number in wanted:
        signal.signal(number, stop)
    try:
        yield received
    finally:
        for number in wanted:
            signal.signal(number, before[number])


def _usage(error: Any) -> str:
    context = error.ctx
    if context is None:
        return ""
    return f"{context.get_usage()}\nTry '{context.command_path} {context.help_option_names[0]}' for help."


def main() -> None:
    """Run the command that the arguments name."""
    with _stopped_by_signals() as received:
        try:
            _run(received)
        except KeyboardInterrupt:
            with suppress(OSError):  # a terminal that was closed
                warning(_stopped())
            sys.exit(128 + received[0] if received else STOPPED)


def _leave_closed_output() -> NoReturn:
    """End with success: the reader has closed the pipe, as in `faemb ... | head -1`."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # Python writes the rest of its buffers after this
        os.dup2(nowhere, stream)
    sys.exit(0)


def _result_of_command(received: list[int]) -> Any:
    """typer's return value. An interrupt that a library turned into its own error, as SQLite does, is raised again."""
    try:
        # In standalone mode typer would print arguments without escaping control characters.
        code = _commands()(args=sys.argv[1:] or ["--help"], prog_name="faemb", standalone_mode=False)
    except Exception as error:
        if received:
            raise KeyboardInterrupt from error
        raise
    if code == STOPPED:  # typer has caught the interrupt
        raise KeyboardInterrupt
    return code


def _run(received: list[int]) -> None:
    from faemb.errors import TOO_FEW_FILES, FaembError, is_lack_of_open_files

    print_what_python_reports()
    try:
        code = _result_of_command(received)
        sys.stdout.flush()  # here, since an error when Python flushes at exit is not caught
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
        if is_lack_of_open_files(error):  # libraries wrap it in errors of their own
            warning(TOO_FEW_FILES)
        elif isinstance(error, OSError):  # for example a full disk behind standard output
            warning(_in_options(str(error)))
        else:
            raise
        sys.exit(FAILED)
