"""The documentation names what there is."""

import re
import tomllib
from pathlib import Path

import faemb
from faemb.collection.schema import VERSION

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
FOR_DEVELOPERS = {"test", "s3-server", "browser", "lint", "docs", "release"}


def test_the_api_page_lists_every_public_name_once() -> None:
    listed = re.findall(r"^::: faemb\.(\w+)$", (DOCS / "api.md").read_text(encoding="utf-8"), flags=re.M)
    assert sorted(listed) == sorted([*faemb.__all__, "evaluation"])


def test_every_extra_of_a_user_is_listed() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    listed = re.findall(r"^\| `(\w+)` \|", (DOCS / "installation.md").read_text(encoding="utf-8"), flags=re.M)
    assert sorted(listed) == sorted(extras.keys() - FOR_DEVELOPERS)


def test_the_format_of_collections_is_the_current_one() -> None:
    text = (DOCS / "collection.md").read_text(encoding="utf-8")
    assert f"the version of the format, which is {VERSION}." in text
    assert re.findall(r"^\| (\d+) \|", text.split("## Format versions")[1].split("\n## ")[0], flags=re.M) == [
        str(version) for version in range(2, VERSION + 1)
    ]


def test_the_citation_names_the_version() -> None:
    assert f"\nversion: {faemb.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_examples_are_printed_as_they_are() -> None:
    """Pages are read in the clone too, where nothing is included."""
    pages = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
    printed = pages["tutorial.md"] + pages["examples.md"]
    for script in sorted((ROOT / "examples").glob("*.py")):
        assert f"```python\n{script.read_text(encoding='utf-8')}```" in printed, f"copy {script} into the page"
    assert [name for name, text in pages.items() if "--8<--" in text] == []
