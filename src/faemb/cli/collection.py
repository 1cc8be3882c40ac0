"""Commands for collections: index, add, remove, update, info, check, search, duplicates, export."""

from pathlib import Path
from typing import Annotated, Any

import typer

from faemb.cli.console import Live, counted, failed_if_nothing_was_read, print_json, result, warning
from faemb.cli.options import (
    AsJson,
    Detector,
    Images,
    InCollection,
    Index,
    Jobs,
    MaxSide,
    Network,
    Page,
    Preset,
    Quiet,
    RotationInvariant,
    Strongest,
    Variant,
    collection_extractor,
)

FittedModel = Annotated[
    Path | None,
    typer.Option(help="Model that `faemb fit` has made; else one is learned from the images.", metavar="FILE"),
]


def index(
    images: Images,
    out: Annotated[Path, typer.Option(help="Folder for the collection.", metavar="COLLECTION")],
    model: FittedModel = None,
    preset: Preset = "small",
    variant: Variant = None,
    detector: Detector = "hessian-affine",
    network: Network = None,
    max_features: Strongest = None,
    rotation_invariant: RotationInvariant = False,
    max_side: MaxSide = None,
    kind: Annotated[str, typer.Option("--index", help="auto, exact, hnsw, ivf-pq or binary.", metavar="NAME")] = "auto",
    no_features: Annotated[bool, typer.Option("--no-features", help="Do not keep local features: smaller.")] = False,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Make a searchable collection of IMAGES.

    A model is learned from these very images unless one is given. If it is interrupted, the same command goes on.

    Example: faemb index photos --out photos.faemb
    """
    from faemb.collection import Collection, images_in

    places = images_in(images)
    chosen = _model(model, preset, variant, detector, network, max_features, rotation_invariant, max_side)
    with Collection.resume(out, chosen, keep_features=not no_features, index=kind) as collection:
        with Live(quiet) as progress:
            report = collection.add(places, jobs=jobs, progress=progress)
        _told(report, collection, quiet)
    failed_if_nothing_was_read(report)


def add(collection: InCollection, images: Images, jobs: Jobs = None, quiet: Quiet = False) -> None:
    """Add IMAGES to a collection; those that have not changed are passed over.

    Example: faemb add photos.faemb more-photos
    """
    from faemb.collection import Collection

    with Collection.open(collection) as opened:
        with Live(quiet) as progress:
            report = opened.add(images, jobs=jobs, progress=progress)
        _told(report, opened, quiet)
    failed_if_nothing_was_read(report)


def remove(
    collection: InCollection,
    images: Annotated[list[Path], typer.Argument(help="Images, or folders of them.", metavar="IMAGE...")],
    quiet: Quiet = False,
) -> None:
    """Take images out of a collection; the files themselves are not touched.

    Example: faemb remove photos.faemb photos/blurred.jpg
    """
    from faemb.collection import Collection

    with Collection.open(collection) as opened:
        count = opened.remove(images)
    if not quiet:
        result(f"{counted(count)} removed from {collection}")


def update(collection: InCollection, jobs: Jobs = None, quiet: Quiet = False) -> None:
    """Look at the collection's folders again: add what is new, encode again what has changed, remove what is gone.

    Example: faemb update photos.faemb
    """
    from faemb.collection import Collection

    with Collection.open(collection) as opened:
        with Live(quiet) as progress:
            report = opened.update(jobs=jobs, progress=progress)
        _told(report, opened, quiet)


def info(collection: InCollection, json: AsJson = False) -> None:
    """Say what a collection holds and how it was made.

    Example: faemb info photos.faemb
    """
    from dataclasses import asdict

    from faemb.collection import Collection

    with Collection.open(collection) as opened:
        known = opened.info()
    if json:
        print_json(asdict(known))
        return
    result(f"{collection}: {counted(known.images)}, {known.searchable} searchable, {known.bytes / 1e6:.1f} MB")
    if known.without_features:
        result(f"  {known.without_features} without local features: ranked last")
    if known.waiting:
        result(
            f"  {known.waiting} wait to be encoded: an earlier command was interrupted; run: faemb update {collection}"
        )
    for path, reason in known.unreadable.items():
        result(f"  not readable: {path} ({reason})")
    for folder in known.folders:
        result(f"  folder {folder}")
    result(f"  features {known.extractor}")
    result(f"  encoder  {known.model}, {known.dimension} dimensions")
    result(f"  index    {known.index}")


def check(
    collection: InCollection,
    repair: Annotated[bool, typer.Option("--repair", help="Derive what is damaged from what is not.")] = False,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Compare every byte of a collection with its checksums; ends with code 1 if anything is damaged.

    Example: faemb check photos.faemb
    """
    from faemb.collection import Collection

    with Collection.open(collection) as opened, Live(quiet) as progress:
        faults = opened.check(repair=repair, jobs=jobs, progress=progress)
        rest = opened.check() if repair and faults else faults
    for fault in faults:
        warning(fault)
    if not quiet:
        result(_checked(collection, faults, rest, repair))
    if rest:
        raise typer.Exit(1)


def search(
    collection: InCollection,
    queries: Annotated[list[Path], typer.Argument(help="Photographs to look for.", metavar="QUERY...")],
    box: Annotated[str | None, typer.Option(help="Only this region of the query: x1,y1,x2,y2.", metavar="BOX")] = None,
    top: Annotated[int, typer.Option(help="So many results per query.", metavar="K")] = 10,
    threshold: Annotated[
        float | None, typer.Option(help="Only results at least so similar, up to 1.", metavar="T")
    ] = None,
    index: Index = None,
    json: AsJson = False,
    html: Page = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Rank the images of COLLECTION by similarity to each QUERY.

    Example: faemb search photos.faemb query.jpg --top 5 --html results.html
    """
    from faemb.collection import Collection
    from faemb.features import parse_box

    region = parse_box(box) if box is not None else None
    with Collection.open(collection) as opened:
        answers, faults = opened.search_many(queries, top=top, threshold=threshold, box=region, index=index, jobs=jobs)
    for fault in faults:
        warning(fault)
    if html is not None:
        from faemb.pages.contact_sheet import answers_page
        from faemb.pages.document import save_page

        save_page(html, answers_page(answers, title=f"Search in {collection.name}", box=region))
    if json:
        print_json([_as_json(answer) for answer in answers])
    elif not quiet:
        _print_answers(answers, box)
        if html is not None:
            result(f"written to {html}")
    if faults and not answers:
        raise typer.Exit(1)


def duplicates(
    collection: InCollection,
    threshold: Annotated[float | None, typer.Option(help="Least similarity within a group.", metavar="T")] = None,
    index: Index = None,
    json: AsJson = False,
    html: Page = None,
    quiet: Quiet = False,
) -> None:
    """List groups of images that show the same: near-duplicates, edits, crops.

    Example: faemb duplicates photos.faemb --html duplicates.html
    """
    from faemb.collection import Collection

    with Collection.open(collection) as opened, Live(quiet or json) as progress:
        said = {} if threshold is None else {"threshold": threshold}
        groups = opened.duplicates(**said, index=index, progress=progress)
    if html is not None:
        from faemb.pages.contact_sheet import groups_page
        from faemb.pages.document import save_page

        save_page(html, groups_page(groups, title=f"Duplicates in {collection.name}"))
    if json:
        print_json([{"score": group.score, "paths": [str(path) for path in group.paths]} for group in groups])
        return
    if quiet:
        return
    for number, group in enumerate(groups, 1):
        result(f"{number}. similarity {group.score:.3f}")
        for path in group.paths:
            result(f"   {path}")
    result(f"{len(groups)} {'group' if len(groups) == 1 else 'groups'}" + (f"; written to {html}" if html else ""))


def export(
    collection: InCollection,
    out: Annotated[Path, typer.Option(help="File to write.", metavar="FILE")],
    form: Annotated[str, typer.Option("--format", help="npz, fvecs, faiss or hloc-h5.", metavar="NAME")] = "npz",
    quiet: Quiet = False,
) -> None:
    """Write the vectors of a collection as a file of another tool, with the images' names.

    Example: faemb export photos.faemb --format faiss --out photos.faiss
    """
    from faemb.collection import Collection

    with Collection.open(collection) as opened:
        count = opened.export(out, form)
    if not quiet:
        result(f"vectors of {counted(count)} written to {out}")


def _model(
    model: Path | None,
    preset: str,
    variant: str | None,
    detector: str,
    network: Path | None,
    max_features: int | None,
    rotation_invariant: bool,
    max_side: int | None,
) -> Any:
    from faemb.collection import Model, new_model

    if model is not None:
        return Model.load(model)
    extractor = collection_extractor(detector, network, max_features, rotation_invariant, max_side)
    return new_model(extractor, preset, variant)


def _told(report: Any, collection: Any, quiet: bool) -> None:
    for sentence in report.failed:
        warning(sentence)
    for path in report.without_features:
        warning(f"{path} has no local features: it is kept, and ranked last")
    if quiet:
        return
    parts = [f"{counted(report.added)} added"]
    parts += [f"{count} {what}" for count, what in ((report.changed, "changed"), (report.removed, "removed"))
              if count]  # fmt: skip
    parts += [f"{report.unchanged} unchanged"] if report.unchanged else []
    parts += [f"{len(report.failed)} could not be read"] if report.failed else []
    known = collection.info()
    result(
        f"{', '.join(parts)} in {report.seconds:.1f} s; {collection.layout.folder} has {counted(known.images)}, "
        f"{known.bytes / 1e6:.1f} MB"
    )


def _checked(collection: Path, faults: list[str], rest: list[str], repair: bool) -> str:
    if not faults:
        return f"{collection} is whole"
    count = f"{len(faults)} {'fault' if len(faults) == 1 else 'faults'} in {collection}"
    if not repair:
        return f"{count}; mend with: faemb check {collection} --repair"
    return f"{len(faults) - len(rest)} of {count} mended"


def _print_answers(answers: Any, box: str | None) -> None:
    nothing = "no local features" if box is None else f"no local features in the box {box}"
    for answer in answers:
        result(f"{answer.query}: {answer.features} local features" if answer.features else
               f"{answer.query} has {nothing}: nothing can be found by it")  # fmt: skip
        for place, hit in enumerate(answer.hits, 1):
            score = "  none" if hit.score is None else f"{hit.score:6.3f}"
            result(f"{place:4d}. {score}  {hit.path}")


def _as_json(answer: Any) -> dict[str, Any]:
    hits = [{"path": str(hit.path), "score": hit.score} for hit in answer.hits]
    return {"query": answer.query, "features": answer.features, "hits": hits}
