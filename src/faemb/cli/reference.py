"""The reference of all commands as Markdown, from their help: python -m faemb.cli.reference > docs/commands.md"""

import inspect
import re
from typing import Any

from faemb.cli.console import result
from faemb.cli.main import app


def commands() -> dict[str, Any]:
    """Name to command, in the order of `faemb --help`."""
    import typer

    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def render() -> str:
    parts = ["# Commands", "Made by `python -m faemb.cli.reference > docs/commands.md`."]
    for name, command in commands().items():
        parts += [f"## faemb {name}", *_paragraphs(inspect.cleandoc(command.help or "")), _table(command.params)]
    return "\n\n".join(parts) + "\n"


def _paragraphs(text: str) -> list[str]:
    """The paragraphs of a help text, with the example as a code block."""
    return [re.sub(r"^Example: (.*)$", r"```\n\1\n```", part, flags=re.DOTALL) for part in text.split("\n\n")]


def _table(parameters: list[Any]) -> str:
    rows = ["| argument | meaning |", "|---|---|"]
    for parameter in parameters:
        option = parameter.param_type_name == "option"
        value = f" {parameter.metavar}" if option and parameter.metavar else ""
        name = ", ".join(f"`{opt}{value}`" for opt in parameter.opts) if option else f"`{parameter.metavar}`"
        rows.append(f"| {name} | {parameter.help}{_need(parameter) if option else ''} |")
    return "\n".join(rows)


def _need(option: Any) -> str:
    if option.required:
        return " Required."
    return "" if option.is_flag or option.default is None else f" Default: {option.default}."


if __name__ == "__main__":
    result(render().removesuffix("\n"))
