"""Commands for benchmarks: benchmark, datasets, leaderboard."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from faemb.cli.console import Live, result, table_lines, warning
from faemb.cli.options import (
    PUBLISHED,
    Device,
    ExtractorOptions,
    OpenPage,
    Output,
    Overwrite,
    Quiet,
    Variant,
    WorkOptions,
    argument,
    end,
    flag,
    open_page,
    report_failed,
    value,
)

if TYPE_CHECKING:
    from rich.table import Table

    from faemb.benchmark.datasets import Checked, Dataset, Kind
    from faemb.benchmark.run import Run
    from faemb.features import Extractor

TABLE_NAMES = "embeddings, anchors, sota, short, large, binary, cnn, rerank, timing, convergence or ablation"
RUNS = Path("runs")
CACHE = RUNS / "cache"
SHOWN = 5
"""Number of missing names that are printed; --json prints all of them."""


def benchmark(
    dataset: Annotated[Path, argument("DATASET", "Folder of a benchmark (see: faemb datasets).")],
    learn: Annotated[list[Path], value("FOLDER", "Folder of other images to learn from; may be repeated.")],
    *,
    table: Annotated[str | None, value("NAME", f"Table of the paper: {TABLE_NAMES}.")] = None,
    preset: Annotated[
        str | None, value("NAME", f"One preset instead of a table: small, medium, best, {PUBLISHED}.")
    ] = None,
    variant: Variant = None,
    pooling: Annotated[
        str | None,
        value(
            "NAME",
            "Pooling of all rows: democratic, sinkhorn (the paper's), sum or gmp; their defaults if not given.",
        ),
    ] = None,
    rotation: Annotated[bool, flag("With --preset: add rotation normalisation (+RN).", "--rotation")] = False,
    long_vectors: Annotated[
        bool, flag("Include the rows of about 16,000 dimensions, which take hours without a GPU.", "--long-vectors")
    ] = False,
    distractors: Annotated[
        list[Path] | None, value("FOLDER", "Folder of images that are relevant to no query; may be repeated.")
    ] = None,
    kind: Annotated[
        str | None, value("NAME", "Kind of benchmark in DATASET; recognised by its files if not given.")
    ] = None,
    out: Annotated[
        Path | None,
        value("FOLDER", "Folder for the results; if not given, one in runs that is named after these options."),
    ] = None,
    cache: Annotated[Path, value("FOLDER", "Folder for features and vectors, which later runs use again.")] = CACHE,
    seed: Annotated[int, value("N", "Random seed.")] = 0,
    seeds: Annotated[
        int, value("N", "Number of seeds, from --seed on; results are means with standard deviations.")
    ] = 1,
    options: ExtractorOptions,
    device: Device = "cpu",
    work: WorkOptions,
    output: Output,
) -> None:
    """Run a table of the paper, or one preset, on a local benchmark, and show it beside the published numbers.

    The same command continues an interrupted run.

    Example: faemb benchmark data/holidays --learn data/flickr --table embeddings
    """
    from faemb.benchmark.command import Experiment, run_experiment
    from faemb.benchmark.folders import folder_for
    from faemb.pages.report import write_run

    experiment = Experiment(
        dataset=dataset,
        learning=tuple(learn),
        table=table,
        preset=preset,
        variant=variant,
        pooling=pooling,
        rotation=rotation,
        long_vectors=long_vectors,
        kind=kind,
        seed=seed,
        seeds=seeds,
        distractors=tuple(distractors or ()),
        extractor=_extractor(table, options),
    )
    folder = out or folder_for(experiment.options(device), experiment.name, RUNS)
    with work.opened(output) as jobs, Live(output.quiet) as progress:
        run = run_experiment(experiment, folder, cache, device=device, jobs=jobs, progress=progress)
    written = write_run(run, folder)
    output.show(run.as_dict(), _run_lines(run, written))


def _run_lines(run: "Run", written: Iterable[Path]) -> Iterator[str]:
    from faemb.pages.report import terminal_table

    yield from table_lines(terminal_table(run))
    yield f"written to {', '.join(map(str, written))}"


def _extractor(table: str | None, options: ExtractorOptions) -> "Extractor":
    from faemb.benchmark.tables import CNN, SCALES
    from faemb.errors import InputError
    from faemb.features import CnnMap

    if table == CNN and options.network is None:
        raise InputError(f"the table {CNN} needs a network; give its .onnx file with --network")
    extractor = options.extractor()
    if table == CNN and isinstance(extractor, CnnMap) and extractor.network.input_size is None:
        extractor.scales = SCALES
    return extractor


def datasets(
    folder: Annotated[Path | None, argument("FOLDER", "Folder of a benchmark to check.")] = None,
    kind: Annotated[
        str | None, value("NAME", "Kind of benchmark in FOLDER; recognised by its files if not given.")
    ] = None,
    *,
    output: Output,
) -> None:
    """List the supported benchmarks and the layout of their folders, or check the folder of one.

    A check reads every image: results with equal checksums were computed on the same data.

    Example: faemb datasets data/holidays
    """
    if folder is None:
        _list_kinds(kind, output)
    else:
        _check(folder, kind, output)


def leaderboard(
    runs: Annotated[list[Path], argument("RUN", "Folders with a run.json; others are passed over.")],
    out: Annotated[Path, value("FILE", "HTML page to write, complete in one file.")],
    title: Annotated[str | None, value("TEXT", "Heading of the page.")] = None,
    overwrite: Overwrite = False,
    show: OpenPage = False,
    quiet: Quiet = False,
) -> None:
    """Write the results of several runs as one HTML page, best first, grouped by dataset and checksum.

    Example: faemb leaderboard runs/* --out leaderboard.html
    """
    from faemb.benchmark.ranking import load_sources, runs_among
    from faemb.pages.document import require_page, save_page
    from faemb.pages.leaderboard import TITLE
    from faemb.pages.leaderboard import leaderboard as page

    require_page(out, overwrite=overwrite)
    found, others = runs_among(runs)
    if others:
        warning(f"passed over what holds no run.json: {', '.join(map(str, others))}")
    sources, faults = load_sources(found)
    report_failed(faults)
    if sources:
        save_page(out, page(sources, title=TITLE if title is None else title), overwrite=overwrite)
        if not quiet:
            result(f"written to {out}")
        if show:
            open_page(out)
    end(faults, done=bool(sources))


def _list_kinds(name: str | None, output: Output) -> None:
    from faemb.benchmark.datasets import KINDS, kind_named

    kinds = list(KINDS.values()) if name is None else [kind_named(name)]
    output.show([_kind_as_json(kind) for kind in kinds], table_lines(_kinds_table(kinds)))


def _check(folder: Path, kind: str | None, output: Output) -> None:
    from faemb.benchmark.datasets import checked, open_dataset

    dataset = open_dataset(folder, kind)
    with Live(output.quiet) as progress:
        found = checked(dataset, progress)
    output.show(_dataset_as_json(dataset, found), (f"{name:<14}{text}" for name, text in _facts(dataset, found)))


def _kinds_table(kinds: Iterable["Kind"]) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table("kind", "benchmark", "layout of its folder, and source", box=SIMPLE_HEAD)
    for kind in kinds:
        facts = "\n".join([kind.title, *_size(kind), ", ".join(kind.measures)])
        table.add_row(kind.name, facts, f"{kind.layout}\n{kind.source.replace(': ', chr(10))}".rstrip())
        table.add_section()
    return table


def _size(kind: "Kind") -> list[str]:
    """Published numbers of images and queries; empty if there are none."""
    images = " or ".join(f"{count:,}" for count in kind.images)
    return [f"{images} images", f"{kind.queries:,} queries"] if images else []


def _facts(dataset: "Dataset", found: "Checked") -> Iterator[tuple[str, str]]:
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


def _kind_as_json(kind: "Kind") -> dict[str, object]:
    names = ("name", "title", "layout", "measures", "images", "queries", "source")
    return {name: getattr(kind, name) for name in names}


def _dataset_as_json(dataset: "Dataset", found: "Checked") -> dict[str, object]:
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
