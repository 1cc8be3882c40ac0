"""Each script in examples/ runs as it is printed, in a process of its own, and prints what it promises."""

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


def test_every_example_is_listed_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PROMISED)


@pytest.mark.parametrize("name", PROMISED)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-W", "error", EXAMPLES / name], capture_output=True, text=True, cwd=tmp_path, timeout=300
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert PROMISED[name] in ended.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", PROMISED)
def test_an_example_is_short(name: str) -> None:
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) < MOST_LINES
