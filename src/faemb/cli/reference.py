"""The reference of all commands as Markdown, from their help: python -m faemb.cli.reference > docs/commands.md"""

import inspect
import re
from typing import cast

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from faemb.cli.console import result
from faemb.cli.main import EXIT_CODES, app


def commands() -> dict[str, TyperCommand]:
    """Commands by name, in the order of `faemb --help`."""
    return cast(TyperGroup, get_command(app)).commands  # type: ignore[return-value]


def render() -> str:
    parts = [
        "# Commands",
        "Made by `python -m faemb.cli.reference > docs/commands.md`.",
        _exit_codes(),
        _JSON,
        _OUTPUTS,
    ]
    for name, command in commands().items():
        parts += [f"## faemb {name}", *_paragraphs(inspect.cleandoc(command.help or "")), _table(command)]
    return "\n\n".join(parts) + "\n"


_JSON = """## JSON

Commands that read images print, with `--json`, an object whose `failed` lists every input that could not be used, as
`{"path": ..., "reason": ...}`; the reason is the sentence that is also printed on standard error. Where folders are
searched, `passed_over` has the number of files that are not images, by suffix.

`search` prints `{"answers": [{"query", "features", "hits": [...], "note"}], "failed": [...]}`; `features` is the number
of local features of the query, and `note` says what could not be verified. A hit has:

| name | value |
|---|---|
| `path` | file of the image |
| `similarity` | of the vectors, from -1 to 1; null for an image without local features |
| `itself` | whether it is the query file |
| `copy_of_query` | whether it is another file, which had the same bytes as the query when it was indexed |
| `state` | its file since it was indexed: `unchanged`, `changed` or `missing`; null if unknown, as of a URL |
| `confidence` | probability that it shows the same thing as the query; null if it was not estimated |
| `verdict` | `same` (confidence from 0.9), `maybe` (from 0.5) or `unsure`; null without a confidence |
| `through` | result of the query through which `--expand results` found it, or null |
| `verified` | whether local features were compared |
| `evidence` | how much better the matches agree than by chance, on a logarithmic scale; null if not verified |
| `matches`, `agreeing` | number of matched features, and of those that agree with `transform`; null if not verified |
| `transform` | 3 x 3 matrix from pixels of the query to pixels of the image; null if there is none |
| `overlap` | what both show, as [explain](explain.md) has it; null if there is no transform |"""

_OUTPUTS = """## Existing files

An output file that exists is replaced only if faemb can tell that it wrote that file and that it is of the same kind;
`.fvecs` and `.faiss` files do not say who wrote them. `--overwrite` replaces any plain file. Nothing is written into
the folder of a collection."""


def _exit_codes() -> str:
    rows = [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    return "\n".join(["## Exit codes", "", "| code | meaning |", "|---|---|", *rows])


def _paragraphs(text: str) -> list[str]:
    """The paragraphs of a help text, with the example as a code block."""
    return [re.sub(r"^Example: (.*)$", r"```\n\1\n```", part, flags=re.DOTALL) for part in text.split("\n\n")]


def _table(command: TyperCommand) -> str:
    parameters = cast(list[TyperArgument | TyperOption], command.params)
    rows = [
        _option(each) if isinstance(each, TyperOption) else f"`{each.metavar}` | {each.help}" for each in parameters
    ]
    return "\n".join(["| argument | meaning |", "|---|---|", *(f"| {row} |" for row in rows)])


def _option(option: TyperOption) -> str:
    value = f" {option.metavar}" if option.metavar else ""
    default = "" if option.is_flag or option.default is None else f" Default: {option.default}."
    names = ", ".join(f"`{name}{value}`" for name in option.opts)
    return f"{names} | {option.help}{' Required.' if option.required else default}"


if __name__ == "__main__":
    for _line in render().splitlines():
        result(_line)
