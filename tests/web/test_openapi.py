"""The API does what its OpenAPI document says, for requests that fit the document and for others."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi import checks

from faemb.web.app import create_app
from faemb.web.settings import ServerSettings
from served import serving
from small_collections import make_collection

DOCUMENT = schemathesis.openapi.from_dict(create_app(ServerSettings(Path("photos.faemb"))).openapi())


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = make_collection(tmp_path_factory.mktemp("described"), ["a.png", "b.png"])
    with serving(ServerSettings(folder / "photos.faemb", jobs=1, writable=True)) as client:
        yield client


HAS_CONDITIONS = {"/api/search", "/api/explain/{query}/{id}", "/api/jobs"}
"""What they ask for may fit the document and still be no image, a box outside of it, or a folder that is not needed."""


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")  # of schemathesis' own strategies
@DOCUMENT.parametrize()
@settings(max_examples=25, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_is_answered_is_what_is_described(client, case):
    refused = [checks.positive_data_acceptance] if case.path in HAS_CONDITIONS else []
    case.call_and_validate(base_url=str(client.base_url), excluded_checks=refused)
