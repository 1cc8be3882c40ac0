"""Commands for local features: extract, show, convert."""

from pathlib import Path
from typing import Annotated, Any

import typer

from faemb.cli.console import Live, result, warning
from faemb.cli.options import (
    Detector,
    Images,
    Jobs,
    MaxFeatures,
    MaxSide,
    Network,
    Quiet,
    RotationInvariant,
    chosen_extractor,
)


def features(
    images: Images,
    out: Annotated[Path, typer.Option(help="Folder for one .npz per image.", metavar="DIR")],
    detector: Detector = "hessian-affine",
    model: Network = None,
    max_features: MaxFeatures = None,
    rotation_invariant: RotationInvariant = False,
    max_side: MaxSide = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Extract the local features of IMAGES into a folder.

    Images that are up to date there are passed over: run it again to go on, or after adding images.

    Example: faemb features photos --out photos-features --max-features 1000
    """
    from faemb.features import extract_folder

    chosen = chosen_extractor(detector, model, max_features, rotation_invariant, max_side)
    with Live(quiet) as progress:
        summary = extract_folder(images, out, chosen, jobs=jobs, progress=progress)
    for sentence in (*summary.unreadable, *summary.failed):
        warning(sentence)
    if not quiet:
        result(_told(summary, out))
    if len(summary.failed) == summary.images:
        raise typer.Exit(1)


def show_features(
    image: Annotated[Path, typer.Argument(help="An image file.", metavar="IMAGE")],
    out: Annotated[Path, typer.Option(help="Picture to write: .png, .jpg or .webp.", metavar="FILE")],
    detector: Detector = "hessian-affine",
    model: Network = None,
    max_features: MaxFeatures = None,
    rotation_invariant: RotationInvariant = False,
    max_side: MaxSide = None,
    box: Annotated[str | None, typer.Option(help="Only those inside x1,y1,x2,y2.", metavar="BOX")] = None,
    quiet: Quiet = False,
) -> None:
    """Draw the local features of IMAGE on it, strong ones in yellow.

    Example: faemb show-features photo.jpg --out picture.png --max-features 300
    """
    from faemb.features import parse_box
    from faemb.features.drawing import draw_features, save_picture

    found = chosen_extractor(detector, model, max_features, rotation_invariant, max_side).extract(image)
    if box is not None:
        found = found.inside(parse_box(box))
    save_picture(out, draw_features(image, found))
    if not quiet:
        result(f"{len(found)} features of {image} drawn in {out}")


def convert_features(
    source: Annotated[Path, typer.Argument(help="A file of local features, or a folder of them.", metavar="SOURCE")],
    out: Annotated[Path, typer.Option(help="File to write: .npz, or .h5 in hloc's layout.", metavar="FILE")],
    quiet: Quiet = False,
) -> None:
    """Convert local features, of this or of another tool.

    Reads .npz, .siftgeo, .sift (Oxford), .fvecs and .bvecs; a folder of them becomes one .h5.

    Example: faemb convert-features photos-features --out photos.h5
    """
    from faemb.features.files import convert

    count = convert(source, out)
    if not quiet:
        result(f"{count} {'image' if count == 1 else 'images'} written to {out}")


def _told(summary: Any, out: Path) -> str:
    fresh = summary.images - summary.up_to_date - len(summary.failed)
    parts = [f"{fresh} {'image' if fresh == 1 else 'images'} with {summary.features:,} features"]
    if summary.up_to_date:
        parts.append(f"{summary.up_to_date} already up to date")
    if summary.failed:
        parts.append(f"{len(summary.failed)} could not be read")
    if summary.unreadable:
        parts.append(f"{len(summary.unreadable)} folders could not be searched")
    return f"{'; '.join(parts)}; in {out} after {summary.seconds:.1f} s"
