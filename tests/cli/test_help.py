"""Every command and option is documented, and neither help nor `import faemb` waits for the numerical libraries."""

import re
import shlex
import subprocess
import sys
from importlib.metadata import entry_points
from typing import Any

import pytest
import typer

import faemb
from faemb.cli import main
from faemb.cli.main import app

GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = GROUP.commands
HEAVY = {
    "numpy",
    "scipy",
    "sklearn",
    "cv2",
    "PIL",
    "onnxruntime",
    "h5py",
    "joblib",
    "safetensors",
    "jaxtyping",
    "torch",
    "matplotlib",
    "jinja2",
}


def options_of(command: Any) -> list[Any]:
    return [parameter for parameter in command.params if parameter.param_type_name == "option"]


def each_parameter() -> list[Any]:
    everything = {"": GROUP, **COMMANDS}
    return [
        pytest.param(parameter, id=f"{name} {parameter.name}")
        for name, command in everything.items()
        for parameter in command.params
    ]


def help_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a user sees, in one line."""
    monkeypatch.setattr(sys, "argv", ["faemb", *arguments, "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    return " ".join(capsys.readouterr().out.split())


def test_the_command_is_installed_under_its_name():
    (script,) = [point for point in entry_points(group="console_scripts") if point.name == "faemb"]
    assert script.load() is main


def test_there_are_commands():
    assert {"features", "show-features", "convert-features"} <= COMMANDS.keys()


def test_the_overview_has_a_line_for_every_command(monkeypatch, capsys):
    shown = help_text(monkeypatch, capsys)
    for name, command in COMMANDS.items():
        assert name in shown
        assert command.get_short_help_str(400) in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_it_does_and_shows_an_example_that_parses(name):
    text = COMMANDS[name].help or ""
    assert re.match(r"[A-Z][^\n]+\.$", text.splitlines()[0]), "a first sentence of its own"
    examples = [line.strip() for line in text.splitlines() if line.strip().startswith("Example: ")]
    assert examples, "a line such as: Example: faemb ..."
    for example in examples:
        program, command, *arguments = shlex.split(example.removeprefix("Example: "))
        assert (program, command) == ("faemb", name)
        COMMANDS[name].make_context(name, arguments)  # parsed, not run


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_shows_all(monkeypatch, capsys, name):
    shown = help_text(monkeypatch, capsys, name)
    assert "Example: faemb" in shown
    for option in options_of(COMMANDS[name]):
        assert max(option.opts, key=len) in shown
        assert option.help in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_the_usage_shows_once_that_an_argument_may_be_repeated(monkeypatch, capsys, name):
    usage = re.match(r"Usage: .*? (?=[A-Z][a-z]+ )", help_text(monkeypatch, capsys, name))
    assert usage is not None
    assert re.search(r"\.{3}.*\.{3}", usage[0]) is None


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_a_short_name_of_help_and_no_types_of_python_in_it(monkeypatch, capsys, name):
    monkeypatch.setattr(sys, "argv", ["faemb", *filter(None, [name]), "-h"])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr().out
    assert not ended.value.code
    assert "-h, --help" in shown
    assert re.findall(r"<\w+|\{|\bbool\b|list\[|\bPath\b", shown) == []


def test_the_overview_explains_the_exit_codes(monkeypatch, capsys):
    shown = help_text(monkeypatch, capsys)
    assert "3: done, but some inputs could not be used" in shown
    assert "130: stopped by Ctrl-C" in shown


@pytest.mark.parametrize("parameter", each_parameter())
def test_every_argument_and_option_is_explained(parameter):
    assert (parameter.help or "").strip().endswith("."), "a sentence"


def imported_by(code: str, *arguments: str) -> set[str]:
    """The libraries that a fresh Python imports for this code."""
    command = [sys.executable, "-X", "importtime", "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    modules = re.findall(r"^import time:[^|]+\|[^|]+\|\s+([\w.]+)$", done.stderr, re.MULTILINE)
    assert "faemb" in modules
    return {module.split(".")[0] for module in modules}


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("import faemb", []),
        ("import faemb; dir(faemb); faemb.__version__", []),
        ("import faemb.cli", []),
        ("from faemb.cli import main; main()", ["--help"]),
        ("from faemb.cli import main; main()", ["--version"]),
        ("from faemb.cli import main; main()", ["features", "--help"]),
    ],
    ids=["import", "dir", "import-cli", "help", "version", "features-help"],
)
def test_nothing_heavy_is_imported(code, arguments):
    assert imported_by(code, *arguments) & HEAVY == set()


def test_scipy_is_imported_where_it_is_used_alone():
    """It takes a third of the time that workers and most commands need to start; they do without it."""
    assert imported_by("import faemb.cli.indexing, faemb.collection, faemb.demo") & {"scipy", "sklearn"} == set()


def test_the_names_are_listed_and_each_is_there():
    assert set(faemb.__all__) <= set(dir(faemb))
    assert len(set(faemb.__all__)) == len(faemb.__all__)
    for name in faemb.__all__:
        value = getattr(faemb, name)
        assert value is getattr(faemb, name)
        assert value.__name__ == name
        assert value.__module__.startswith("faemb.")


def test_all_names_at_once():
    names: dict[str, Any] = {}
    exec("from faemb import *", names)  # noqa: S102
    assert set(faemb.__all__) <= names.keys()


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'faemb' has no attribute 'SIFT'"):
        faemb.SIFT  # noqa: B018
    assert not hasattr(faemb, "__wrapped__")
    with pytest.raises(ImportError, match="SIFT"):
        exec("from faemb import SIFT")  # noqa: S102
