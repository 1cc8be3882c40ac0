"""Help as plain text: arguments and options are named as in the usage line, without types of Python."""

from typing import Any, cast

from typer.core import TyperArgument, TyperCommand

WIDEST = 120
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": WIDEST}


class Command(TyperCommand):
    """A command whose help shows `IMAGES...` where typer shows `{IMAGES}... <list[Path]>`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        parameters = self.get_params(ctx)
        arguments = [_row(cast(TyperArgument, each)) for each in parameters if each.param_type_name == "argument"]
        options = [each.get_help_record(ctx) for each in parameters if each.param_type_name == "option"]
        for title, rows in (("Arguments", arguments), ("Options", [row for row in options if row is not None])):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def get_short_help_str(self, limit: int = 0) -> str:
        """The first sentence as a whole: the list of commands breaks lines instead of cutting them short."""
        return (self.help or "").strip().split("\n\n")[0].replace("\n", " ")


def _row(argument: TyperArgument) -> tuple[str, str]:
    name = f"{argument.metavar}{'...' if argument.nargs != 1 else ''}"
    return name, f"{argument.help}{'' if argument.required else ' May be left out.'}"
