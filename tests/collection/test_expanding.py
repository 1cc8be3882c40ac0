"""Search with results of results: three views of a wide scene, of which the outer two share nothing."""

import json
import shutil
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
from reference import reciprocal_by_the_book
from small_collections import damage_vector, new_tiny_model

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
    assert found.similarity == plain["right.png"].similarity  # similarity to the query, as ever


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
    least = (hits_of(views, query)["right.png"].similarity or 0.0) + 0.001
    assert "right.png" not in hits_of(views, query, expand="results", threshold=least)


def test_nothing_else_is_asked_of_features_that_are_not_kept(scene, tmp_path):
    with Collection.open(scene / "scene.faemb") as source:
        model = source.model
    with Collection.create(tmp_path / "bare.faemb", model, keep_features=False) as bare:
        bare.add(scene / "photos", jobs=1)
        (answer,) = bare.search(scene / "photos" / "left.png", expand="results")
    assert all(hit.through is None for hit in answer.hits)
    assert "not kept" in answer.note


def test_an_image_whose_vector_is_damaged_is_not_found_through_another(scene, tmp_path):
    folder = shutil.copytree(scene, tmp_path / "scene")
    with Collection.open(folder / "scene.faemb") as damaged:
        damage_vector(damaged, folder / "photos" / "right.png")
        (answer,) = damaged.search(folder / "photos" / "left.png", top=20, expand="results")
    assert "right.png" not in {hit.path.name for hit in answer.hits}
    assert "an image is left out, because the stored vector is damaged; run: faemb check" in answer.note


def test_an_unknown_way_is_refused(views, scene):
    with pytest.raises(
        InputError, match="expand is 'more'; expected one of none, results, average, augmented, scaled, reciprocal"
    ):
        views.search(scene / "photos" / "left.png", expand="more")


def test_expansion_needs_verification(views, scene):
    with pytest.raises(InputError, match="expand needs verified results"):
        views.search(scene / "photos" / "left.png", expand="results", verify=0)


def test_the_command_says_through_which_image(scene):
    arguments = ["search", str(scene / "scene.faemb"), str(scene / "photos" / "left.png"), "--expand", "results"]
    printed = CliRunner().invoke(app, arguments).output
    assert "right.png  (found through middle.png)" in printed
    (answer,) = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)["answers"]
    assert all(hit["similarity"] == round(hit["similarity"], 5) for hit in answer["hits"])
    through = {Path(hit["path"]).name: hit["through"] for hit in answer["hits"]}
    assert through["right.png"] == str(scene / "photos" / "middle.png")
    assert through["middle.png"] is None


def similar(a: np.ndarray, b: np.ndarray) -> float:
    return round(float(a @ b), 5)


class TestByVectors:
    """Compared with the formulas, one image at a time."""

    QUERY = "left.png"

    def vectors(self, views: Collection) -> dict[str, np.ndarray]:
        view = views.view()
        names = {entry.id: Path(entry.path).name for entry in views.entries()}
        return {names[int(image)]: view.vectors[slot] for image, slot in zip(view.ids, view.slots, strict=True)}

    def near(self, vectors: dict[str, np.ndarray], name: str, count: int) -> list[str]:
        """The nearest to an image, of all but itself and the query."""
        others = [other for other in vectors if other not in (name, self.QUERY)]
        return sorted(others, key=lambda other: -similar(vectors[name], vectors[other]))[:count]

    def mean(self, vectors: dict[str, np.ndarray], name: str) -> np.ndarray:
        own = vectors[name]
        total = own + sum(max(similar(own, vectors[n]), 0) * vectors[n] for n in self.near(vectors, name, 2))
        return total / np.linalg.norm(total)

    def expected(self, vectors: dict[str, np.ndarray], how: str) -> dict[str, float]:
        query = vectors[self.QUERY]
        if how == "average":
            return {name: similar(self.mean(vectors, self.QUERY), vector) for name, vector in vectors.items()}
        if how == "augmented":
            found = {name: similar(query, self.mean(vectors, name)) for name in vectors}
        elif how == "reciprocal":
            names = [self.QUERY, *self.near(vectors, self.QUERY, 100)]
            mixed = reciprocal_by_the_book([[similar(vectors[a], vectors[b]) for b in names] for a in names])
            found = dict(zip(names[1:], mixed, strict=True))
        else:
            found = {
                name: similar(query, own)
                - float(np.mean([similar(own, vectors[n]) for n in self.near(vectors, name, 10)])) / 2
                for name, own in vectors.items()
            }
        return found | {self.QUERY: 1.0}

    @pytest.mark.parametrize("how", ["average", "augmented", "scaled", "reciprocal"])
    @pytest.mark.parametrize("index", ["exact", "rabitq"])
    def test_similarities_are_those_of_the_formula(self, views, scene, how, index):
        found = hits_of(views, scene / "photos" / self.QUERY, verify=0, expand=how, index=index)
        expected = self.expected(self.vectors(views), how)
        assert {name: hit.similarity for name, hit in found.items()} == pytest.approx(expected, abs=3e-5)
        scores = [hit.similarity or 0.0 for hit in found.values()]
        assert scores == sorted(scores, reverse=True)
        assert all(hit.confidence is None for hit in found.values())

    @pytest.mark.parametrize("how", ["average", "augmented", "scaled", "reciprocal"])
    def test_few_images_and_no_features(self, scene, tmp_path, how):
        with Collection.open(scene / "scene.faemb") as source:
            model = source.model
        with Collection.create(tmp_path / "few.faemb", model, keep_features=False) as few:
            few.add(scene / "photos" / "left.png", jobs=1)
            assert list(hits_of(few, scene / "photos" / "middle.png", verify=0, expand=how)) == ["left.png"]
            few.add(scene / "photos" / "middle.png", jobs=1)
            found = hits_of(few, scene / "photos" / "middle.png", verify=0, expand=how)
            assert next(iter(found)) == "middle.png"
            assert len(found) == 2

    def test_mutual_neighbours_are_those_of_the_first_hundred_alone(self, views, scene, monkeypatch):
        vectors = self.vectors(views)
        first, *names = [self.QUERY, *self.near(vectors, self.QUERY, 100)]
        mixed = reciprocal_by_the_book(
            [[similar(vectors[a], vectors[b]) for b in (first, *names[:4])] for a in (first, *names[:4])]
        )
        expected = dict(zip(names, mixed, strict=False))
        expected |= {name: 0.3 * similar(vectors[first], vectors[name]) for name in names[4:]}
        monkeypatch.setattr("faemb.collection.expanding.RANKED", 4)
        found = hits_of(views, scene / "photos" / self.QUERY, verify=0, expand="reciprocal")
        assert {name: hit.similarity for name, hit in found.items()} == pytest.approx(expected | {first: 1.0}, abs=3e-5)
        assert list(found)[:5] == [first, *sorted(names[:4], key=lambda name: -expected[name])]

    @pytest.mark.parametrize("how", ["average", "augmented", "scaled", "reciprocal"])
    @pytest.mark.parametrize("number", [-1e30, 1000.0, 8.3e36, np.nan])
    @pytest.mark.parametrize("name", ["middle.png", "003.png"])
    def test_a_damaged_vector_changes_no_other_similarity(self, scene, tmp_path, how, number, name):
        folder = shutil.copytree(scene, tmp_path / "scene")
        query = folder / "photos" / self.QUERY
        with Collection.open(folder / "scene.faemb") as left, Collection.open(folder / "scene.faemb") as damaged:
            expected = self.without(name, self.vectors(left), how)
            damage_vector(damaged, folder / "photos" / name, number)
            (answer,) = damaged.search(query, top=20, verify=0, expand=how)
        assert {hit.path.name: hit.similarity for hit in answer.hits} == pytest.approx(expected, abs=3e-5)
        assert answer.note.startswith("an image is left out, because the stored vector is damaged; run: faemb check")

    def without(self, name: str, vectors: dict[str, np.ndarray], how: str) -> dict[str, float]:
        return self.expected({other: vector for other, vector in vectors.items() if other != name}, how)

    def test_more_candidates_are_ranked_than_are_shown(self, views, scene):
        query = scene / "photos" / self.QUERY
        (answer,) = views.search(query, top=2, verify=0, expand="scaled", count_itself=False)
        assert [hit.path.name for hit in answer.hits] == list(hits_of(views, query, verify=0, expand="scaled"))[:3]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"verify": 100}, "expand 'scaled' ranks by vectors alone, and verify is 100; set it to 0"),
            ({"verify": 0, "query_parts": 2}, "expand 'scaled' is for queries with one vector; leave query_parts out"),
        ],
    )
    def test_what_does_not_go_together_is_refused(self, views, scene, options, message):
        with pytest.raises(InputError, match=message):
            views.search(scene / "photos" / self.QUERY, expand="scaled", **options)
