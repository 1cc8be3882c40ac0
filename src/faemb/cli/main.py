"""The commands, and how they end: 0 done, 1 a user's mistake in one line, 130 stopped by the user."""

import sys
from typing import Annotated

import typer

from faemb.cli.features import convert_features, features, show_features

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Instance-level image search: find the pictures that show the same thing.",
)
app.command()(features)
app.command("show-features")(show_features)
app.command("convert-features")(convert_features)


def _version(wanted: bool) -> None:
    if wanted:
        from faemb import __version__

        print(__version__)
        raise typer.Exit


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
    except FaembError as error:
        print(f"faemb: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("faemb: stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        sys.exit(0)
