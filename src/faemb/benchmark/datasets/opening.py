"""Opens a folder as the kind of benchmark that its files indicate; the name of the folder does not matter.

Files of ground truth take precedence: gt.tsv, gnd_*.pkl, *_query.txt. Without any, Holidays and UKBench are recognised
by the names of their images. A folder whose gt.tsv equals the ground truth given by these names is that benchmark, too.
Where a folder has files of several benchmarks, such as Oxford and revisited Oxford, the kind has to be given.
"""

from contextlib import suppress
from os import PathLike
from pathlib import Path

from faemb.benchmark.datasets.contents import Contents, contents_of
from faemb.benchmark.datasets.dataset import Dataset
from faemb.benchmark.datasets.holidays import HOLIDAYS
from faemb.benchmark.datasets.kind import COMPLETE, GroundTruth, Kind
from faemb.benchmark.datasets.oxford import OXFORD, PARIS
from faemb.benchmark.datasets.revisited import REVISITED_OXFORD, REVISITED_PARIS
from faemb.benchmark.datasets.table import COLUMNS, FILE, TABLE
from faemb.benchmark.datasets.ukbench import UKBENCH
from faemb.errors import InputError

KINDS = {kind.name: kind for kind in (HOLIDAYS, OXFORD, PARIS, REVISITED_OXFORD, REVISITED_PARIS, UKBENCH, TABLE)}


def open_dataset(folder: str | PathLike[str], kind: str | None = None) -> Dataset:
    """The benchmark in a folder; its kind is recognised by its files unless it is given."""
    given = None if kind is None else kind_named(kind)
    contents = contents_of(Path(folder))
    chosen = given or _recognised(contents)
    truth = chosen.read(contents)
    if given is None and chosen is TABLE:
        chosen, truth = _named_alike(contents, truth)
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
        raise InputError(f"{contents.folder} may be {' or '.join(names)}; give the kind, as in kind={names[0]!r}")
    if not chosen:
        raise InputError(
            f"{contents.folder} holds {len(contents.images)} images, and no ground truth for them; "
            f"add a {FILE} with the columns {', '.join(COLUMNS)}"
        )
    return chosen[0]


def _named_alike(contents: Contents, table: GroundTruth) -> tuple[Kind, GroundTruth]:
    """The benchmark whose ground truth by image names equals this table, if any; otherwise the table."""
    for kind in KINDS.values():
        if kind.by_names and kind.query_stays == TABLE.query_stays and kind.fits(contents):
            with suppress(InputError):
                truth = kind.read(contents)
                if _judged(truth) == _judged(table):
                    return kind, truth
    return TABLE, table


def _judged(truth: GroundTruth) -> set[tuple[object, ...]]:
    return {
        (protocol, query.number, frozenset(query.relevant), frozenset(query.junk), query.box)
        for protocol, queries in truth.protocols.items()
        for query in queries
    }


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
