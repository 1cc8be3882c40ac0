"""Nothing is spread over processes but where a test says so, and no picture is described twice."""

import pytest

from faemb.benchmark import distractors, features
from faemb.features import HessianAffine
from faemb.runtime.parallel import spread
from processes import one_after_the_other
from small_collections import remembered


@pytest.fixture(autouse=True)
def serial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HessianAffine, "describe", remembered)
    for module in (features, distractors):
        monkeypatch.setattr(module, "spread", one_after_the_other)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch, serial: None) -> None:
    """As users call it."""
    for module in (features, distractors):
        monkeypatch.setattr(module, "spread", spread)
