"""Each script in examples/ runs as it is printed, with warnings as errors, and prints what it promises."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
PROMISED = {
    "search_a_folder.py": "original.jpg",
    "own_descriptors.py": "darkened pictures find their original",
    "compare_embeddings.py": "F-FAemb",
    "features_of_another_tool.py": "10 images, of which ",
    "scikit_learn_pipeline.py": "nearest to the query: picture 4",
}
MOST_LINES = 60
RUN = """
import contextlib, io, json, runpy, sys
printed = {}
for path in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        runpy.run_path(path, run_name="__main__")
    printed[path] = said.getvalue()
print(json.dumps(printed))
"""


def test_every_example_is_listed_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PROMISED)


def test_each_example_runs(tmp_path: Path) -> None:
    """In one process, one after the other: importing the libraries takes as long as a script."""
    command = [sys.executable, "-W", "error", "-c", RUN, *(str(EXAMPLES / name) for name in PROMISED)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600)  # noqa: S603
    assert (ended.returncode, ended.stderr) == (0, "")
    printed = json.loads(ended.stdout)
    assert {name: text in printed[str(EXAMPLES / name)] for name, text in PROMISED.items()} == dict.fromkeys(
        PROMISED, True
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", PROMISED)
def test_an_example_is_short(name: str) -> None:
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) < MOST_LINES
