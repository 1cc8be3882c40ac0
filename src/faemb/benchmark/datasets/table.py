"""Any folder of images with a gt.tsv, a table with tabs between its columns:

    query       relevant            junk     bbox_x1y1x2y2
    a.jpg       b.jpg,c.jpg         d.jpg    10,20,300,240

The first line names the columns, in any order. The box column is optional, cells other than the query may be empty, and
other columns are ignored. Images are given by file name, or by path below the folder. The query is removed from its own
ranking.
"""

from pathlib import Path
from typing import NamedTuple

from faemb.benchmark.datasets.contents import Contents
from faemb.benchmark.datasets.dataset import Query
from faemb.benchmark.datasets.kind import STANDARD, GroundTruth, Kind
from faemb.benchmark.datasets.names import Names, shown
from faemb.benchmark.datasets.reading import box_of, lines_of
from faemb.errors import InputError
from faemb.features.region import Box

FILE = "gt.tsv"
COLUMNS = ("query", "relevant", "junk")
BOX = "bbox_x1y1x2y2"


class _Row(NamedTuple):
    query: str
    relevant: list[str]
    junk: list[str]
    box: Box | None


def read_table(contents: Contents) -> GroundTruth:
    source, names = contents.file(FILE), Names(contents)
    rows = _rows(source)
    names.require((name for row in rows for name in (row.query, *row.relevant, *row.junk)), source)
    return GroundTruth(contents.images, {STANDARD: tuple(_query(row, names, contents) for row in rows)})


def _query(row: _Row, names: Names, contents: Contents) -> Query:
    number = names.number(row.query)
    return Query(contents.images[number], number, names.numbers(row.relevant), names.numbers(row.junk), row.box)


def _rows(source: Path) -> list[_Row]:
    first, *lines = lines_of(source) or [""]
    header = first.split("\t")
    if not set(COLUMNS) <= set(header):
        raise InputError(f"{source} begins with {shown(header)!r}; expected {', '.join(COLUMNS)}, with tabs between")
    filled = ((number, line) for number, line in enumerate(lines, 2) if line.strip("\t"))
    rows = [_row(header, line.split("\t"), f"line {number} of {source}") for number, line in filled]
    if not rows:
        raise InputError(f"{source} names no query; expected one in each line below the first")
    return rows


def _row(header: list[str], cells: list[str], source: str) -> _Row:
    if len(cells) != len(header):
        raise InputError(f"{source} has {len(cells)} cells; expected {len(header)}, with tabs between them")
    row = dict(zip(header, cells, strict=True))
    query, relevant, junk = row["query"].strip(), _listed(row["relevant"]), _listed(row["junk"])
    if not query:
        raise InputError(f"{source} has no query; expected the name of an image")
    removed = set(junk)
    both = [name for name in relevant if name in removed]
    if both:
        raise InputError(f"{source} names {shown(both)} as relevant and as junk; remove each from one list")
    box = row.get(BOX, "").strip()
    return _Row(query, relevant, junk, box_of(box.split(","), source) if box else None)


def _listed(cell: str) -> list[str]:
    return [name.strip() for name in cell.split(",") if name.strip()]


TABLE = Kind(
    name="table",
    title=f"images with a {FILE}",
    layout=f"images, and one {FILE} with the columns {', '.join(COLUMNS)} and perhaps {BOX}, in the folder or below",
    measures=("mAP",),
    query_stays=False,
    fits=lambda contents: contents.has(FILE),
    read=read_table,
)
