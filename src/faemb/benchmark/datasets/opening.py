"""Opens a folder as the benchmark that it is.

Files of ground truth tell first: gt.tsv, gnd_*.pkl, *_query.txt. Only where there are none do the names of images, as
in Holidays and UKBench. Where files of several benchmarks lie together, as those of Oxford and of revisited Oxford may,
the kind has to be named.
"""

from os import PathLike
from pathlib import Path

from faemb.benchmark.datasets.contents import Contents, contents_of
from faemb.benchmark.datasets.dataset import Dataset
from faemb.benchmark.datasets.holidays import HOLIDAYS
from faemb.benchmark.datasets.kind import Kind
from faemb.benchmark.datasets.oxford import OXFORD, PARIS
from faemb.benchmark.datasets.revisited import REVISITED_OXFORD, REVISITED_PARIS
from faemb.benchmark.datasets.table import COLUMNS, FILE, TABLE
from faemb.benchmark.datasets.ukbench import UKBENCH
from faemb.errors import InputError

KINDS = {kind.name: kind for kind in (HOLIDAYS, OXFORD, PARIS, REVISITED_OXFORD, REVISITED_PARIS, UKBENCH, TABLE)}

COMPLETE = "complete"
"""How the note of a dataset begins that is as published."""


def open_dataset(folder: str | PathLike[str], kind: str | None = None) -> Dataset:
    """The benchmark in a folder, recognised by what lies there, or read as the kind that is named."""
    named = None if kind is None else kind_named(kind)
    contents = contents_of(Path(folder))
    chosen = named or _recognised(contents)
    truth = chosen.read(contents)
    queries = len(next(iter(truth.protocols.values())))
    return Dataset(
        name=contents.folder.resolve().name,
        kind=chosen.name,
        folder=contents.folder,
        images=truth.images,
        protocols=truth.protocols,
        query_stays=chosen.query_stays,
        measures=chosen.measures,
        note="; ".join(filter(None, (_completeness(chosen, len(truth.images), queries), truth.note))),
        missing=truth.missing,
    )


def kind_named(name: str) -> Kind:
    if name not in KINDS:
        raise InputError(f"no kind of benchmark is called {name!r}; there are {', '.join(KINDS)}")
    return KINDS[name]


def _recognised(contents: Contents) -> Kind:
    fitting = [kind for kind in KINDS.values() if kind.fits(contents)]
    chosen = [kind for kind in fitting if not kind.by_names] or fitting
    if len(chosen) > 1:
        names = [kind.name for kind in chosen]
        raise InputError(f"{contents.folder} may be {' or '.join(names)}; name the kind, as in kind={names[0]!r}")
    if not chosen:
        raise InputError(
            f"{contents.folder} holds {len(contents.images)} images, and nothing that says which of them belong "
            f"together; add a {FILE} with the columns {', '.join(COLUMNS)}"
        )
    return chosen[0]


def _completeness(kind: Kind, images: int, queries: int) -> str:
    found = f"{images:,} images and {queries:,} queries"
    complete = kind.is_complete(images, queries)
    if complete is None:
        return found
    if complete:
        return f"{COMPLETE}: {found}"
    expected = f"{' or '.join(f'{count:,}' for count in kind.images)} and {kind.queries:,}"
    fault = "a subset" if images <= max(kind.images) and queries <= kind.queries else "not as published"
    return f"{fault}: {found} instead of {expected}, so results cannot be compared with published ones"
