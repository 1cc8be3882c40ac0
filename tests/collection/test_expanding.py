"""Search with results of results: three views of a wide scene, of which the outer two share nothing."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from typer.testing import CliRunner

from faemb.cli.main import app
from faemb.collection import Collection, Hit, Model
from faemb.errors import InputError
from faemb.features import HessianAffine
from pictures import pictures, pixels
from small_collections import new_tiny_model

SCENE = pixels(77, (560, 160))
VIEWS = {"left.png": 0, "middle.png": 140, "right.png": 280}
"""The first column of each view; the next 280 belong to it."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of the three views and other pictures; beside it the folder of the pictures."""
    folder = tmp_path_factory.mktemp("scene")
    pictures(folder / "photos", range(12), (280, 160))
    for name, column in VIEWS.items():
        PIL.Image.fromarray(np.ascontiguousarray(SCENE[:, column : column + 280])).save(folder / "photos" / name)
    model = Model(HessianAffine(max_features=150), new_tiny_model().encoder)
    with Collection.create(folder / "scene.faemb", model) as made:
        made.add(folder / "photos", jobs=1)
    return folder


@pytest.fixture
def views(scene: Path) -> Iterator[Collection]:
    with Collection.open(scene / "scene.faemb") as opened:
        yield opened


def hits_of(collection: Collection, query: Path, **options: Any) -> dict[str, Hit]:
    (answer,) = collection.search(query, top=20, **options)
    return {hit.path.name: hit for hit in answer.hits}


def test_an_image_is_found_through_one_that_shares_a_part_with_both(views, scene):
    query = scene / "photos" / "left.png"
    plain, expanded = hits_of(views, query), hits_of(views, query, expand="results")
    assert plain["middle.png"].verdict == "same"
    assert plain["right.png"].verdict == "unsure"
    found = expanded["right.png"]
    assert (found.verdict, found.through) == ("maybe", scene / "photos" / "middle.png")
    assert list(expanded)[2] == "right.png"  # after the query itself and the view beside it
    assert found.score == plain["right.png"].score  # similarity to the query, as ever


def test_what_the_query_finds_by_itself_stays_as_it_is(views, scene):
    query = scene / "photos" / "left.png"
    plain, expanded = hits_of(views, query), hits_of(views, query, expand="results")
    assert expanded["middle.png"] == plain["middle.png"]
    assert plain.keys() == expanded.keys()
    confidences = [hit.confidence or 0.0 for hit in expanded.values()]
    assert confidences == sorted(confidences, reverse=True)


def test_also_an_image_that_was_no_candidate(views, scene):
    query = scene / "photos" / "left.png"
    (answer,) = views.search(query, top=2, verify=2, expand="results", count_itself=False)
    assert [hit.path.name for hit in answer.hits] == ["left.png", "middle.png", "right.png"]
    assert answer.hits[2].verification is None


def test_without_a_sure_result_nothing_changes(views, scene):
    query = scene / "photos" / "003.png"
    assert hits_of(views, query, expand="results") == hits_of(views, query)


def test_where_no_result_is_sure_more_images_are_compared(views, scene):
    """The query itself, which is in the collection, is no such result."""
    query = scene / "photos" / "003.png"
    plain, further = (hits_of(views, query, verify=2, expand=expand) for expand in ("none", "results"))
    assert sum(hit.verification is not None for hit in plain.values()) == 2
    assert all(hit.verification is not None for hit in further.values())
    assert further == hits_of(views, query)


def test_and_at_most_as_many_as_sure_results_would_be_compared_with(views, scene, monkeypatch):
    monkeypatch.setattr("faemb.collection.searching.FURTHER", 3)
    found = hits_of(views, scene / "photos" / "003.png", verify=2, expand="results")
    assert sum(hit.verification is not None for hit in found.values()) == 5
    sure = hits_of(views, scene / "photos" / "left.png", verify=2, expand="results")
    assert sum(hit.verification is not None for hit in sure.values()) == 2


def test_a_threshold_holds_for_what_is_found_so(views, scene):
    query = scene / "photos" / "left.png"
    least = (hits_of(views, query)["right.png"].score or 0.0) + 0.001
    assert "right.png" not in hits_of(views, query, expand="results", threshold=least)


def test_nothing_else_is_asked_of_features_that_are_not_kept(scene, tmp_path):
    with Collection.open(scene / "scene.faemb") as source:
        model = source.model
    with Collection.create(tmp_path / "bare.faemb", model, keep_features=False) as bare:
        bare.add(scene / "photos", jobs=1)
        (answer,) = bare.search(scene / "photos" / "left.png", expand="results")
    assert all(hit.through is None for hit in answer.hits)
    assert "not kept" in answer.note


def test_an_unknown_way_is_refused(views, scene):
    with pytest.raises(InputError, match="expand is 'more'; expected one of none, results"):
        views.search(scene / "photos" / "left.png", expand="more")


def test_expansion_needs_verification(views, scene):
    with pytest.raises(InputError, match="expand needs verified results"):
        views.search(scene / "photos" / "left.png", expand="results", verify=0)


def test_the_command_says_through_which_image(scene):
    arguments = ["search", str(scene / "scene.faemb"), str(scene / "photos" / "left.png"), "--expand", "results"]
    printed = CliRunner().invoke(app, arguments).output
    assert "right.png  (found through middle.png)" in printed
    (answer,) = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)["answers"]
    through = {Path(hit["path"]).name: hit["through"] for hit in answer["hits"]}
    assert through["right.png"] == str(scene / "photos" / "middle.png")
    assert through["middle.png"] is None
