"""Revisited Oxford and Paris: new labels for the same images, with three protocols of increasing difficulty. [RITAC18]

gnd_roxford5k.pkl and gnd_rparis6k.pkl hold `imlist` and `qimlist`, names without suffix, and `gnd`, for each query a
box `bbx` and three lists of numbers into `imlist`: `easy`, `hard`, `junk`. Queries are not among the images.

    protocol    relevant      removed
    easy        easy          hard, junk
    medium      easy, hard    junk
    hard        hard          easy, junk

[RITAC18]: Radenovic et al., "Revisiting Oxford and Paris: large-scale image retrieval benchmarking", CVPR 2018.
"""

from functools import partial
from pathlib import Path

from faemb.benchmark.datasets.contents import Contents
from faemb.benchmark.datasets.dataset import Query
from faemb.benchmark.datasets.kind import GroundTruth, Kind
from faemb.benchmark.datasets.names import Names
from faemb.benchmark.datasets.pickled import Array, numbers, unpickled
from faemb.benchmark.datasets.reading import box_of
from faemb.errors import InputError
from faemb.runtime.limits import require_memory

PROTOCOLS = {
    "easy": (("easy",), ("junk", "hard")),
    "medium": (("easy", "hard"), ("junk",)),
    "hard": (("hard",), ("junk", "easy")),
}
"""Lists of relevant images, and lists of images that are removed."""
_LISTED_BYTES = 120
"""Bytes of memory per number of a list, in all three protocols and while it is checked."""


def read_revisited(file: str, contents: Contents) -> GroundTruth:
    source, names = contents.file(file), Names(contents)
    labels = _Labels(unpickled(source), source)
    names.require((*labels.images, *labels.queries), source)
    images = tuple(contents.images[names.number(name)] for name in labels.images)
    queries = [contents.images[names.number(name)] for name in labels.queries]
    protocols = {
        protocol: tuple(labels.query(place, image, relevant, junk) for place, image in enumerate(queries))
        for protocol, (relevant, junk) in PROTOCOLS.items()
    }
    return GroundTruth(images, protocols)


class _Labels:
    """The contents of the file, checked."""

    def __init__(self, data: object, source: Path) -> None:
        self.source = source
        if not isinstance(data, dict) or not {"imlist", "qimlist", "gnd"} <= data.keys():
            raise InputError(f"{source} does not hold imlist, qimlist and gnd; get it again from its authors")
        self.images, self.queries = self._texts(data["imlist"]), self._texts(data["qimlist"])
        self._judged = data["gnd"]
        if not isinstance(self._judged, list) or len(self._judged) != len(self.queries):
            raise self._fault("a gnd that does not have one entry for each query")
        self._require_affordable()

    def _require_affordable(self) -> None:
        """Raise an error if the lists need too much memory.

        A small file can refer to one long list many times; each reference becomes a separate list, for each protocol.
        """
        entries = [entry for entry in self._judged if isinstance(entry, dict)]
        lists = [entry.get(key) for entry in entries for key in ("easy", "hard", "junk", "bbx")]
        require_memory(sum(_LISTED_BYTES * len(each) for each in lists if isinstance(each, list | Array)), self.source)

    def query(self, place: int, image: Path, relevant: tuple[str, ...], junk: tuple[str, ...]) -> Query:
        box = box_of(self._list(place, "bbx"), f"entry {place} of {self.source}")
        return Query(image, None, self._lists(place, relevant), self._lists(place, junk), box)

    def _lists(self, place: int, keys: tuple[str, ...]) -> tuple[int, ...]:
        values = [value for key in keys for value in self._list(place, key)]
        if not all(0 <= value < len(self.images) and value % 1 == 0 for value in values):
            raise self._fault(f"numbers beyond its {len(self.images)} images in entry {place}")
        return tuple(int(value) for value in values)

    def _list(self, place: int, key: str) -> list[int | float]:
        try:
            return numbers(self._judged[place][key])
        except (KeyError, TypeError, ValueError):
            raise self._fault(f"no list of numbers {key!r} in entry {place}") from None

    def _texts(self, value: object) -> list[str]:
        if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
            raise self._fault("something else than lists of names")
        return value

    def _fault(self, what: str) -> InputError:
        return InputError(f"{self.source} holds {what}; get it again from its authors")


def _kind(name: str, *, title: str, images: int) -> Kind:
    file = f"gnd_{name}.pkl"
    return Kind(
        name=name,
        title=title,
        layout=f"images as in {name[1:]}, and one {file}, in the folder or below",
        measures=("mAP", "mP@1", "mP@5", "mP@10"),
        query_stays=False,
        fits=lambda contents: contents.has(file),
        read=partial(read_revisited, file),
        images=(images,),
        queries=70,
        source="Radenović, Iscen, Tolias, Avrithis and Chum, CVPR 2018: http://cmp.felk.cvut.cz/revisitop/",
    )


REVISITED_OXFORD = _kind("roxford5k", title="revisited Oxford buildings", images=4993)
REVISITED_PARIS = _kind("rparis6k", title="revisited Paris buildings", images=6322)
