"""The documentation names what there is."""

import re
from pathlib import Path

import faemb

DOCS = Path(__file__).parent.parent / "docs"


def test_the_api_page_lists_every_public_name_once() -> None:
    listed = re.findall(r"^::: faemb\.(\w+)$", (DOCS / "api.md").read_text(encoding="utf-8"), flags=re.M)
    assert sorted(listed) == sorted([*faemb.__all__, "evaluation"])
