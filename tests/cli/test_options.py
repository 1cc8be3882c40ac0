"""An option means the same in every command, and its help names the choices and defaults of the code."""

import re
from typing import Any

import pytest

from faemb.benchmark.tables import TABLES
from faemb.cli.reference import commands
from faemb.collection.backends import BACKENDS
from faemb.collection.duplicates import LONG, THRESHOLD, THRESHOLD_OF_SHORT
from faemb.collection.export import FORMATS
from faemb.collection.model import MAX_FEATURES
from faemb.collection.searchable import DEFAULT_TOP
from faemb.features import DETECTORS, HessianAffine
from faemb.features.files.formats import FORMATS as FEATURE_FILES
from faemb.presets import NAMES, PUBLISHED, VARIANTS

COMMANDS = commands()


def options(name: str) -> dict[str, Any]:
    """By command, the option of this name."""
    found = {
        command: parameter
        for command, content in COMMANDS.items()
        for parameter in content.params
        if name in parameter.opts
    }
    assert found
    return found


@pytest.mark.parametrize(
    ("name", "users"),
    [
        ("--model", {"index", "encode"}),
        ("--network", {"index", "fit", "features", "show-features", "benchmark"}),
        ("--overwrite", {"search", "explain", "duplicates", "export", "fit", "encode", "show-features",
                         "convert-features", "leaderboard"}),
        ("--open", {"search", "explain", "duplicates", "leaderboard", "demo", "serve"}),
        ("--exclude", {"index", "add", "fit", "encode", "features"}),
        ("--store", {"index", "add", "update", "relearn", "remove", "relocate", "check", "search", "explain",
                     "duplicates", "export", "copy", "serve"}),
        ("--cluster", {"index", "add", "update", "relearn", "fit", "encode", "features", "benchmark"}),
        ("--device", {"index", "add", "update", "relearn", "check", "search", "explain", "fit", "encode",
                          "benchmark", "serve"}),
        (
            "--json",
            {"index", "add", "update", "relearn", "remove", "relocate", "info", "check", "search", "explain",
             "duplicates", "copy", "fit",
             "encode", "features", "benchmark", "datasets"},
        ),
    ],
)  # fmt: skip
def test_which_commands_have_it(name: str, users: set[str]) -> None:
    assert options(name).keys() == users


@pytest.mark.parametrize(
    "name",
    [
        "--network",
        "--device",
        "--json",
        "--quiet",
        "--jobs",
        "--box",
        "--variant",
        "--overwrite",
        "--open",
        "--exclude",
    ],
)
def test_it_is_the_same_everywhere(name: str) -> None:
    facts = {(each.help, each.metavar, each.default, each.is_flag, each.required) for each in options(name).values()}
    assert len(facts) == 1


def test_a_model_is_a_model_of_faemb() -> None:
    assert all(each.help.startswith("Model made by `faemb fit`") for each in options("--model").values())


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("--table", TABLES),
        ("--detector", DETECTORS),
        ("--index", BACKENDS),
        ("--format", FORMATS),
        ("--variant", VARIANTS),
    ],
)
def test_the_help_names_every_choice(name: str, choices: Any) -> None:
    *first, last = choices
    for option in options(name).values():
        assert f"{', '.join(first)} or {last}" in option.help.replace(" (if not given)", "")


def test_the_help_of_presets() -> None:
    for option in options("--preset").values():
        named = set(re.findall(r"[\w-]+", option.help)) & set(NAMES)
        assert named == set(NAMES)
        *first, last = PUBLISHED
        assert f"{', '.join(first)} or {last}." in option.help


def test_the_help_names_every_file_of_features() -> None:
    text = COMMANDS["convert-features"].help
    assert text is not None
    assert all(f"{suffix} " in text.replace(",", " ") for suffix in FEATURE_FILES)


def test_defaults_are_those_of_the_code() -> None:
    assert options("--top")["search"].default == DEFAULT_TOP
    stated = options("--threshold")["duplicates"].help
    assert f"{THRESHOLD}, or {THRESHOLD_OF_SHORT} if the vectors have fewer than {LONG:,} dimensions" in stated
    for option in options("--max-side").values():
        assert f"{HessianAffine().max_side:,} if not given" in option.help
    for command in ("index", "fit"):
        assert f"{MAX_FEATURES:,} of {DETECTORS[0]} if not given" in options("--max-features")[command].help
    assert HessianAffine().max_features is None
    assert "all if not given" in options("--max-features")["features"].help
