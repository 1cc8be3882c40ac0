"""Options that several commands share: single ones as annotated types, sets of them as dataclasses.

A parameter of a command whose type is one of the dataclasses stands for one option per field; `expanded` tells typer.
Choices and defaults are repeated in the help because importing them takes too long; tests compare them with the code.
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from faemb.cli.console import print_json, result

if TYPE_CHECKING:
    from faemb.collection import Model
    from faemb.features import Extractor

Images = Annotated[
    list[Path], typer.Argument(help="Image files, and folders, which are searched recursively.", metavar="IMAGES...")
]
InCollection = Annotated[Path, typer.Argument(help="Folder of the collection.", metavar="COLLECTION")]
Jobs = Annotated[int | None, typer.Option(help="Number of worker processes; one per core if not given.", metavar="N")]
Device = Annotated[str, typer.Option(help="Where vectors are computed: cpu, or a PyTorch device such as cuda.",
                                     metavar="NAME")]  # fmt: skip
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Page = Annotated[
    Path | None, typer.Option(help="Also write an HTML page with thumbnails, complete in one file.", metavar="FILE")
]
Box = Annotated[
    str | None, typer.Option(help="Use only the features in this region, in pixels: x1,y1,x2,y2.", metavar="BOX")
]
Variant = Annotated[
    str | None, typer.Option(help="Variant of a published preset: paper (if not given) or released.", metavar="NAME")
]
INDEXES = "auto, exact, hnsw, ivf-pq or binary; auto chooses by the number of images"
Index = Annotated[
    str | None,
    typer.Option(help=f"Search with this index: {INDEXES}. The collection's own if not given.", metavar="NAME"),
]


@dataclass(frozen=True)
class Output:
    json: AsJson = False
    quiet: Quiet = False

    def show(self, value: object, lines: Iterable[str]) -> None:
        """Print the value as JSON, or else the lines, which are not evaluated unless they are printed."""
        if self.json:
            print_json(value)
        elif not self.quiet:
            for line in lines:
                result(line)


@dataclass(frozen=True)
class ExtractorOptions:
    detector: Annotated[
        str | None,
        typer.Option(
            help="hessian-affine, patches, map or tokens; map if only --network is given, else hessian-affine.",
            metavar="NAME",
        ),
    ] = None
    network: Annotated[
        Path | None, typer.Option(help="Network as an .onnx file, with its .json file beside it.", metavar="FILE")
    ] = None
    max_features: Annotated[
        int | None, typer.Option(help="Keep the N strongest features of each image; all if not given.", metavar="N")
    ] = None
    rotation_invariant: Annotated[
        bool,
        typer.Option(
            "--rotation-invariant", help="Rotate patches to their dominant orientation; by default they stay upright."
        ),
    ] = False
    max_side: Annotated[
        int | None,
        typer.Option(
            help="Reduce images whose longer side exceeds N pixels; 1,024 if not given, 0 for no limit.", metavar="N"
        ),
    ] = None

    def extractor(self) -> "Extractor":
        return self._extractor(self.max_features)

    def _extractor(self, max_features: int | None) -> "Extractor":
        """Only settings that were given are passed on: a detector refuses those that it does not have."""
        from faemb.features import make_extractor

        given: dict[str, Any] = {"max_features": max_features} if max_features is not None else {}
        if self.rotation_invariant:
            given["rotation_invariant"] = True
        if self.max_side is not None:
            given["max_side"] = self.max_side or None
        return make_extractor(self._detector, model=self.network, **given)

    @property
    def _detector(self) -> str:
        return self.detector or ("hessian-affine" if self.network is None else "map")


@dataclass(frozen=True)
class ModelOptions(ExtractorOptions):
    """A model that is to be learned: its extractor, whose features are limited by default, and its encoder."""

    max_features: Annotated[
        int | None,
        typer.Option(
            help="Keep the N strongest features of each image; 2,000 of hessian-affine if not given, 0 for all.",
            metavar="N",
        ),
    ] = None
    preset: Annotated[
        str,
        typer.Option(
            help="Settings of the encoder: small, medium, best, or a published method such as f-faemb-16.",
            metavar="NAME",
        ),
    ] = "small"
    variant: Variant = None

    def extractor(self) -> "Extractor":
        from faemb.collection.model import FEATURES

        limit = FEATURES if self.max_features is None and self._detector == "hessian-affine" else self.max_features
        return self._extractor(limit or None)

    def model(self, device: str) -> "Model":
        from faemb.collection import new_model

        return new_model(self.extractor(), self.preset, self.variant).to(device)


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer can read it: with one parameter per field in place of a dataclass."""
    signature = inspect.signature(command)
    groups: dict[str, Any] = {
        name: each.annotation for name, each in signature.parameters.items() if is_dataclass(each.annotation)
    }

    @wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    parts = [
        inspect.signature(groups[name]).parameters.values() if name in groups else [each]
        for name, each in signature.parameters.items()
    ]
    flat = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in chain(*parts)]
    run.__signature__ = signature.replace(parameters=flat)  # type: ignore[attr-defined]
    return run
