"""Pages of the documentation site that are files of the project's root, so that nothing is written twice."""

from typing import Any

from mkdocs.structure.files import File, Files

PAGES = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md", "CHANGELOG.md": "changelog.md"}


def on_files(files: Files, *, config: Any) -> Files:
    """Called by MkDocs: adds the pages, with links as they must be inside docs/."""
    for source, page in PAGES.items():
        with open(source, encoding="utf-8") as file:
            files.append(File.generated(config, page, content=moved_into_docs(file.read())))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs: links from docs/ to files of the root, which browsers of the repository can follow too."""
    for source, page in PAGES.items():
        markdown = markdown.replace(f"](../{source})", f"]({page})")
    return markdown


def moved_into_docs(text: str) -> str:
    for source, page in PAGES.items():
        text = text.replace(f"]({source})", f"]({page})")
    return text.replace("](docs/", "](").replace('src="docs/', 'src="')
