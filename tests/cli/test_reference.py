"""docs/commands.md is what the commands say of themselves."""

from pathlib import Path

from faemb.cli.reference import commands, render
from faemb.cli.results_as_text import hit_as_json
from faemb.collection import Answer, Hit

DOCUMENT = Path(__file__).parents[2] / "docs" / "commands.md"


def test_the_reference_is_up_to_date() -> None:
    message = "run: python -m faemb.cli.reference > docs/commands.md"
    assert DOCUMENT.read_text(encoding="utf-8") == render(), message


def test_every_command_has_a_section_with_an_example() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for name in commands():
        section = text.split(f"## faemb {name}\n")[1].split("\n## ")[0]
        assert f"```\nfaemb {name} " in section


def test_all_values_of_a_hit_are_described() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    hit = Hit(Path("a.jpg"), 0.5)
    for name in hit_as_json(Answer("query.jpg", 100, [hit]), hit):
        assert f"`{name}`" in text
