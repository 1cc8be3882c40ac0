"""Commands for models: fit one on images, encode images with it."""

from pathlib import Path
from typing import Annotated

import typer

from faemb.cli.console import Live, counted, failed_if_nothing_was_read, result, warning
from faemb.cli.options import (
    Detector,
    Images,
    Jobs,
    MaxSide,
    Network,
    Preset,
    Quiet,
    RotationInvariant,
    Strongest,
    Variant,
    collection_extractor,
)


def fit(
    images: Images,
    out: Annotated[Path, typer.Option(help="File for the model.", metavar="FILE")],
    preset: Preset = "small",
    variant: Variant = None,
    detector: Detector = "hessian-affine",
    network: Network = None,
    max_features: Strongest = None,
    rotation_invariant: RotationInvariant = False,
    max_side: MaxSide = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Learn a model from unlabelled IMAGES, to be used for any collection.

    Example: faemb fit photos --out photos.model --preset small
    """
    from faemb.collection import fit_model, new_model
    from faemb.collection.temporary import require_place

    require_place(out)
    extractor = collection_extractor(detector, network, max_features, rotation_invariant, max_side)
    with Live(quiet) as progress:
        model, report = fit_model(images, new_model(extractor, preset, variant), jobs=jobs, progress=progress)
    model.save(out)
    for sentence in report.failed:
        warning(sentence)
    if not quiet:
        learned = report.added - len(report.without_features)
        result(f"learned from {counted(learned)} in {report.seconds:.1f} s; {out} gives {model.dimension} dimensions")


def encode(
    images: Images,
    model: Annotated[Path, typer.Option(help="Model that `faemb fit` has made.", metavar="FILE")],
    out: Annotated[Path, typer.Option(help="File for vectors and paths: .npz.", metavar="FILE")],
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Write one vector per image, without a collection.

    Example: faemb encode photos --model photos.model --out vectors.npz
    """
    from faemb.collection import Model, encode_images

    with Live(quiet) as progress:
        report = encode_images(images, Model.load(model), out, jobs=jobs, progress=progress)
    for sentence in report.failed:
        warning(sentence)
    for path in report.without_features:
        warning(f"{path} has no local features, so it has no vector")
    if not quiet:
        written = report.added - len(report.without_features)
        result(f"vectors of {counted(written)} written to {out} in {report.seconds:.1f} s")
    failed_if_nothing_was_read(report)
