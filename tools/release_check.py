"""Run the test suite on every supported Python and on the lowest allowed versions of all dependencies.

    python tools/release_check.py [--only ENVIRONMENT] [PART_OF_TESTS ...]

An environment is named python3.12, for example, or python3.11-lowest; all are run if none is chosen. Each is a fresh
virtual environment under build/release-check, and prints the versions it ran on. The check fails if an interpreter is
not on this machine, unless ALLOW_MISSING=1 is set. The file summary.txt there holds the outcomes, and what was not
covered.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(
        "make release-check itself needs Python 3.11 or later; give one with: make release-check PYTHON=python3.12"
    )

import tomllib

ROOT = Path(__file__).parent.parent
PLACE = ROOT / "build" / "release-check"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if re.search(r":: Python :: \d+\.\d+$", line)]
OLDEST = PYTHONS[0]
WORKERS = ["-n", "auto", "--maxprocesses", "8", "--dist", "worksteal"]
WITHOUT = ["-m", "not browser and not remote and not cluster and not milvus"]
"""Tests that need more than Python packages, or start servers, have targets of their own in the Makefile."""
SERVERS = ["-m", "remote or cluster", "tests/cli", "tests/runtime", "tests/collection", "tests/benchmark"]
"""Those that start servers from Python packages: S3 and Dask clusters, on the lowest versions; one at a time."""
SKIPPED = (
    "torch: no run has it; PyPI's builds for CUDA are gigabytes, and CPU builds lie elsewhere (make test-torch)",
    "milvus: it needs a server (make test-milvus)",
    "browser: it needs Chromium (make test-web)",
)
"""What no run covers."""


def interpreter(version: str) -> str | None:
    """An executable of this Python version: on the PATH, from pyenv, or from uv."""
    return next(filter(_runs, _candidates(version)), None)


def _candidates(version: str) -> Iterator[str]:
    if found := shutil.which(f"python{version}"):
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True))
    if uv := shutil.which("uv"):
        answer = subprocess.run([uv, "python", "find", version], capture_output=True, text=True)
        yield answer.stdout.strip()


def _runs(candidate: str) -> bool:
    """Whether it can be run: pyenv puts a script on the PATH even for versions that are not activated."""
    return bool(candidate) and subprocess.run([candidate, "-c", ""], capture_output=True).returncode == 0


def lowest_versions() -> list[str]:
    """Pins of every direct dependency, extras included, to its lower bound; those of extras that are not installed
    do nothing."""
    extras = PROJECT["optional-dependencies"].values()
    requirements = [*PROJECT["dependencies"], *(line for extra in extras for line in extra)]
    bounds = [re.match(r"([\w-]+)(?:\[.*\])?>=([\w.]+)", line) for line in requirements]
    return sorted({f"{bound[1]}=={bound[2]}" for bound in bounds if bound})


def install(python: str, name: str, *, pins: list[str], extras: str) -> Path:
    """The Python of a fresh environment that holds faemb and what its tests need."""
    environment = PLACE / name
    subprocess.run([python, "-m", "venv", "--clear", environment], check=True)
    constraints = PLACE / f"{name}.txt"
    constraints.write_text("".join(f"{pin}\n" for pin in pins), encoding="utf-8")
    inside = environment / "bin" / "python"
    subprocess.run([inside, "-m", "pip", "install", "--quiet", "--upgrade", "pip"], check=True)
    wanted = ["--constraint", str(constraints), "--editable", f"{ROOT}[{extras}]"]
    subprocess.run([inside, "-m", "pip", "install", "--quiet", *wanted], check=True)
    return inside


def check(version: str, name: str, tests: list[str], *, lowest: bool) -> str:
    """The outcome of one run: "passed", or why not."""
    python = interpreter(version)
    if python is None:
        return f"not run: no python{version} found"
    print(f"\n=== {name}: {python}", flush=True)
    try:
        pins, extras = (lowest_versions(), "test,s3-server") if lowest else ([], "test")
        inside = install(python, name, pins=pins, extras=extras)
        for line in (["--version"], ["-m", "pip", "freeze", "--exclude-editable"]):
            subprocess.run([inside, *line], check=True)
        subprocess.run([inside, "-m", "pytest", *WORKERS, *WITHOUT, *tests], check=True, cwd=ROOT)
        if lowest and not tests:
            subprocess.run([inside, "-m", "pytest", *SERVERS], check=True, cwd=ROOT)
    except subprocess.CalledProcessError as error:
        return f"failed: {' '.join(map(str, error.cmd))}"
    return "passed"


def summary(outcomes: dict[str, str], tests: list[str]) -> str:
    """The outcome of each run, and what none of them covers."""
    parts = [f"only these tests: {' '.join(tests)}"] if tests else []
    lines = [*parts, *(f"{name:20} {outcome}" for name, outcome in outcomes.items())]
    return "".join(f"{line}\n" for line in [*lines, "not covered:", *(f"  {line}" for line in SKIPPED)])


def main(arguments: list[str]) -> int:
    environments = {f"python{version}": (version, False) for version in PYTHONS}
    environments[f"python{OLDEST}-lowest"] = (OLDEST, True)
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=environments, action="append", default=[])
    parser.add_argument("tests", nargs="*")
    asked = parser.parse_args(arguments)
    chosen = asked.only or list(environments)
    PLACE.mkdir(parents=True, exist_ok=True)
    outcomes = {name: "not chosen" for name in environments if name not in chosen}
    for name in chosen:
        version, lowest = environments[name]
        outcomes[name] = check(version, name, asked.tests, lowest=lowest)
    text = summary(outcomes, asked.tests)
    (PLACE / "summary.txt").write_text(text, encoding="utf-8")
    print(f"\n{text}", end="")
    accepted = ("passed", "not run") if os.environ.get("ALLOW_MISSING") == "1" else ("passed",)
    return 0 if all(outcomes[name].startswith(accepted) for name in chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
