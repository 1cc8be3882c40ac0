"""The commands, and how they end: 0 done, 1 a user's mistake in one line, 130 stopped by the user."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from faemb.cli.benchmark import benchmark, datasets, leaderboard
from faemb.cli.collection import add, check, duplicates, export, index, info, remove, search, update
from faemb.cli.demo import demo
from faemb.cli.features import convert_features, features, show_features
from faemb.cli.models import encode, fit

STOPPED = 130

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Instance-level image search: find the pictures that show the same thing.",
)
COMMANDS: tuple[Callable[..., None], ...] = (
    *(index, search, add, remove, update, info, check, duplicates, export),
    *(fit, encode, demo),
    *(features, show_features, convert_features),
    *(benchmark, datasets, leaderboard),
)
for _command in COMMANDS:
    app.command(_command.__name__.replace("_", "-"))(_command)


def _version(wanted: bool) -> bool:
    if wanted:
        from faemb import __version__

        print(__version__)
        raise typer.Exit
    return wanted


@app.callback()
def _about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Instance-level image search: find the pictures that show the same thing."""


def main() -> None:
    """Run the command that the arguments name."""
    from faemb.errors import FaembError

    try:
        app()
    except SystemExit as ended:
        if ended.code == STOPPED:  # typer has caught the interrupt
            print("faemb: stopped", file=sys.stderr)
        raise
    except FaembError as error:
        print(f"faemb: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("faemb: stopped", file=sys.stderr)
        sys.exit(STOPPED)
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:  # such as a full disk behind the standard output
        print(f"faemb: {error}", file=sys.stderr)
        sys.exit(1)
