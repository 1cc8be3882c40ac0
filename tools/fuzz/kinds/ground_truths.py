"""Ground truths of benchmarks: tables, Oxford's lists of names, pickles of the revisited ones."""

import io
import pickle
import pickletools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tools.fuzz.kind import Kind, Way

from faemb.benchmark.datasets import checked, open_dataset
from small_datasets import OXFORD, OXFORD_IMAGES, write_images, write_oxford, write_table
from small_datasets import REVISITED_IMAGES as IMAGES
from small_datasets import REVISITED_LABELS as LABELS

Rng = np.random.Generator
ODD_OPERATIONS = (
    *(b"\x80\x02", b"\x95" + b"\xff" * 8, b"cos\nsystem\n", b"cbuiltins\neval\n", b"\x8c\x02os\x8c\x06system\x93"),
    *(b"R", b"b", b"\x81", b"\x92", b"o", b"i", b"2", b"0", b"1", b"(", b".", b"t", b"l", b"d", b"s", b"u", b"a", b"e"),
    *(b"\x94", b"q\x00", b"h\x00", b"r\xff\xff\xff\x7f", b"j\xff\xff\xff\x7f", b"r\x00\x00\x10\x00", b"g0\n", b"p9\n"),
    *(b"}", b"]", b")", b"\x8f", b"\x90", b"\x91", b"N", b"\x88", b"G\x7f\xf8\0\0\0\0\0\0", b"\x8a\x09" + b"\xff" * 9),
    *(
        b"\x8b\xff\xff\xff\x7f",
        b"L9" + b"9" * 5000 + b"L\n",
        b"T\xff\xff\xff\x7f",
        b"\x96" + b"\xff" * 8,
        b"\x97",
        b"\x98",
    ),
    *(b"B\xff\xff\xff\x7f", b"I" + b"1" * 5000 + b"\n", b"F1e999\n", b"V\\ud800\n", b"Pid\n", b"Q", b"\x82\x01"),
)


class GroundTruths(Kind):
    name = "ground-truths"

    def prepare(self, folder: Path) -> None:
        lines = ("query\trelevant\tjunk\tbbox_x1y1x2y2", "a.jpg\tb.jpg,c.jpg\td.jpg\t10,20,300,240", "c.jpg\ta.jpg\t\t")
        write_table(write_images(folder / "table", "a.jpg", "b.jpg", "c.jpg", "d.jpg"), *lines)
        write_images(folder / "oxford", *(f"jpg/{name}.jpg" for name in OXFORD_IMAGES))
        write_oxford(folder / "oxford" / "gt", OXFORD)
        write_images(folder / "holidays", *(f"{number}.jpg" for number in (100000, 100001, 100100, 100101)))
        for protocol in (2, 4, 5):
            named = [*IMAGES, "q1", "q2", "unlabelled"]
            revisited = write_images(folder / f"revisited-{protocol}", *(f"jpg/{name}.jpg" for name in named))
            (revisited / "gnd_roxford5k.pkl").write_bytes(pickle.dumps(LABELS, protocol))

    def victims(self, folder: Path) -> list[Path]:
        """Not the images, which are never decoded, where there is anything else."""
        files = super().victims(folder)
        return [file for file in files if file.suffix != ".jpg"] or files

    def ways(self, victim: Path) -> Sequence[Way]:
        return {".pkl": (operations_changed, operations_changed, exploding), ".tsv": (cells_changed,)}.get(
            victim.suffix, (words_changed,)
        )

    def read(self, folder: Path) -> None:
        checked(open_dataset(folder))


def operations_changed(path: Path, rng: Rng) -> None:
    """Operations of a pickle taken out, repeated, exchanged, or odd ones put in."""
    data = path.read_bytes()
    starts = [place for _, _, place in pickletools.genops(io.BytesIO(data)) if place is not None]
    parts = [data[start:end] for start, end in zip(starts, [*starts[1:], len(data)], strict=True)]
    for _ in range(int(rng.integers(1, 6))):
        place, other = rng.integers(len(parts), size=2).tolist()
        odd = ODD_OPERATIONS[int(rng.integers(len(ODD_OPERATIONS)))]
        new = ([], [parts[place]] * 2, [parts[other]], [odd, parts[place]], [odd], [odd] * 300)[int(rng.integers(6))]
        parts[place : place + 1] = new
        parts = parts or [b"."]
    path.write_bytes(b"".join(parts))


def exploding(path: Path, rng: Rng) -> None:
    """A list of the same list of the same list: a few bytes that mean very many numbers."""
    value: object = np.zeros(int(10 ** rng.uniform(0, 6)), np.int64) if rng.random() < 0.5 else [0] * 50
    width = int(rng.integers(2, 60))
    for _ in range(int(rng.integers(1, 12))):
        value = [value] * width
    place = ("imlist", "qimlist", "gnd", "easy", "bbx")[int(rng.integers(5))]
    entries = [{**entry, place: value} for entry in LABELS["gnd"]]
    path.write_bytes(pickle.dumps({**LABELS, "gnd": entries, **({place: value} if place in LABELS else {})}, 4))


def cells_changed(path: Path, rng: Rng) -> None:
    _text_changed(path, rng, "\t")


def words_changed(path: Path, rng: Rng) -> None:
    _text_changed(path, rng, " ")


_ODD_TEXTS = (
    *(
        "nan",
        "inf",
        "1e308",
        "-1e308",
        "1" * 400,
        "1e400",
        "0,0,0,0",
        "9,9,1,1",
        "nan,0,1,1",
        "1e308,1e308,1e309,1e309",
    ),
    *(
        "",
        "../../x",
        "/etc/passwd",
        "a.jpg,a.jpg",
        "\x1b[2J",
        "\r",
        "\0",
        "\u2028",
        "é",
        "x" * 100_000,
        "a.jpg," * 9999,
    ),
)


def _text_changed(path: Path, rng: Rng, between: str) -> None:
    lines = path.read_text().split("\n")
    for _ in range(int(rng.integers(1, 4))):
        number = int(rng.integers(len(lines)))
        cells = lines[number].split(between)
        cells[int(rng.integers(len(cells)))] = _ODD_TEXTS[int(rng.integers(len(_ODD_TEXTS)))]
        lines[number] = between.join(cells)
    path.write_text("\n".join(lines))
