"""Commands that make collections, models and vectors of images or local features, or learn a model again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from faemb.cli.console import Live, warning
from faemb.cli.options import (
    FAILED,
    INDEXES,
    Device,
    Exclude,
    ImagesOrFeatures,
    InCollection,
    ModelOptions,
    OnCluster,
    Output,
    Overwrite,
    Store,
    WorkOptions,
    end,
    failed_as_json,
    flag,
    opened,
    report_failed,
    value,
)
from faemb.pages import changes_in_words, counted

if TYPE_CHECKING:
    from faemb.collection import Collection, Report

NoRelearn = Annotated[
    bool,
    flag("Keep the model, even if the collection has twice as many images as it has learned from.", "--no-relearn"),
]


def index(
    images: ImagesOrFeatures,
    out: Annotated[Path, value("COLLECTION", "Folder for the collection.")],
    *,
    model: Annotated[
        Path | None, value("FILE", "Model made by `faemb fit`; if not given, one is learned from IMAGES.")
    ] = None,
    options: ModelOptions,
    kind: Annotated[str, value("NAME", f"Index for searches: {INDEXES}.", "--index")] = "auto",
    no_features: Annotated[
        bool, flag("Do not store local features; the collection is smaller.", "--no-features")
    ] = False,
    exclude: Exclude = None,
    no_relearn: NoRelearn = False,
    store: Annotated[
        str | None,
        value(
            "ADDRESS",
            "Store the vectors in a Milvus server, and search there: milvus://HOST:PORT/NAME. The rest stays in "
            "COLLECTION.",
        ),
    ] = None,
    device: Device = "cpu",
    work: WorkOptions,
    output: Output,
) -> None:
    """Make a searchable collection of IMAGES.

    A model is learned from IMAGES unless one is given. The same command continues an interrupted run; a folder that
    COLLECTION does not know is refused: `faemb add` adds it.

    Folders, and what --exclude leaves out of them, are remembered for `faemb update`.

    Example: faemb index photos --out photos.faemb
    """
    from faemb.collection import Collection, Model, images_in
    from faemb.collection.creating import removed_if_useless
    from faemb.collection.layout import Layout
    from faemb.errors import InputError
    from faemb.features.feature_files import kind_of

    if model is not None and options.given:
        raise InputError(f"{', '.join(options.given)} cannot be combined with --model; leave out one or the other")
    learned = Model.load(model, device=device) if model is not None else None
    sources = images_in(images, exclude or (), None if learned is None else kind_of(learned.extractor))
    chosen = learned or options.model(device, sources)
    with (
        _report_of_failure(output),
        removed_if_useless(Layout(out)),
        work.opened(output) as jobs,
        Collection.resume(
            out,
            chosen,
            keep_features=not no_features,
            index=kind,
            device=device,
            store=store,
            folders=sources.folders,
        ) as collection,
    ):
        if collection.migrated is not None:
            warning(collection.migrated)
        _change(collection, partial(collection.add, sources, relearn=not no_relearn, jobs=jobs), output)


def add(
    collection: InCollection,
    images: ImagesOrFeatures,
    *,
    exclude: Exclude = None,
    no_relearn: NoRelearn = False,
    store: Store = None,
    device: Device = "cpu",
    work: WorkOptions,
    output: Output,
) -> None:
    """Add IMAGES to a collection; images that have not changed are skipped.

    Folders, and what --exclude leaves out of them, are remembered for `faemb update`: the patterns of the last command
    that names the folder apply. Images that are in the collection already stay in it.

    An image that was removed is added again if its file itself is given, and skipped if it is found in a folder.

    Example: faemb add photos.faemb more-photos
    """
    from faemb.collection import images_in
    from faemb.features.feature_files import kind_of

    with (
        _report_of_failure(output),
        work.opened(output) as jobs,
        opened(collection, device=device, store=store) as photos,
    ):
        sources = images_in(images, exclude or (), kind_of(photos.model.extractor))
        _change(photos, partial(photos.add, sources, relearn=not no_relearn, jobs=jobs), output)


def update(
    collection: InCollection,
    *,
    allow_removing: Annotated[
        bool,
        flag(
            "Remove deleted images even if these are all images of a folder, or more than 30 % of the collection.",
            "--allow-removing",
        ),
    ] = False,
    no_relearn: NoRelearn = False,
    store: Store = None,
    device: Device = "cpu",
    work: WorkOptions,
    output: Output,
) -> None:
    """Bring a collection up to date with its folders: add new images, encode changed ones again, remove deleted ones.

    Example: faemb update photos.faemb
    """
    with (
        _report_of_failure(output),
        work.opened(output) as jobs,
        opened(collection, device=device, store=store) as photos,
    ):
        change = partial(photos.update, allow_removing=allow_removing, relearn=not no_relearn, jobs=jobs)
        _change(photos, change, output)


def relearn(
    collection: InCollection, *, store: Store = None, device: Device = "cpu", cluster: OnCluster = None, output: Output
) -> None:
    """Learn the model of a collection again from the images that it has now, and encode them with it.

    No image file is read: local features are stored in the collection. Searches use the old model until this is done.

    Example: faemb relearn photos.faemb
    """
    with (
        WorkOptions(cluster=cluster).opened(output) as jobs,
        opened(collection, device=device, store=store) as photos,
    ):
        with Live(output.quiet) as progress:
            report = photos.relearn(jobs=jobs, progress=progress, notice=output.notice)
        known = photos.info()
    seen = counted(report.relearned_from)
    line = f"learned from {seen} in {report.seconds:.1f} s; {collection} has {known.dimension} dimensions"
    output.show({**_as_json(report), "dimension": known.dimension}, [line])


def fit(
    images: ImagesOrFeatures,
    out: Annotated[Path, value("FILE", "File for the model.")],
    *,
    options: ModelOptions,
    overwrite: Overwrite = False,
    exclude: Exclude = None,
    device: Device = "cpu",
    work: WorkOptions,
    output: Output,
) -> None:
    """Learn a model from unlabelled IMAGES, for use with any collection.

    Example: faemb fit photos --out photos.model --preset small
    """
    from faemb.collection import fit_model, images_in
    from faemb.persistence import is_model
    from faemb.runtime.storage import require_output

    require_output(out, is_model, overwrite=overwrite)
    sources = images_in(images, exclude or ())
    with _report_of_failure(output), work.opened(output) as jobs, Live(output.quiet) as progress:
        model, report = fit_model(sources, options.model(device, sources), jobs=jobs, progress=progress)
    model.save(out, overwrite=overwrite)
    report_failed(report.failed)
    seen = counted(report.added - len(report.without_features))
    line = f"learned from {seen} in {report.seconds:.1f} s; {out} gives {model.dimension} dimensions"
    value = {**_as_json(report), "dimension": model.dimension}
    output.show(value, [line, *_passed_over(report)])
    end(report.failed, done=True)


def encode(
    images: ImagesOrFeatures,
    model: Annotated[Path, value("FILE", "Model made by `faemb fit`.")],
    out: Annotated[Path, value("FILE", "File for vectors and paths: .npz.")],
    *,
    overwrite: Overwrite = False,
    exclude: Exclude = None,
    device: Device = "cpu",
    work: WorkOptions,
    output: Output,
) -> None:
    """Write one vector per image to a file, without making a collection.

    Example: faemb encode photos --model photos.model --out vectors.npz
    """
    from faemb.collection import Model, encode_images, images_in
    from faemb.collection.export import require_export
    from faemb.features.feature_files import kind_of

    require_export(out, "npz", overwrite=overwrite)
    learned = Model.load(model, device=device)
    sources = images_in(images, exclude or (), kind_of(learned.extractor))
    with work.opened(output) as jobs, Live(output.quiet) as progress:
        report = encode_images(sources, learned, out, overwrite=overwrite, jobs=jobs, progress=progress)
    _warn(report, "so it has no vector")
    written = counted(report.added - len(report.without_features))
    line = f"vectors of {written} written to {out} in {report.seconds:.1f} s"
    output.show(_as_json(report), [line, *_passed_over(report)])
    end(report.failed, done=_has_read(report))


def _change(collection: "Collection", change: Callable[..., "Report"], output: Output) -> None:
    with Live(output.quiet) as progress:
        report = change(progress=progress, notice=output.notice)
    _warn(report, "so it is stored but ranked last")
    for sentence in report.kept:
        warning(sentence)
    output.show(_as_json(report), _change_lines(report, collection))
    if report.kept:
        raise typer.Exit(FAILED)
    end(report.failed, done=_has_read(report))


@contextmanager
def _report_of_failure(output: Output) -> Iterator[None]:
    """Reports the images that could not be used, also if a model cannot learn from the others."""
    from faemb.collection.writing import LearningError

    try:
        yield
    except LearningError as error:
        report_failed(error.report.failed)
        warning(error.sentence)
        output.show(_as_json(error.report), ())
        raise typer.Exit(FAILED) from None


def _change_lines(report: "Report", collection: "Collection") -> Iterator[str]:
    now = collection.info()
    size = f"{counted(now.images)}, {now.bytes / 1e6:.1f} MB"
    yield f"{changes_in_words(report)} in {report.seconds:.1f} s; {collection.layout.folder} has {size}"
    yield from _passed_over(report)


def _warn(report: "Report", consequence: str) -> None:
    report_failed(report.failed)
    for path in report.without_features:
        warning(f"{path} has no local features, {consequence}")


def _passed_over(report: "Report") -> list[str]:
    from faemb.features.folders import passed_over_sentences

    return passed_over_sentences(report.passed_over)


def _as_json(report: "Report") -> dict[str, object]:
    return {**asdict(report), "failed": failed_as_json(report.failed)}


def _has_read(report: "Report") -> bool:
    return report.added + report.changed + report.moved + report.unchanged > 0
