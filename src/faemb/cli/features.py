"""Commands for local features: extract, show, convert."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from faemb.cli.console import Live, result, warning
from faemb.cli.options import Box, ExtractorOptions, Images, Jobs, Output, Quiet, argument, value
from faemb.pages import counted

if TYPE_CHECKING:
    from faemb.features import Summary


def features(
    images: Images,
    out: Annotated[Path, value("FOLDER", "Folder for the features, one .npz file per image.")],
    *,
    options: ExtractorOptions,
    jobs: Jobs = None,
    output: Output,
) -> None:
    """Extract the local features of IMAGES into a folder.

    Images whose features are up to date are skipped, so that the same command continues an interrupted run.

    Example: faemb features photos --out photos-features --max-features 1000
    """
    from faemb.features import extract_folder

    with Live(output.quiet) as progress:
        summary = extract_folder(images, out, options.extractor(), jobs=jobs, progress=progress)
    for sentence in (*summary.unreadable, *summary.failed):
        warning(sentence)
    output.show(asdict(summary), [f"{'; '.join(_counts(summary))}; in {out} after {summary.seconds:.1f} s"])
    if len(summary.failed) == summary.images:
        raise typer.Exit(1)


def show_features(
    image: Annotated[Path, argument("IMAGE", "Image file.")],
    out: Annotated[Path, value("FILE", "Image file to write: .png, .jpg or .webp.")],
    *,
    options: ExtractorOptions,
    box: Box = None,
    quiet: Quiet = False,
) -> None:
    """Draw the local features of IMAGE on it, the strongest in yellow.

    Example: faemb show-features photo.jpg --out picture.png --max-features 300
    """
    from faemb.features import parse_box
    from faemb.features.drawing import draw_features, save_picture

    found = options.extractor().extract(image)
    if box is not None:
        found = found.inside(parse_box(box))
    save_picture(out, draw_features(image, found))
    if not quiet:
        result(f"{len(found)} features of {image} drawn in {out}")


def convert_features(
    source: Annotated[Path, argument("SOURCE", "File of local features, or folder of such files.")],
    out: Annotated[Path, value("PATH", "File to write, .npz or .h5 in hloc's layout, or folder for .npz files.")],
    quiet: Quiet = False,
) -> None:
    """Convert local features between the formats of faemb and of other tools.

    Reads .npz, .siftgeo, .sift (Oxford), .fvecs and .bvecs files of one image each, folders of these, and .h5 files.

    Example: faemb convert-features photos-features --out photos.h5
    """
    from faemb.features.files import convert

    count = convert(source, out)
    if not quiet:
        result(f"{counted(count)} written to {out}")


def _counts(summary: "Summary") -> Iterator[str]:
    yield f"{counted(summary.images - summary.up_to_date - len(summary.failed))} with {summary.features:,} features"
    if summary.up_to_date:
        yield f"{summary.up_to_date} already up to date"
    if summary.failed:
        yield f"{len(summary.failed)} could not be read"
    if summary.unreadable:
        yield f"{counted(len(summary.unreadable), 'folder')} could not be searched"
