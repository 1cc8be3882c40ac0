"""Names and texts of others cannot control the terminal: whatever they contain is printed as text, on one line."""

import ast
import errno
import json
import re
import shutil
import sys
import threading
import unicodedata
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Run, commands
from rich.table import Table
from test_console import Terminal, watched

import faemb
from faemb.cli.console import one_line, print_what_python_reports, table_lines, warning
from faemb.collection import Collection
from faemb.features import job
from faemb.pages.report import terminal_table
from made_up_runs import run as made_up_run
from pictures import picture
from processes import one_after_the_other
from small_collections import tiny_model, work_here, working_here

pytestmark = pytest.mark.usefixtures("one_thread")

SOURCE = Path(faemb.__file__).parent
ATTACKS = {
    "title": "\x1b]0;owned\x07",
    "clear": "\x1b[2J\x1b[H",
    "clipboard": "\x1b]52;c;b3duZWQ=\x07",
    "return": "safe\rfaemb: all is well",
    "backspace": "secret\b\b\b\b\b\b",
    "newline": "a\nfaemb: 0 faults",
    "delete": "a\x7fb",
    "c1": "\x9b31m\x90q\x9c",
    "bidi": "photo\u202egpj.exe\u2066\u2069",
    "separators": "a\u2028b\u2029c",
    "markup": "[red]x[/red][link=file]y[/link]",
}
NAME = "".join(attack for name, attack in ATTACKS.items() if name != "markup").replace("/", "") + ".png"
HARMFUL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def assert_harmless(printed: str) -> None:
    """Nothing but text and the line breaks of our own; the line that the name pretends to be is not one."""
    assert not HARMFUL.search(printed), ascii(printed)
    assert "faemb: 0 faults" not in [line[:15] for line in printed.splitlines()]


@pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS)
def test_a_line_is_one_line_of_text(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    warning(text)
    printed = capfd.readouterr().err
    assert_harmless(printed)
    assert printed.count("\n") == 1
    assert one_line(text).encode().decode("unicode_escape") == text


def test_letters_of_all_languages_stay_as_they_are() -> None:
    name = "Zoë 写真 фото تصویر می\u200cخواهم 👩\u200d👧 a\u00a0b [1].jpg"  # noqa: RUF001
    assert one_line(name) == name


def test_every_control_character_is_escaped() -> None:
    for code in range(0x110000):
        if unicodedata.category(chr(code)) in ("Cc", "Zl", "Zp"):
            assert one_line(chr(code)).startswith("\\"), hex(code)


# Commands.


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two copies of an image and a broken one, all with such names; their collection; a model."""
    folder = tmp_path_factory.mktemp("escapes")
    photos = folder / "photos"
    picture(photos / "a.png", 1)
    (photos / NAME).write_bytes((photos / "a.png").read_bytes())
    (photos / f"broken{NAME}").write_text("no image")
    model = tiny_model()
    model.save(folder / "tiny.model")
    with working_here(), Collection.create(folder / "c.faemb", model) as collection:
        collection.add([photos])
    return folder


@pytest.fixture
def run(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    shutil.copytree(template, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    work_here(monkeypatch)
    monkeypatch.setattr(job, "spread", one_after_the_other)
    return commands(monkeypatch, capfd)


COMMANDS = {
    "index": ("index", "photos", "--out", f"new{NAME}", "--model", "tiny.model"),
    "add": ("add", "c.faemb", "photos"),
    "explain": ("explain", "c.faemb", f"photos/{NAME}", f"photos/{NAME}"),
    "explain-nothing": ("explain", "c.faemb", f"photos/{NAME}", f"photos/none{NAME}"),
    "search": ("search", "c.faemb", f"photos/{NAME}", f"photos/broken{NAME}", f"photos/none{NAME}"),
    "duplicates": ("duplicates", "c.faemb", "--no-verify", "--threshold", "0.5"),
    "info": ("info", "c.faemb"),
    "check": ("check", "c.faemb"),
    "remove-unknown": ("remove", "c.faemb", f"other{NAME}"),
    "encode": ("encode", "photos", "--model", "tiny.model", "--out", f"v{NAME}.npz"),
    "features": ("features", "photos", "--out", f"f{NAME}"),
    "datasets": ("datasets", f"photos{NAME}"),
    "open": ("info", f"c{NAME}"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_commands(run: Run, command: tuple[str, ...]) -> None:
    ended = run(*command)
    assert_harmless(ended.out)
    assert_harmless(ended.err)
    assert "Traceback" not in ended.err
    assert one_line(NAME)[:20] in ended.out + ended.err or command[0] == "check"


@pytest.mark.parametrize("command", ["search", "duplicates", "info"])
def test_json_is_harmless_and_exact(run: Run, command: str) -> None:
    ended = run(*COMMANDS[command], "--json")
    assert_harmless(ended.out)
    assert NAME in _texts(json.loads(ended.out))


def _texts(value: object) -> str:
    if isinstance(value, dict):
        return "|".join(map(_texts, [*value, *value.values()]))
    return "|".join(map(_texts, value)) if isinstance(value, list) else str(value)


@pytest.mark.parametrize(
    "command",
    [("search", f"--{NAME}"), (NAME,), ("search", "c", "q", "--top", NAME), ("index", "a", "--out", "b", "-\x1bz")],
    ids=["option", "command", "value", "short"],
)
def test_wrong_usage(run: Run, command: tuple[str, ...]) -> None:
    ended = run(*command)
    assert ended.code == 2
    assert ended.err.startswith("Usage: faemb")
    assert_harmless(ended.err)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_tables_of_runs(attack: str) -> None:
    shown = made_up_run()
    row = replace(shown.rows[0], settings={"method": attack, attack: attack}, published_with={attack: attack})
    lines = list(table_lines(terminal_table(replace(shown, title=attack, rows=(row, *shown.rows[1:])))))
    assert_harmless("\n".join(lines))
    assert not any(line.startswith("faemb: ") for line in lines)
    if attack == ATTACKS["markup"]:
        assert any("[red]" in line for line in lines)


def test_tables_have_the_width_of_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    table = Table("a", "b")
    table.add_row("x", "y")
    assert len({len(line) for line in table_lines(table)}) == 1


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_bars_show_names_as_they_are(monkeypatch: pytest.MonkeyPatch, attack: str) -> None:
    shown = watched(monkeypatch, Terminal(), (attack, 0, 3), (attack, 3, 3))
    assert one_line(attack) in re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", shown)
    assert attack == ATTACKS["markup"] or attack not in shown


# What is printed by others.


@pytest.fixture
def reporting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (sys, threading):
        monkeypatch.setattr(module, "excepthook", module.excepthook)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        print_what_python_reports()
        yield


@pytest.mark.usefixtures("reporting")
def test_warnings_of_libraries(capfd: pytest.CaptureFixture[str]) -> None:
    warnings.warn(f"cannot read {NAME}", RuntimeWarning, stacklevel=1)
    printed = capfd.readouterr().err
    assert_harmless(printed)
    assert printed.startswith("faemb: RuntimeWarning: cannot read ")
    assert printed.count("\n") == 1


@pytest.mark.usefixtures("reporting")
def test_a_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    try:
        raise KeyError(NAME) from ValueError(NAME)
    except KeyError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    printed = capfd.readouterr().err
    assert not HARMFUL.search(printed), ascii(printed)
    assert "Traceback" in printed


@pytest.mark.usefixtures("reporting")
@pytest.mark.parametrize(
    ("error", "is_told"), [(OSError(errno.EMFILE, "too many open files"), False), (KeyError(NAME), True)], ids=repr
)
def test_a_thread_that_fails(capfd: pytest.CaptureFixture[str], error: Exception, is_told: bool) -> None:
    """A lack of open files is told by the command, in its own sentence."""

    def fail() -> None:
        raise error

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    printed = capfd.readouterr().err
    assert not HARMFUL.search(printed), ascii(printed)
    assert ("Traceback" in printed) == bool(printed) == is_told


PRINTING = {"print", "echo", "secho", "pprint", "print_exc", "Console"}
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}


def _printing(path: Path) -> Iterator[str]:
    """Calls that print, and uses of the two streams, in a source file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        place = f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in PRINTING:
                yield f"{place} {name}"
        if isinstance(node, ast.Attribute) and node.attr in STREAMS:
            yield f"{place} {node.attr}"


def test_nothing_prints_but_the_console() -> None:
    allowed = ("cli/console.py", "cli/main.py")  # main closes the stream of errors when the output was closed
    found = [each for path in sorted(SOURCE.rglob("*.py")) for each in _printing(path)]
    assert [each for each in found if not each.startswith(allowed)] == []
    assert len([each for each in found if each.startswith("cli/main.py")]) <= 1
