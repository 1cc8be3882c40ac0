"""The demo command."""

from pathlib import Path
from shlex import quote
from typing import Annotated

from faemb.cli.console import Live, result
from faemb.cli.options import Jobs, OpenPage, Quiet, open_page, value


def demo(
    out: Annotated[Path, value("FOLDER", "Folder for images, collection and page.")] = Path("faemb-demo"),
    show: OpenPage = False,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Index and search photographs of a small gallery, which are rendered; nothing is downloaded.

    Example: faemb demo --open
    """
    from faemb.demo import run_demo

    with Live(quiet) as progress:
        done = run_demo(out, progress, jobs)
    if not quiet:
        result(str(done))
        result(f"page: {done.page}")
        result(f"try: faemb search {quote(str(done.collection))} QUERY.jpg")
    if show:
        open_page(done.page)
