"""The README's example, run as it is printed, on rendered descriptors."""

import re
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).parent.parent / "README.md"


def test_the_example_runs_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    code = code.replace('device="cuda"', 'device="cpu"')  # not every machine has one
    monkeypatch.chdir(tmp_path)
    names = {
        "learning_sets": [rng.standard_normal((120, 128)) for _ in range(50)],
        "sets": [rng.standard_normal((30, 128)) for _ in range(3)],
    }
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102
    assert names["vectors"].shape == (3, names["encoder"].dimension)
    np.testing.assert_allclose(np.linalg.norm(names["vectors"], axis=1), 1, atol=1e-5)
