"""Numbers on the command line, of any size and form: each is used or refused in one sentence."""

from pathlib import Path

import pytest
from command_line import Run, commands

from small_collections import make_collection, work_here

pytestmark = pytest.mark.usefixtures("one_thread")

NUMBERS = ["0", "-1", "1e400", "nan", "inf", "-inf", "9" * 30, "9" * 400, "9" * 5000, "١٢", "1_0", "0x10", "", "1e308"]
OPTIONS = [
    ("search", "c.faemb", "photos/a.png", "--top"),
    ("search", "c.faemb", "photos/a.png", "--threshold"),
    ("duplicates", "c.faemb", "--threshold"),
    ("show-features", "photos/a.png", "--out", "x.png", "--max-features"),
    ("show-features", "photos/a.png", "--out", "x.png", "--max-side"),
]
BOXES = [*(",".join([number] * 4) for number in NUMBERS), *(f"0,0,{number},{number}" for number in NUMBERS)]
BOXED = [("search", "c.faemb", "photos/a.png", "--box"), ("show-features", "photos/a.png", "--out", "x.png", "--box")]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_collection(tmp_path_factory.mktemp("numbers"), ["a.png", "b.png"])
    (folder / "photos.faemb").rename(folder / "c.faemb")
    return folder


@pytest.fixture
def run(template: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(template)
    work_here(monkeypatch)
    return commands(monkeypatch, capfd)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: f"{option[0]}{option[-1]}")
def test_numbers(run: Run, option: tuple[str, ...]) -> None:
    assert_used_or_refused(run, option, NUMBERS)


@pytest.mark.parametrize("option", BOXED, ids=lambda option: option[0])
def test_boxes(run: Run, option: tuple[str, ...]) -> None:
    assert_used_or_refused(run, option, BOXES)


def assert_used_or_refused(run: Run, option: tuple[str, ...], values: list[str]) -> None:
    for value in values:
        ended = run(*option[:-1], f"{option[-1]}={value}")
        assert ended.code in (0, 1, 2)
        if ended.code == 1:
            assert ended.out == ""
            assert ended.err.count("\n") == 1
            assert len(ended.err) < 300
        elif ended.code == 2:
            assert ended.err.startswith("Usage: ")
