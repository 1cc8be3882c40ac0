"""Settings in docstrings, written as aligned lines `name:   meaning`, become lists on the documentation site."""

import re
from typing import Any

from griffe import Extension, Object

SETTING = re.compile(r"^((?:\w+, )*\w+): +(?=\S)", re.MULTILINE)


class SettingsAsLists(Extension):
    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called by Griffe for each module, class and function."""
        if obj.docstring is not None:
            obj.docstring.value = with_lists(obj.docstring.value)


def with_lists(text: str) -> str:
    """The text with a list for each paragraph whose lines begin with a setting or are indented."""
    return "\n\n".join(map(_as_list, text.split("\n\n")))


def _as_list(paragraph: str) -> str:
    lines = paragraph.split("\n")
    if not SETTING.match(lines[0]) or not all(SETTING.match(line) or line.startswith(" ") for line in lines):
        return paragraph
    return SETTING.sub(r"- `\1`: ", paragraph)
