"""The commands. Exit codes: 0 for success, 1 for an error, reported in one line on standard error, 130 if stopped."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from faemb.cli.benchmark import benchmark, datasets, leaderboard
from faemb.cli.collection import check, duplicates, export, info, remove, search
from faemb.cli.console import result, warning
from faemb.cli.demo import demo
from faemb.cli.features import convert_features, features, show_features
from faemb.cli.indexing import add, encode, fit, index, relearn, update
from faemb.cli.options import expanded

STOPPED = 130

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
COMMANDS: tuple[Callable[..., None], ...] = (
    *(index, search, add, remove, update, relearn, info, check, duplicates, export),
    *(fit, encode, demo),
    *(features, show_features, convert_features),
    *(benchmark, datasets, leaderboard),
)
for _command in COMMANDS:
    app.command(_command.__name__.replace("_", "-"))(expanded(_command))


def _version(wanted: bool) -> bool:
    if wanted:
        from faemb import __version__

        result(__version__)
        raise typer.Exit
    return wanted


@app.callback()
def _about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Instance-level image search: find the images that show the same object or scene."""


def main() -> None:
    """Run the command that is named by the arguments."""
    from faemb.errors import FaembError

    try:
        app()
    except SystemExit as ended:
        if ended.code == STOPPED:  # typer has caught the interrupt
            warning("stopped")
        raise
    except KeyboardInterrupt:
        warning("stopped")
        sys.exit(STOPPED)
    except BrokenPipeError:  # the output was closed, as in `faemb ... | head`
        sys.stderr.close()
        sys.exit(0)
    except (FaembError, OSError) as error:  # an OSError is, for example, a full disk behind standard output
        warning(str(error))
        sys.exit(1)
