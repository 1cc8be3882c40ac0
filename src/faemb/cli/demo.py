"""The demo command."""

from pathlib import Path
from typing import Annotated

from faemb.cli.console import Live, result
from faemb.cli.options import Jobs, Quiet, flag, value


def demo(
    out: Annotated[Path, value("FOLDER", "Folder for images, collection and page.")] = Path("faemb-demo"),
    show: Annotated[bool, flag("Show the page in the browser.", "--open")] = False,
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
        result(f"try: faemb search {done.collection} QUERY.jpg")
    if show:
        import webbrowser

        webbrowser.open(done.page.as_uri())
