"""Wrong types and wrong shapes are found while tests run, and only then."""

from typing import Any

import jaxtyping
import numpy as np
import pytest
from beartype.roar import BeartypeCallHintViolation

from faemb.embedding.anchors.alternating import AnchorProblem
from faemb.runtime.limits import require_memory
from typechecking import CALLS, next_test


def test_a_wrong_type(monkeypatch):
    bytes_needed: Any = 1.5
    with pytest.raises(BeartypeCallHintViolation, match="require_memory"):
        require_memory(bytes_needed, "a file")
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    require_memory(bytes_needed, "a file")


def test_the_first_calls_of_each_test_are_checked():
    bytes_needed: Any = 1.5
    for _ in range(CALLS):
        require_memory(1, "a file")
    require_memory(bytes_needed, "a file")
    next_test()
    with pytest.raises(BeartypeCallHintViolation, match="require_memory"):
        require_memory(bytes_needed, "a file")


def test_wrong_shapes():
    x, coefficients = np.zeros((5, 3)), np.zeros((5, 2))
    problem = AnchorProblem(x, coefficients, coefficients, mu=1.0, order=1)
    with pytest.raises(jaxtyping.TypeCheckError, match=r"AnchorProblem\.value"):
        problem.value(x[0])
    with pytest.raises(jaxtyping.TypeCheckError, match=r"AnchorProblem\.__init__"):
        AnchorProblem(x[:4], coefficients, coefficients, mu=1.0, order=1)
