"""Commands for local features: extract, show, convert."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from faemb.cli.console import Live, result
from faemb.cli.options import (
    Box,
    Exclude,
    ExtractorOptions,
    Images,
    Output,
    Overwrite,
    Quiet,
    WorkOptions,
    argument,
    end,
    failed_as_json,
    images_argument,
    report_failed,
    value,
)
from faemb.pages import counted

if TYPE_CHECKING:
    from faemb.features import ExtractionSummary


def features(
    images: Images,
    out: Annotated[Path, value("FOLDER", "Folder for the features, one .npz file per image.")],
    *,
    options: ExtractorOptions,
    exclude: Exclude = None,
    work: WorkOptions,
    output: Output,
) -> None:
    """Extract the local features of IMAGES into a folder.

    Images whose features are up to date are skipped, so that the same command continues an interrupted run.

    Example: faemb features photos --out photos-features --max-features 1000
    """
    from faemb.features import extract_folder
    from faemb.features.folders import passed_over_sentences

    with work.opened(output) as jobs, Live(output.quiet) as progress:
        summary = extract_folder(images, out, options.extractor(), exclude=exclude or (), jobs=jobs, progress=progress)
    faults = [*summary.unreadable, *summary.failed]
    report_failed(faults)
    line = f"{'; '.join(_counts(summary))}; in {out} after {summary.seconds:.1f} s"
    output.show(_summary_as_json(summary), [line, *passed_over_sentences(summary.passed_over)])
    end(faults, done=len(summary.failed) < summary.images)


def show_features(
    image: Annotated[Path, images_argument("IMAGE", "Image file: a path or a URL.")],
    out: Annotated[Path, value("FILE", "Image file to write: .png, .jpg or .webp.")],
    *,
    options: ExtractorOptions,
    box: Box = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Draw the local features of IMAGE on it, the strongest in yellow.

    Example: faemb show-features photo.jpg --out picture.png --max-features 300
    """
    from faemb.features import parse_box
    from faemb.features.drawing import draw_features, require_picture, save_picture

    require_picture(out, overwrite=overwrite)
    found = options.extractor().extract(image)
    if box is not None:
        found = found.inside(parse_box(box))
    save_picture(out, draw_features(image, found), overwrite=overwrite)
    if not quiet:
        result(f"{len(found)} features of {image} drawn in {out}")


def convert_features(
    source: Annotated[Path, argument("SOURCE", "File of local features, or folder of such files.")],
    out: Annotated[Path, value("PATH", "File to write, .npz or .h5 in hloc's layout, or folder for .npz files.")],
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Convert local features between the formats of faemb and of other tools.

    Reads .npz, .siftgeo, .sift (Oxford), .fvecs and .bvecs files of one image each, folders of these, and .h5 files.

    Example: faemb convert-features photos-features --out photos.h5
    """
    from faemb.features.files import convert

    count = convert(source, out, overwrite=overwrite)
    if not quiet:
        result(f"{counted(count)} written to {out}")


def _summary_as_json(summary: "ExtractionSummary") -> dict[str, object]:
    """Folders that could not be searched are among the failed inputs."""
    known = asdict(summary)
    del known["unreadable"]
    return {**known, "failed": failed_as_json([*summary.unreadable, *summary.failed])}


def _counts(summary: "ExtractionSummary") -> Iterator[str]:
    yield f"{counted(summary.images - summary.up_to_date - len(summary.failed))} with {summary.features:,} features"
    if summary.up_to_date:
        yield f"{summary.up_to_date} already up to date"
    if summary.failed:
        yield f"{len(summary.failed)} could not be read"
    if summary.unreadable:
        yield f"{counted(len(summary.unreadable), 'folder')} could not be searched"
