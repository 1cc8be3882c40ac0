"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

Images = Annotated[
    list[Path], typer.Argument(help="Image files, and folders that are searched through.", metavar="IMAGES...")
]
InCollection = Annotated[Path, typer.Argument(help="Folder of the collection.", metavar="COLLECTION")]
Detector = Annotated[
    str, typer.Option(help="hessian-affine; or, with a network, patches, map or tokens.", metavar="NAME")
]
Network = Annotated[Path | None, typer.Option(help="Network as .onnx, with its .json beside it.", metavar="FILE")]
MaxFeatures = Annotated[int | None, typer.Option(help="Keep the strongest N of each image.", metavar="N")]
Strongest = Annotated[
    int | None,
    typer.Option(
        "--max-features", help="Keep the strongest N of each image; 2,000 if not given, 0 for all.", metavar="N"
    ),
]
RotationInvariant = Annotated[
    bool, typer.Option("--rotation-invariant", help="Turn patches to their own direction; else up stays up.")
]
MaxSide = Annotated[
    int | None,
    typer.Option(help="Reduce larger images to N pixels first; 1,024 if not given, 0 for never.", metavar="N"),
]
Jobs = Annotated[int | None, typer.Option(help="Worker processes; one per core if not given.", metavar="N")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Page = Annotated[
    Path | None, typer.Option(help="Write a page with thumbnails, which needs no other file.", metavar="FILE")
]
Preset = Annotated[
    str, typer.Option(help="Settings of the encoder: small, medium, or a published row.", metavar="NAME")
]
Variant = Annotated[str | None, typer.Option(help="Of a published row: paper or released.", metavar="NAME")]
Index = Annotated[
    str | None,
    typer.Option(help="exact, hnsw, ivf-pq or binary; auto chooses by the number of images.", metavar="NAME"),
]


def collection_extractor(
    detector: str,
    network: Path | None,
    max_features: int | None,
    rotation_invariant: bool,
    max_side: int | None,
) -> Any:
    """The same for a collection, where every image has its limit unless it is said that there is none."""
    from faemb.collection.model import FEATURES

    if max_features is None and detector == "hessian-affine":
        max_features = FEATURES
    return chosen_extractor(detector, network, max_features or None, rotation_invariant, max_side)


def chosen_extractor(
    detector: str,
    network: Path | None,
    max_features: int | None,
    rotation_invariant: bool,
    max_side: int | None,
) -> Any:
    """Only what was said is passed on: a detector refuses settings that it does not have."""
    from faemb.features import make_extractor

    said: dict[str, Any] = {"max_features": max_features} if max_features is not None else {}
    if rotation_invariant:
        said["rotation_invariant"] = True
    if max_side is not None:
        said["max_side"] = max_side or None
    return make_extractor(detector, network=network, **said)
