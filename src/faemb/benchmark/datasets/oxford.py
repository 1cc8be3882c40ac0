"""Oxford5k and Paris6k with their original ground truth: four text files for each query. [PCISZ07, PCISZ08]

    all_souls_1_query.txt     oxc1_all_souls_000013 136.5 34.1 648.5 955.7      an image, and a box in it
    all_souls_1_good.txt      names of images, one in each line: the object is clearly visible
    all_souls_1_ok.txt        more than a quarter of it is visible
    all_souls_1_junk.txt      less than that

Good and ok images are relevant, junk is removed. The query stays in its ranking as one of the good images.

[PCISZ07]: Philbin et al., "Object retrieval with large vocabularies and fast spatial matching", CVPR 2007.
[PCISZ08]: Philbin et al., "Lost in quantization", CVPR 2008.
"""

from pathlib import Path

from faemb.benchmark.datasets.contents import Contents
from faemb.benchmark.datasets.dataset import Query
from faemb.benchmark.datasets.kind import STANDARD, GroundTruth, Kind
from faemb.benchmark.datasets.names import Names, require_distinct
from faemb.benchmark.datasets.reading import box_of, lines_of
from faemb.errors import InputError

_QUERY = "_query.txt"
_PREFIX = "oxc1_"
"""Prefix in query files; not part of the image's name."""

_BROKEN_NUMBERS = {
    "louvre": ("000136", "000146"),
    "moulinrouge": ("000422",),
    "museedorsay": ("001059",),
    "notredame": ("000188",),
    "pantheon": ("000284", "000960", "000974"),
    "pompidou": ("000195", "000196", "000201", "000467", "000640"),
    "sacrecoeur": ("000299", "000330", "000353"),
    "triomphe": ("000662", "000833", "000863", "000867"),
}
BROKEN = frozenset(f"paris_{place}_{number}" for place, numbers in _BROKEN_NUMBERS.items() for number in numbers)
"""Images of Paris6k that its authors list as corrupt: they cannot be decoded in the distributed copy."""


def read_oxford(contents: Contents) -> GroundTruth:
    return _read(contents, _query_files(contents, paris=False))


def read_paris(contents: Contents) -> GroundTruth:
    """Images that are known to be broken are left out even if present, as is usual."""
    whole = tuple(path for path in contents.images if path.stem not in BROKEN)
    there = len(contents.images) - len(whole)
    truth = _read(Contents(contents.folder, whole, contents.ground_truth), _query_files(contents, paris=True))
    note = f"without the {len(BROKEN)} images that its authors list as broken ({there} present)"
    return GroundTruth(truth.images, truth.protocols, note)


def _read(contents: Contents, query_files: list[Path]) -> GroundTruth:
    if not query_files:
        raise InputError(f"there is no file *{_QUERY} of this benchmark in {contents.folder} or below; put them there")
    require_distinct(contents.images)
    names = Names(contents)
    return GroundTruth(contents.images, {STANDARD: tuple(_query(path, contents, names) for path in query_files)})


def _query(path: Path, contents: Contents, names: Names) -> Query:
    name, corners = _query_line(path)
    names.require([name], path)
    number = names.number(name)
    good, ok, junk = (_listed(_beside(path, which), names) for which in ("good", "ok", "junk"))
    relevant = tuple(dict.fromkeys((*good, *ok)))
    return Query(contents.images[number], number, relevant, junk, box_of(corners, str(path)))


def _query_line(path: Path) -> tuple[str, list[str]]:
    words = " ".join(lines_of(path)).split()
    if len(words) != 5:
        raise InputError(f"{path} holds {len(words)} words; expected the name of an image and four numbers")
    return words[0].removeprefix(_PREFIX), words[1:]


def _listed(path: Path, names: Names) -> tuple[int, ...]:
    stripped = (line.strip() for line in lines_of(path))
    listed = [name for name in stripped if name and name not in BROKEN]
    names.require(listed, path)
    return names.numbers(listed)


def _beside(query: Path, which: str) -> Path:
    path = query.with_name(query.name.removesuffix(_QUERY) + f"_{which}.txt")
    if not path.is_file():
        raise InputError(f"{query} has no {path.name} beside it; add that file")
    return path


def _query_files(contents: Contents, *, paris: bool) -> list[Path]:
    """Both benchmarks have files of these names; they are distinguished by the image that each file names."""
    queries = [path for path in contents.ground_truth if path.name.endswith(_QUERY)]
    return [path for path in queries if " ".join(lines_of(path)).strip().startswith("paris_") == paris]


_TEXTS = "*_query.txt, *_good.txt, *_ok.txt and *_junk.txt (as in gt/), in the folder or below"

OXFORD = Kind(
    name="oxford5k",
    title="Oxford buildings",
    layout=f"images such as all_souls_000013.jpg (as in oxbuild_images/), and {_TEXTS}",
    measures=("mAP",),
    query_stays=True,
    fits=lambda contents: bool(_query_files(contents, paris=False)),
    read=read_oxford,
    images=(5062, 5063),
    queries=55,
    distractors=100_071,
    source="Philbin, Chum, Isard, Sivic and Zisserman, CVPR 2007: https://www.robots.ox.ac.uk/~vgg/data/oxbuildings/",
)
PARIS = Kind(
    name="paris6k",
    title="Paris buildings",
    layout=f"images such as paris_defense_000605.jpg (as in paris/defense/), and {_TEXTS}",
    measures=("mAP",),
    query_stays=True,
    fits=lambda contents: bool(_query_files(contents, paris=True)),
    read=read_paris,
    images=(6392,),
    queries=55,
    source="Philbin, Chum, Isard, Sivic and Zisserman, CVPR 2008: https://www.robots.ox.ac.uk/~vgg/data/parisbuildings/",
)
