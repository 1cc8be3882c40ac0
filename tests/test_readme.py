"""The README's example, run as it is printed, on rendered pictures."""

import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

README = Path(__file__).parent.parent / "README.md"


def blobs(rng: np.random.Generator) -> np.ndarray:
    """A picture full of things to hold on to."""
    noise = cv2.GaussianBlur(rng.standard_normal((320, 320)), (0, 0), 2.5)
    return cv2.normalize(noise, np.empty_like(noise), 0, 255, cv2.NORM_MINMAX).astype(np.uint8)


def test_the_example_runs_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for number in range(9):
        cv2.imwrite(f"photos/{number}.jpg", blobs(rng))
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102
    assert names["vectors"].shape == (9, names["encoder"].dimension)
    np.testing.assert_allclose(np.linalg.norm(names["vectors"], axis=1), 1, atol=1e-5)
