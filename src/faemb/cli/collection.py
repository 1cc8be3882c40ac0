"""Commands on an existing collection: search, duplicates, remove, relocate, info, check, export, copy."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from faemb.cli.console import Live, result, warning
from faemb.cli.options import (
    AsJson,
    Box,
    Device,
    InCollection,
    Index,
    Jobs,
    Output,
    Overwrite,
    PageOptions,
    Quiet,
    Store,
    Turned,
    argument,
    end,
    failed_as_json,
    flag,
    images_argument,
    opened,
    report_failed,
    value,
)
from faemb.cli.results_as_text import (
    answer_as_json,
    answer_lines,
    check_summary,
    group_as_json,
    group_lines,
    info_lines,
    way_back,
)
from faemb.errors import InputError
from faemb.pages import counted

if TYPE_CHECKING:
    from faemb.collection import Answer, Collection
    from faemb.collection.results import Groups
    from faemb.features.region import Box as Region


def search(
    collection: InCollection,
    queries: Annotated[list[Path], images_argument("QUERY", "Query images: paths or URLs.")],
    *,
    box: Box = None,
    top: Annotated[int, value("K", "Number of results per query, besides the query itself.")] = 10,
    threshold: Annotated[float | None, value("T", "Omit results of lower similarity; from -1 to 1.")] = None,
    verify: Annotated[
        int, value("N", "Verify this number of the most similar images by their local features; 0 for none.")
    ] = 100,
    least_confidence: Annotated[
        float | None, value("P", "Omit results of lower confidence, such as 0.9; from 0 to 1.")
    ] = None,
    expand: Annotated[
        str,
        value(
            "NAME",
            "results: also search with each result whose verdict is 'same'; if there is none, verify 100 more "
            "candidates. With --verify 0: average (query expansion), augmented (database-side augmentation), scaled "
            "(similarity minus half the mean similarity of a result to its neighbours) or reciprocal (re-ranking of "
            "100 results by their mutual neighbours). none: off.",
        ),
    ] = "none",
    query_parts: Annotated[
        int,
        value("N", "Search for N x N overlapping parts of each query as well: finds images that show a part of it."),
    ] = 0,
    turned: Turned = False,
    index: Index = None,
    store: Store = None,
    page: PageOptions,
    device: Device = "cpu",
    jobs: Jobs = None,
    output: Output,
) -> None:
    """Find the images of COLLECTION that show the same thing as each QUERY.

    The most similar images are compared with the query feature by feature. Each result has a confidence, the
    probability that it shows the same thing: "same" from 0.9, "maybe" from 0.5.

    Example: faemb search photos.faemb query.jpg --top 5 --html results.html
    """
    from faemb.features import parse_box

    page.check()
    region = parse_box(box) if box is not None else None
    with opened(collection, device=device, store=store) as photos, Live(output.quiet) as progress:
        answers, faults = photos.search_many(
            queries,
            top=top,
            threshold=threshold,
            verify=verify,
            least_confidence=least_confidence,
            expand=expand,
            query_parts=query_parts,
            turned=turned,
            box=region,
            index=index,
            jobs=jobs,
            count_itself=False,
            progress=progress,
        )
        report_failed(faults)
        note = photos.note_on_files(hit for answer in answers for hit in answer.hits)
        page.save(lambda: _answers_page(answers, photos, region, note))
    if note:
        warning(note)
    value = {"answers": [answer_as_json(answer) for answer in answers], "failed": failed_as_json(faults)}
    output.show(value, answer_lines(answers, box, page.html))
    page.open()
    end(faults, done=bool(answers))


def _answers_page(answers: Sequence["Answer"], photos: "Collection", box: "Region | None", note: str) -> str:
    from faemb.pages.contact_sheet import answers_page

    title = f"Search in {photos.layout.folder.name}"
    return answers_page(answers, title=title, box=box, note=note, thumbnail=photos.thumbnail)


def duplicates(
    collection: InCollection,
    *,
    same_thing: Annotated[
        bool, flag("Join different photographs of the same object or scene too, not only copies.", "--same-thing")
    ] = False,
    mirrored: Annotated[
        bool, flag("Find copies that are mirrored from left to right too, which takes longer.", "--mirrored")
    ] = False,
    no_verify: Annotated[
        bool,
        flag("Join images by the similarity of their vectors alone, which is faster and less sure.", "--no-verify"),
    ] = False,
    threshold: Annotated[
        float | None,
        value(
            "T",
            "Compare images of at least this similarity. If not given: all that are clearly more similar than "
            "unrelated images; where local features are not compared, 0.3, or 0.45 if the vectors have fewer than "
            "3,000 dimensions.",
        ),
    ] = None,
    index: Index = None,
    store: Store = None,
    page: PageOptions,
    output: Output,
) -> None:
    """List groups of copies of one picture, and which image of each to keep; no file is changed.

    Copies are resized, cropped, turned by a few degrees, encoded again, in other colours, or have a caption or a
    watermark; a collage is a copy of each of its pictures, and joins them. With --same-thing, a group may hold
    different photographs of one thing. Groups are chains: each image matches another one of its group, but two of them
    may not match each other. Look before you delete.

    Example: faemb duplicates photos.faemb --html duplicates.html
    """
    page.check()
    with opened(collection, store=store) as photos, Live(output.quiet) as progress:
        groups = photos.duplicates(
            threshold,
            same_thing=same_thing,
            mirrored=mirrored,
            verify=not no_verify,
            index=index,
            progress=progress,
        )
        notes = [groups.note, photos.note_on_files(image for group in groups for image in group.images)]
        page.save(lambda: _groups_page(groups, photos, "; ".join(filter(None, notes))))
    for note in filter(None, notes):
        warning(note)
    output.show([group_as_json(group) for group in groups], group_lines(groups, page.html))
    page.open()


def _groups_page(groups: "Groups", photos: "Collection", note: str) -> str:
    from faemb.pages.contact_sheet import groups_page

    title = f"Duplicates in {photos.layout.folder.name}"
    return groups_page(groups, title=title, note=note, thumbnail=photos.thumbnail)


def remove(
    collection: InCollection,
    images: Annotated[list[Path], images_argument("IMAGE", "Images, or folders of images: paths or URLs.")],
    *,
    store: Store = None,
    output: Output,
) -> None:
    """Remove images from a collection; the image files are not deleted.

    A removed folder is no longer searched by `faemb update`. A removed image is not added again until its file itself
    is given to `faemb add`.

    Example: faemb remove photos.faemb photos/blurred.jpg
    """
    with opened(collection, store=store) as photos:
        count, kept_out = photos.remove(images), photos.kept_out()
    lines = [f"{counted(count)} removed from {collection}"]
    if kept_out:
        lines.append(f"removed images are skipped when folders are searched; {way_back(collection)}")
    output.show({"removed": count}, lines)


def relocate(
    collection: InCollection,
    old: Annotated[Path, images_argument("OLD", "Folder or image file as the collection knows it.")],
    new: Annotated[Path, images_argument("NEW", "Where it is now: a path or a URL.")],
    *,
    store: Store = None,
    output: Output,
) -> None:
    """Record that a folder of images, or one image, has been moved; the images are not read again.

    Example: faemb relocate photos.faemb /media/disk/photos photos
    """
    with opened(collection, store=store) as photos:
        count = photos.relocate(old, new)
    output.show({"relocated": count}, [f"{counted(count)} of {collection} relocated from {old} to {new}"])


def info(collection: InCollection, json: AsJson = False) -> None:
    """Print what a collection holds and how it was made.

    Example: faemb info photos.faemb
    """
    with opened(collection) as photos:
        known = photos.info()
    Output(json).show(asdict(known), info_lines(collection, known))


def check(
    collection: InCollection,
    *,
    repair: Annotated[
        bool, flag("Compute damaged data again from undamaged data and the image files.", "--repair")
    ] = False,
    store: Store = None,
    device: Device = "cpu",
    jobs: Jobs = None,
    output: Output,
) -> None:
    """Verify the checksums of a collection; the exit code is 1 if any damage remains.

    Example: faemb check photos.faemb
    """
    with opened(collection, device=device, store=store) as photos, Live(output.quiet) as progress:
        faults = photos.check(repair=repair, jobs=jobs, progress=progress)
        remaining = photos.check() if repair and faults else faults
    for fault in faults:
        warning(fault)
    value = {"faults": faults, "remaining": remaining}
    output.show(value, [check_summary(collection, len(faults), len(remaining), repair)])
    if remaining:
        raise typer.Exit(1)


def export(
    collection: InCollection,
    out: Annotated[Path, value("FILE", "File to write.")],
    form: Annotated[str, value("NAME", "npz, fvecs, faiss, hloc-h5 or parquet.", "--format")] = "npz",
    overwrite: Overwrite = False,
    store: Store = None,
    quiet: Quiet = False,
) -> None:
    """Write the vectors of a collection, with the names of the images, to a file for other tools.

    Example: faemb export photos.faemb --format faiss --out photos.faiss
    """
    with opened(collection, store=store) as photos:
        count = photos.export(out, form, overwrite=overwrite)
    if not quiet:
        result(f"vectors of {counted(count)} written to {out}")


def copy(
    collection: InCollection,
    target: Annotated[
        str,
        argument(
            "ADDRESS",
            "Target: milvus://HOST:PORT/NAME (NAME must be unused), or embedded for files in the collection's folder.",
        ),
    ],
    *,
    forget: Annotated[
        bool,
        flag(
            "Copy nothing: forget this address, which faemb info lists as not in use any more, as its server is gone "
            "for good. Otherwise later changes try once a day to delete what was left there.",
            "--forget",
        ),
    ] = False,
    store: Store = None,
    output: Output,
) -> None:
    """Copy the vectors of a collection to a Milvus server, or back into its folder, and use them there from now on.

    All vectors are compared with their checksums, and the copy is counted and searched, before it is used. Then the
    vectors at the old place are deleted: the files vectors-*.f32 and *.faiss, or the Milvus collections of this store.
    Local features, thumbnails and the catalogue stay in the folder.

    Example: faemb copy photos.faemb milvus://127.0.0.1:19530/photos
    """
    if forget:
        if store is not None:
            raise InputError("--forget asks no server; leave out --store")
        with opened(collection) as photos:
            photos.forget_store(target)
        output.show({"forgotten": target}, [f"{target} is forgotten; nothing was deleted there"])
        return
    with opened(collection, store=store) as photos, Live(output.quiet) as progress:
        count = photos.copy(target, progress=progress)
    place = f"the folder {collection}" if target == "embedded" else target
    output.show({"copied": count, "store": target}, [f"vectors of {counted(count)} copied to {place}, and used there"])
