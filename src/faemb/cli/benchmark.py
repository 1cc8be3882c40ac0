"""Commands for benchmarks: benchmark, datasets, leaderboard."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from faemb.cli.console import Live, print_json, print_table, result
from faemb.cli.options import (
    AsJson,
    Jobs,
    MaxFeatures,
    Network,
    Quiet,
    Variant,
    chosen_extractor,
)

TABLE_HELP = "embeddings, anchors, sota, short, large, binary, cnn, timing, convergence or ablation."
SHOWN = 5
"""Missing names that are printed; --json has them all."""


def benchmark(
    dataset: Annotated[Path, typer.Argument(help="Folder of a benchmark (see: faemb datasets).", metavar="DATASET")],
    learn: Annotated[
        list[Path], typer.Option(help="Folder of other images to learn from; may be given again.", metavar="FOLDER")
    ],
    table: Annotated[str | None, typer.Option(help=TABLE_HELP, metavar="NAME")] = None,
    preset: Annotated[str | None, typer.Option(help="One preset in place of a table.", metavar="NAME")] = None,
    variant: Variant = None,
    rotation: Annotated[
        bool, typer.Option("--rotation", help="With --preset: with rotation normalisation (+RN).")
    ] = False,
    large: Annotated[
        bool, typer.Option("--large", help="Rows of 16,000 dimensions too: hours, unless on a GPU.")
    ] = False,
    distractors: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of images that are wrong answers; may be given again.", metavar="FOLDER"),
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Read DATASET as this kind of benchmark.", metavar="NAME")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results.", metavar="FOLDER")] = None,
    cache: Annotated[Path, typer.Option(help="Folder for features and vectors, used again.", metavar="FOLDER")] = Path(
        "runs/cache"
    ),
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.", metavar="N")] = 0,
    seeds: Annotated[
        int, typer.Option(help="So many seeds, one after the other: results are means, with their spread.", metavar="N")
    ] = 1,
    device: Annotated[str, typer.Option(help="cpu, or cuda for a GPU.", metavar="NAME")] = "cpu",
    detector: Annotated[
        str | None,
        typer.Option(
            help="hessian-affine; or, with a network, patches, map or tokens (for the table cnn: map).", metavar="NAME"
        ),
    ] = None,
    network: Network = None,
    max_features: MaxFeatures = None,
    jobs: Jobs = None,
    json: Annotated[Path | None, typer.Option(help="Write the result here as JSON as well.", metavar="FILE")] = None,
    quiet: Quiet = False,
) -> None:
    """Run a table of the paper, or one preset, on a benchmark that you have, and show it beside the published numbers.

    An interrupted run goes on where it stopped. Results are written to runs/DATASET-TABLE unless --out says where.

    Example: faemb benchmark data/holidays --learn data/flickr --table embeddings
    """
    from faemb.benchmark.command import Experiment, run_experiment
    from faemb.pages.report import terminal_table, write_run

    experiment = Experiment(
        dataset=dataset,
        learning=tuple(learn),
        table=table,
        preset=preset,
        variant=variant,
        rotation=rotation,
        large=large,
        kind=kind,
        seed=seed,
        seeds=seeds,
        distractors=tuple(distractors or ()),
        extractor=_extractor(table, detector, network, max_features),
    )
    folder = out or Path("runs") / experiment.name
    with Live(quiet) as progress:
        run = run_experiment(experiment, folder, cache, device=device, jobs=jobs, progress=progress)
    written = write_run(run, folder)
    if json is not None:
        run.write(json)
    if not quiet:
        print_table(terminal_table(run))
        result(f"written to {', '.join(map(str, written))}")


def _extractor(table: str | None, detector: str | None, network: Path | None, max_features: int | None) -> Any:
    from faemb.benchmark.tables import CNN, SCALES
    from faemb.errors import InputError
    from faemb.features import CnnMap

    if table != CNN:
        return chosen_extractor(detector or "hessian-affine", network, max_features, False, None)
    if network is None:
        raise InputError(f"the table {CNN} needs a network; give its .onnx file with --network")
    extractor = chosen_extractor(detector or "map", network, max_features, False, None)
    if isinstance(extractor, CnnMap) and extractor.network.input_size is None:
        extractor.scales = SCALES
    return extractor


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
    from faemb.pages.document import save_page
    from faemb.pages.leaderboard import leaderboard as page

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
