"""Options that several commands share: single ones as annotated types, sets of them as dataclasses.

A command has one option for each field of a dataclass among its parameters; `expanded` builds the signature that typer
reads.
Choices and defaults are repeated in the help because importing them takes too long; tests compare them with the code.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.models import ArgumentInfo, OptionInfo

from faemb.cli.console import print_json, result, warning

FAILED, PARTLY = 1, 3
"""Exit codes: nothing was done; done, but some inputs could not be used."""

if TYPE_CHECKING:
    from faemb.collection import Collection, Model
    from faemb.collection.sources import Sources
    from faemb.errors import Fault
    from faemb.features import Extractor
    from faemb.runtime.parallel import Machines


def argument(metavar: str, text: str) -> ArgumentInfo:
    return typer.Argument(help=text, metavar=metavar)


def images_argument(metavar: str, text: str) -> ArgumentInfo:
    """Paths or URLs of images or folders. Parsed here, because Path turns s3:// into s3:/."""
    return typer.Argument(help=text, metavar=metavar, parser=_place)


def _place(text: str) -> Path:
    from faemb.errors import FaembError
    from faemb.runtime.paths_and_urls import place

    try:
        return place(text)
    except FaembError as error:
        raise FaembError(str(error)) from None  # typer would report a ValueError as a usage error


def value(metavar: str, text: str, *names: str) -> OptionInfo:
    """An option with a value; its name is that of the parameter unless another is given."""
    return typer.Option(*names, help=text, metavar=metavar)


def flag(text: str, *names: str) -> OptionInfo:
    """An option without a value: it is either given or not."""
    return typer.Option(*names, help=text, metavar="")


Images = Annotated[
    list[Path],
    images_argument(
        "IMAGES",
        "Image files, and folders, which are searched recursively: paths, or URLs such as s3://bucket/folder.",
    ),
]
ImagesOrFeatures = Annotated[
    list[Path],
    images_argument(
        "IMAGES",
        "Image files, and folders, which are searched recursively: paths, or URLs such as s3://bucket/folder; or files "
        "of local features in their place: .npz, .siftgeo, .sift, .fvecs or .bvecs.",
    ),
]
InCollection = Annotated[Path, argument("COLLECTION", "Folder of the collection.")]
Jobs = Annotated[int | None, value("N", "Number of worker processes; one per core if not given.")]
OnCluster = Annotated[
    str | None,
    value(
        "ADDRESS",
        "Work on a Dask cluster: the address of its scheduler, such as tcp://scheduler:8786, or local:N for N workers "
        "on this machine. All workers must see the images under the same paths, or at URLs; then each worker needs the "
        "extra remote and its own credentials.",
    ),
]
Device = Annotated[str, value("NAME", "Where vectors are computed: cpu, or a PyTorch device such as cuda.")]
Quiet = Annotated[bool, flag("Print errors only.", "--quiet", "-q")]
AsJson = Annotated[bool, flag("Print the result as JSON.", "--json")]
Overwrite = Annotated[bool, flag("Replace an existing file even if faemb did not write it.", "--overwrite")]
OpenPage = Annotated[bool, flag("Show the page in the browser.", "--open")]
Exclude = Annotated[
    list[str] | None,
    value(
        "PATTERN",
        "Leave out files and folders whose name, or path in the searched folder, matches this shell pattern, such as "
        "'*-small.jpg' or 'trip/raw'; may be repeated.",
    ),
]
Box = Annotated[str | None, value("BOX", "Use only the features in this region, in pixels: x1,y1,x2,y2.")]
Turned = Annotated[
    bool,
    flag("Also use the query turned by 90, 180 and 270 degrees: finds what lies on its side.", "--turned"),
]
Variant = Annotated[str | None, value("NAME", "Variant of a published preset: paper (if not given) or released.")]
PUBLISHED = (
    "vlad-64, vlad-128, fisher-64, fisher-128, temb-64, temb-128, vlat-8, vlat-16, vlat-32, faemb-8, faemb-16, "
    "f-faemb-8, f-faemb-16 or f-faemb-32"
)
INDEXES = "auto, exact, rabitq, hnsw, ivf-pq or binary; auto chooses by the number of images"
Store = Annotated[
    str | None,
    value(
        "ADDRESS",
        "New address of the server with the collection's vectors, if it has moved: milvus://HOST:PORT/NAME. Commands "
        "that change the collection store it.",
    ),
]
Index = Annotated[str | None, value("NAME", f"Search with this index: {INDEXES}. The collection's own if not given.")]


@dataclass(frozen=True)
class Output:
    json: AsJson = False
    quiet: Quiet = False

    def show(self, value: object, lines: Iterable[str]) -> None:
        """Print the value as JSON, otherwise the lines, which are evaluated only if they are printed."""
        if self.json:
            print_json(value)
        elif not self.quiet:
            for line in lines:
                result(line)

    def notice(self, sentence: str) -> None:
        """Print a sentence on how the work is done, unless --quiet is given."""
        if not self.quiet:
            warning(sentence)


@dataclass(frozen=True)
class WorkOptions:
    """Where images are processed: in processes on this machine, or on a cluster."""

    jobs: Jobs = None
    cluster: OnCluster = None

    @contextmanager
    def opened(self, output: Output) -> "Iterator[Machines | int | None]":
        """What long calls take as `jobs`; an unusable cluster is an error before anything is written."""
        from faemb.errors import InputError

        if self.cluster is None:
            yield self.jobs
            return
        from faemb.runtime.cluster import open_cluster

        if self.jobs is not None:
            raise InputError("--jobs is for work on this machine; leave it out with --cluster")
        with open_cluster(self.cluster, notice=output.notice) as cluster:
            yield cluster
            idle = cluster.gpu.idle_share
        if idle is not None and not output.quiet:
            warning(f"workers with a GPU were idle for {100 * idle:.0f} % of the time in which there was work for them")


@dataclass(frozen=True)
class PageOptions:
    """Options of a command that can write its result as an HTML page."""

    html: Annotated[Path | None, value("FILE", "Also write an HTML page with thumbnails, complete in one file.")] = None
    overwrite: Overwrite = False
    show: OpenPage = False

    def check(self) -> None:
        """Refuse a page that cannot be written, before anything is computed."""
        from faemb.errors import InputError
        from faemb.pages.document import require_page

        if self.html is not None:
            require_page(self.html, overwrite=self.overwrite)
        elif self.show:
            raise InputError("--open shows the page that --html writes; give its name as well: --html FILE")

    def save(self, page: Callable[[], str]) -> None:
        """Write the page, which is rendered only if --html is given."""
        from faemb.pages.document import save_page

        if self.html is not None:
            save_page(self.html, page(), overwrite=self.overwrite)

    def open(self) -> None:
        if self.show and self.html is not None:
            open_page(self.html)


@dataclass(frozen=True)
class ExtractorOptions:
    detector: Annotated[
        str | None,
        value("NAME", "hessian-affine, patches, map or tokens; map if only --network is given, else hessian-affine."),
    ] = None
    network: Annotated[Path | None, value("FILE", "Network as an .onnx file, with its .json file beside it.")] = None
    max_features: Annotated[
        int | None, value("N", "Keep the N strongest features of each image; all if not given or 0.")
    ] = None
    rotation_invariant: Annotated[
        bool,
        flag("Rotate patches to their dominant orientation; by default they stay upright.", "--rotation-invariant"),
    ] = False
    max_side: Annotated[
        int | None, value("N", "Reduce images whose longer side exceeds N pixels; 1,024 if not given, 0 for no limit.")
    ] = None

    def extractor(self) -> "Extractor":
        return self._extractor(self.max_features or None)

    def _extractor(self, max_features: int | None) -> "Extractor":
        """Passes on only settings that were given: a detector refuses those that it does not have."""
        from faemb.features import make_extractor

        given: dict[str, Any] = {"max_features": max_features} if max_features is not None else {}
        if self.rotation_invariant:
            given["rotation_invariant"] = True
        if self.max_side is not None:
            given["max_side"] = self.max_side or None
        return make_extractor(self._detector, network=self.network, **given)

    @property
    def _detector(self) -> str:
        return self.detector or ("hessian-affine" if self.network is None else "map")


@dataclass(frozen=True)
class ModelOptions(ExtractorOptions):
    """Settings of a model to be learned: its extractor, which limits the features by default, and its encoder."""

    max_features: Annotated[
        int | None,
        value("N", "Keep the N strongest features of each image; 2,000 of hessian-affine if not given, 0 for all."),
    ] = None
    preset: Annotated[
        str | None,
        value("NAME", f"Encoder: small (if not given), medium or best, or a published method: {PUBLISHED}."),
    ] = None
    variant: Variant = None
    parts: Annotated[
        int | None,
        value(
            "N",
            "Also store the vectors of N x N overlapping parts of each image (2 to 5), so that a query that shows a "
            "small part of an image finds it: vectors take 1 + N x N times the space, and encoding "
            "takes two to three times as long.",
        ),
    ] = None
    root_sift: Annotated[
        bool, flag("If IMAGES are files of SIFT features: turn the descriptors into RootSIFT.", "--root-sift")
    ] = False

    def extractor(self) -> "Extractor":
        from faemb.collection.model import MAX_FEATURES

        limit = MAX_FEATURES if self.max_features is None and self._detector == "hessian-affine" else self.max_features
        return self._extractor(limit or None)

    def model(self, device: str, sources: "Sources") -> "Model":
        """A model that is not fitted yet, for the images or files of local features in `sources`."""
        from faemb.collection import new_model
        from faemb.features.feature_files import FEATURES

        extractor = self._feature_files(sources) if sources.kind is FEATURES else self._of_images()
        return new_model(extractor, self.preset or "small", self.variant, parts=self.parts or 0).to(device)

    def _of_images(self) -> "Extractor":
        self._refuse(("root_sift",), "images; it is for files of SIFT features")
        return self.extractor()

    def _feature_files(self, sources: "Sources") -> "Extractor":
        from faemb.features import FeatureFiles

        self._refuse(("detector", "network", "rotation_invariant", "max_side"), "files of local features; leave it out")
        return FeatureFiles.of(sources.found.images, max_features=self.max_features or None, root=self.root_sift)

    def _refuse(self, names: tuple[str, ...], reason: str) -> None:
        from faemb.errors import InputError

        for name in names:
            if f"--{name.replace('_', '-')}" in self.given:
                raise InputError(f"--{name.replace('_', '-')} cannot be used with {reason}")

    @property
    def given(self) -> list[str]:
        """Names of the options that were given."""
        given = (field.name for field in fields(self) if getattr(self, field.name) != field.default)
        return [f"--{name.replace('_', '-')}" for name in given]


def opened(folder: Path, device: str = "cpu", store: str | None = None) -> "Collection":
    """The collection in a folder; a conversion from an older format is reported."""
    from faemb.collection import Collection

    collection = Collection.open(folder, device=device, store=store)
    if collection.migrated is not None:
        warning(collection.migrated)
    return collection


def open_page(page: Path) -> None:
    """Show a page in the browser; a warning if there is none."""
    open_address(page.absolute().as_uri(), str(page))


def open_address(address: str, name: str | None = None) -> None:
    import webbrowser

    try:
        shown = webbrowser.open(address)
    except webbrowser.Error:
        shown = False
    if not shown:
        warning(f"there is no browser to show {name or address}; open it on a machine that has one")


def report_failed(faults: Iterable["Fault"]) -> None:
    for fault in faults:
        warning(fault)


def failed_as_json(faults: Iterable["Fault"]) -> list[dict[str, str]]:
    """The inputs that could not be used, in the form that every command prints."""
    return [{"path": fault.path, "reason": fault} for fault in faults]


def end(faults: Sequence["Fault"], *, done: bool) -> None:
    """End the command with the exit code for inputs that could not be used; `done` if others could."""
    if faults:
        raise typer.Exit(PARTLY if done else FAILED)


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the signature that typer needs: one parameter per field in place of each dataclass."""
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
