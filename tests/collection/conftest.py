"""A collection of five images, of which each test has a copy.

Nothing is spread over processes but where a test says so.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from faemb.collection import Collection, Model
from small_collections import NAMES, make_collection, tiny_model, work_here


@pytest.fixture(scope="module", autouse=True)
def in_one_thread(one_thread: None) -> None:
    """Arrays are small here: one thread is fastest."""


@pytest.fixture(autouse=True)
def serial(monkeypatch: pytest.MonkeyPatch) -> None:
    work_here(monkeypatch)


@pytest.fixture(scope="session")
def model() -> Model:
    """A fitted model; tests must not change it."""
    return tiny_model()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_collection(tmp_path_factory.mktemp("template"), NAMES)


@pytest.fixture
def photos(template: Path, tmp_path: Path) -> Path:
    """A folder with five images, for a collection that has them."""
    return shutil.copytree(template / "photos", tmp_path / "photos")


@pytest.fixture
def collection(template: Path, photos: Path) -> Iterator[Collection]:
    """A collection of `photos`."""
    with Collection.open(shutil.copytree(template / "photos.faemb", photos.parent / "photos.faemb")) as opened:
        yield opened


@pytest.fixture
def empty(tmp_path: Path, model: Model) -> Iterator[Collection]:
    with Collection.create(tmp_path / "empty.faemb", model) as made:
        yield made
