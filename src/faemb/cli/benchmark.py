"""Commands for benchmarks: datasets, leaderboard."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from faemb.cli.console import Live, print_json, print_table, result
from faemb.cli.options import AsJson, Quiet

SHOWN = 5
"""Missing names that are printed; --json has them all."""


def datasets(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of a benchmark, to be checked.", metavar="FOLDER")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="Read FOLDER as this kind; it is recognised if not given.", metavar="NAME")
    ] = None,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List the benchmarks that can be used and what their folders hold, or check one of these folders.

    To check is to read every image: the checksums tell whether two results are on the same data.

    Example: faemb datasets data/holidays
    """
    if folder is None:
        _list_kinds(kind, json)
    else:
        _check(folder, kind, json, quiet)


def leaderboard(
    runs: Annotated[list[Path], typer.Argument(help="Folders that hold a run.json.", metavar="RUN...")],
    out: Annotated[Path, typer.Option(help="Page to write, which needs no other file.", metavar="FILE")],
    title: Annotated[str | None, typer.Option(help="Heading of the page.", metavar="TEXT")] = None,
    quiet: Quiet = False,
) -> None:
    """Write results of several runs as one page, best first, apart by dataset and checksum.

    Example: faemb leaderboard runs/sota runs/binary --out leaderboard.html
    """
    from faemb.benchmark.leaderboard import leaderboard as page
    from faemb.page import save_page

    save_page(out, page(runs, **({} if title is None else {"title": title})))
    if not quiet:
        result(f"written to {out}")


def _list_kinds(name: str | None, json: bool) -> None:
    from faemb.benchmark.datasets import KINDS, kind_named

    kinds = list(KINDS.values()) if name is None else [kind_named(name)]
    if json:
        print_json([_kind_as_json(kind) for kind in kinds])
    else:
        print_table(_kinds_table(kinds))


def _check(folder: Path, kind: str | None, json: bool, quiet: bool) -> None:
    from faemb.benchmark.datasets import checked, open_dataset

    dataset = open_dataset(folder, kind)
    with Live(quiet or json) as progress:
        found = checked(dataset, progress)
    if json:
        print_json(_dataset_as_json(dataset, found))
    elif not quiet:
        for name, text in _facts(dataset, found):
            result(f"{name:<14}{text}")


def _kinds_table(kinds: Iterable[Any]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table("kind", "benchmark", "what its folder holds", box=SIMPLE_HEAD)
    for kind in kinds:
        table.add_row(kind.name, "\n".join([kind.title, *_size(kind), ", ".join(kind.measures)]), kind.layout)
        table.add_section()
    return table


def _size(kind: Any) -> list[str]:
    """None where anything goes."""
    images = " or ".join(f"{count:,}" for count in kind.images)
    return [f"{images} images", f"{kind.queries:,} queries"] if images else []


def _facts(dataset: Any, found: Any) -> Iterator[tuple[str, str]]:
    yield "dataset", f"{dataset.name}, read as {dataset.kind}"
    yield "note", dataset.note
    yield "images", f"{found.images.files:,} files, {found.images.bytes / 1e6:,.1f} MB"
    yield "protocols", ", ".join(dataset.protocols)
    yield "measures", ", ".join(dataset.measures)
    yield "checksum", found.images.checksum
    yield "ground truth", found.labels
    if found.missing:
        more = ", ..." if len(found.missing) > SHOWN else ""
        yield "missing", f"{len(found.missing):,} images: {', '.join(found.missing[:SHOWN])}{more}"


def _kind_as_json(kind: Any) -> dict[str, Any]:
    names = ("name", "title", "layout", "measures", "images", "queries")
    return {name: getattr(kind, name) for name in names}


def _dataset_as_json(dataset: Any, found: Any) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "kind": dataset.kind,
        "note": dataset.note,
        "complete": found.complete,
        "images": len(dataset.images),
        "queries": found.queries,
        "protocols": list(dataset.protocols),
        "measures": dataset.measures,
        "files": found.images.files,
        "bytes": found.images.bytes,
        "checksum": found.images.checksum,
        "ground_truth": found.labels,
        "missing": found.missing,
    }
