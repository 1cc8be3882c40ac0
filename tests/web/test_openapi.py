"""The API does what its OpenAPI document says, for requests that fit the document and for others."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import CheckFunction
from schemathesis.specs.openapi import checks

from faemb.web.app import create_app
from faemb.web.settings import ServerSettings
from processes import PATIENCE
from served import served
from small_collections import make_collection

DOCUMENT = schemathesis.openapi.from_dict(create_app(ServerSettings(Path("photos.faemb"))).openapi())


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a process of its own: Hypothesis watches the random numbers of this one."""
    folder = make_collection(tmp_path_factory.mktemp("described"), ["a.png", "b.png"])
    with served(folder / "photos.faemb", "--writable") as server:
        yield server.address.rstrip("/")


HAS_CONDITIONS = {"/api/search", "/api/explain/{query}/{id}", "/api/jobs"}
"""What they ask for may fit the document and still be no image, a box outside of it, or a folder of an update."""


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")  # of schemathesis' own strategies
@DOCUMENT.parametrize()
@settings(max_examples=12, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_is_answered_is_what_is_described(address, case):
    left_out: list[CheckFunction] = []
    if case.path in HAS_CONDITIONS:
        left_out.append(checks.positive_data_acceptance)
    if (case.method, case.path) == ("POST", "/api/images"):  # any bytes are a file, if not an image
        left_out += [checks.negative_data_rejection, checks.positive_data_acceptance]
    case.call_and_validate(base_url=address, excluded_checks=left_out, timeout=PATIENCE)
