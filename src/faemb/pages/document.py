"""HTML pages from the templates of this package: each page contains its style and pictures, and no scripts."""

import os
import re
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from faemb.errors import InputError
from faemb.pages import counted, file_facts
from faemb.runtime.storage import AnyPath, replacing, require_output

GENERATOR = '<meta name="generator" content="faemb">'
"""Tag in the head of every page, which marks pages of this package."""
_HEAD = 4096


def render(template: str, **data: object) -> str:
    """Render a template in templates/ with `data`; rows may be iterators, which are read one by one."""
    return _ENVIRONMENT.get_template(template).render(data)


def require_page(path: AnyPath, *, overwrite: bool = False) -> None:
    """Raise the error that `save_page` would raise for this path; called before the long work starts."""
    if os.path.splitext(path)[1].lower() not in (".html", ".htm"):
        raise InputError(f"a page cannot be written to {path}; give a name that ends in .html")
    require_output(path, is_our_page, overwrite=overwrite)


def is_our_page(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return GENERATOR.encode() in file.read(_HEAD)
    except OSError:
        return False


def save_page(path: AnyPath, page: str, *, overwrite: bool = False) -> None:
    """Write a page atomically; `overwrite` also replaces an existing file that is not a page of this package."""
    require_page(path, overwrite=overwrite)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _valid_text(value: object) -> object:
    """The text with question marks for control characters and bytes that are not Unicode, which HTML cannot hold."""
    if hasattr(value, "__html__"):  # already HTML, made by a macro
        return value
    known = str(value).encode("utf-8", "replace").decode("utf-8")
    return known.translate(_CONTROLS)


def breakable(name: str) -> Markup:
    """A name with optional line breaks: after _ and -, before a dot, between the words of camelCase.

    Browsers break lines at spaces and hyphens only, and would break other long names in the middle of words.
    """
    return Markup("<wbr>").join(_WORDS.split(str(_valid_text(name))))


_WORDS = re.compile(r"(?<=[_-])(?![_-])|(?<=[^.])(?=\.)|(?<=[a-z])(?=[A-Z0-9])|(?<=[0-9])(?=[A-Z])")
_CONTROLS = {code: "?" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}
_ENVIRONMENT = Environment(
    loader=PackageLoader("faemb.pages"),
    autoescape=True,
    finalize=_valid_text,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters.update(breakable=breakable, counted=counted, file_facts=file_facts)
