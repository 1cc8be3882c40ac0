"""HTML pages that hold everything: no scripts, nothing loaded from elsewhere, light and dark, names made harmless."""

import os
from collections.abc import Iterable
from html import escape

from faemb.errors import InputError
from faemb.runtime.storage import replacing

_CONTENT_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

_STYLE = """
:root{color-scheme:light dark;--page:#f4f4f1;--card:#fff;--well:#e9e9e4;--ink:#1d1f21;--soft:#5f6368;--line:#dcdcd6;
--accent:#b4430f;--bar:#deded8}
@media (prefers-color-scheme:dark){:root{--page:#141517;--card:#1e2023;--well:#111214;--ink:#ececea;--soft:#a3a7ac;
--line:#303338;--accent:#ff9a5c;--bar:#3a3d42}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.45 system-ui,-apple-system,"Segoe UI",sans-serif}
header,main{max-width:1560px;margin:0 auto;padding:0 clamp(14px,3vw,40px)}
header{padding-top:clamp(20px,3vw,40px)}
main{padding-bottom:40px}
h1{margin:0;font-size:clamp(22px,2.6vw,32px);line-height:1.2;letter-spacing:-.01em;overflow-wrap:anywhere}
.soft,small{color:var(--soft)}
section{padding:20px 0 6px;border-top:1px solid var(--line);margin-top:24px}
h2{margin:0 0 12px;font-size:17px;line-height:1.3;overflow-wrap:anywhere}
h2 small{font-size:inherit;font-weight:400}
.soft{margin:0 0 12px}
header p{margin:8px 0 0;max-width:80ch}
header small{font-size:14px}
"""


def document(title: str, about: str, note: str, rows: Iterable[str], *, style: str) -> str:
    """Rows are HTML, made one after the other, so that one picture at a time is decoded; `style` adds to the common."""
    said = f"<p>{text(note)}</p>" if note else ""
    head = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_CONTENT_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{text(title)}</title>\n<style>{_STYLE}{style.lstrip()}</style>\n</head>\n<body>\n"
        f"<header><h1><bdi>{text(title)}</bdi></h1>{said}<p><small>{text(about)}</small></p></header>\n<main>\n"
    )
    return "".join([head, *rows, "</main>\n</body>\n</html>\n"])


def text(words: str) -> str:
    """For HTML; names that are not Unicode, and characters that HTML does not have, show as question marks."""
    known = words.encode("utf-8", "replace").decode("utf-8")
    return escape("".join("?" if ord(each) < 32 and each not in "\t\n" else each for each in known))


def counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def save_page(path: str | os.PathLike[str], page: str) -> None:
    """Write a page, completely or not at all."""
    if os.path.splitext(path)[1].lower() not in (".html", ".htm"):
        raise InputError(f"a page cannot be written to {path}; give a name that ends in .html")
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
