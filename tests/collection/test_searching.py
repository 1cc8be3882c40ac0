"""What a search finds and what it says."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from faemb.collection import Collection, new_model, queries
from faemb.errors import InputError
from faemb.features import HessianAffine, LocalFeatures
from pictures import picture, pixels
from processes import one_after_the_other
from small_collections import NAMES, assert_finds, exported_vectors, names_below, new_tiny_model


class TestSearching:
    def test_each_image_finds_itself(self, collection, photos):
        answers = collection.search([photos / name for name in NAMES], top=1)
        assert [answer.query for answer in answers] == [str(photos / name) for name in NAMES]
        assert [names_below(answer.hits, photos) for answer in answers] == [[name] for name in NAMES]

    def test_each_image_has_similarity_one_to_itself(self, collection, photos):
        """Stored features are rounded to bytes, and so are those of a query."""
        for given in ([photos / name for name in NAMES], [np.asarray(PIL.Image.open(photos / name)) for name in NAMES]):
            answers = collection.search(given, threshold=1)
            assert [names_below(answer.hits, photos) for answer in answers] == [[name] for name in NAMES]
            assert {hit.similarity for answer in answers for hit in answer.hits} == {1.0}

    def test_with_the_default_model_too(self, tmp_path):
        """Democratic pooling is iterative, and a query is encoded alone."""
        for seed in range(12):
            picture(tmp_path / "photos" / f"{seed}.png", seed, size=(160 + 8 * seed, 120))
        with Collection.create(tmp_path / "new.faemb", new_model(HessianAffine(max_features=200))) as made:
            made.add(tmp_path / "photos")
            for image in (tmp_path / "photos").iterdir():
                assert [(hit.path, hit.similarity) for hit in made.search(image, threshold=1)[0].hits] == [(image, 1.0)]

    def test_features_as_the_extractor_gives_them_are_rounded_too(self, collection, photos):
        fresh = collection.model.extractor.extract(photos / "a.png")
        for query in (fresh, collection.features(photos / "a.png")):
            (answer,) = collection.search_features([query], threshold=1)
            assert names_below(answer.hits, photos) == ["a.png"]

    def test_scores_are_products_of_vectors_in_falling_order(self, collection, photos, tmp_path):
        held = exported_vectors(collection, tmp_path)
        hits = collection.search(photos / "a.png")[0].hits
        scores = [hit.similarity for hit in hits]
        assert scores == sorted(scores, reverse=True)
        for hit in hits[1:]:
            assert hit.similarity == pytest.approx(float(held[hit.path.name] @ held["a.png"]), abs=2e-3)

    def test_an_edited_image_finds_its_original(self, collection, photos, tmp_path):
        with PIL.Image.open(photos / "b.png") as image:
            image.crop((5, 5, 115, 85)).save(tmp_path / "query.jpg", quality=60)
        assert collection.search(tmp_path / "query.jpg")[0].hits[0].path == photos / "b.png"

    @pytest.mark.parametrize(
        ("given", "name"),
        [
            (str, "a.png"),
            (Path, "a.png"),
            (PIL.Image.open, "a.png"),
            (lambda path: PIL.Image.fromarray(pixels(0)), "the image"),
            (lambda path: pixels(0), "the array"),
        ],
        ids=["text", "path", "opened", "pillow", "array"],
    )
    def test_a_query_may_be_given_in_any_way(self, collection, photos, given, name):
        query = given(photos / "a.png")
        (answer,) = collection.search(query, top=1)
        assert_finds(answer.hits, photos / "a.png")
        assert answer.query == (str(photos / name) if name == "a.png" else name)
        assert len(collection.search([query] * 9, top=1)) == 9

    def test_a_view_prints_as_one_line(self, collection):
        view = collection.view()
        folder = str(collection.layout.folder)
        assert repr(view) == f"View(5 vectors of {view.vectors.shape[1]} dimensions in {folder!r})"

    def test_so_many_results_as_asked_for(self, collection, photos):
        for top in (1, 2, 5):
            assert len(collection.search(photos / "a.png", top=top)[0].hits) == top
        assert len(collection.search(photos / "a.png", top=1000)[0].hits) == 5

    @pytest.mark.parametrize("top", [0, -1, True])
    def test_a_wrong_number_of_results_is_refused(self, collection, photos, top):
        with pytest.raises(InputError, match="top is"):
            collection.search(photos / "a.png", top=top)

    def test_a_threshold(self, collection, photos):
        every = collection.search(photos / "a.png")[0].hits
        middle = every[2].similarity
        assert collection.search(photos / "a.png", threshold=middle)[0].hits == every[:3]
        assert collection.search(photos / "a.png", threshold=0.99)[0].hits == every[:1]
        assert collection.search(photos / "a.png", threshold=-1)[0].hits == every

    @pytest.mark.parametrize("threshold", [1.01, -1.01, float("nan")])
    def test_a_wrong_threshold_is_refused(self, collection, photos, threshold):
        with pytest.raises(InputError, match="threshold is"):
            collection.search(photos / "a.png", threshold=threshold)

    def test_a_least_confidence_needs_a_confidence(self, collection, photos):
        with pytest.raises(InputError, match=r"least_confidence needs .*, and verify is 0; leave one of them out"):
            collection.search(photos / "a.png", verify=0, least_confidence=0.9)

    def test_an_empty_collection_has_no_answers(self, empty, photos):
        (answer,) = empty.search(photos / "a.png")
        assert (answer.features, answer.hits) == (40, [])
        assert empty.search([]) == []
        assert empty.duplicates() == []

    def test_one_without_a_model_says_what_to_do(self, tmp_path, photos):
        with Collection.create(tmp_path / "new.faemb", new_tiny_model()) as made:
            uses: list[Callable[[], object]] = [
                lambda: made.search(photos / "a.png"),
                made.duplicates,
                lambda: made.export(tmp_path / "out.npz", "npz"),
            ]
            for use in uses:
                with pytest.raises(InputError, match=r"holds no encoded images yet; run: faemb add .* IMAGES"):
                    use()
            info = made.info()
            assert (info.images, info.dimension) == (0, 0)
            assert made.check() == []

    def test_what_is_no_image_is_explained(self, collection, photos, tmp_path):
        (tmp_path / "text.png").write_text("no image")
        with pytest.raises(InputError, match=r"text\.png"):
            collection.search([photos / "a.png", tmp_path / "text.png"])
        with pytest.raises(InputError, match=r"gone\.png"):
            collection.search(tmp_path / "gone.png")
        for wrong in (5, None, {"a": 1}):
            with pytest.raises(InputError, match="expected a path, a Pillow image, a NumPy array or an Image"):
                collection.search(wrong)

    def test_many_queries_of_which_some_cannot_be_read(self, collection, photos, tmp_path):
        asked = [tmp_path / "gone.png", photos / "a.png", tmp_path, photos / "b.png"]
        answers, faults = collection.search_many(asked, top=1)
        assert [answer.query for answer in answers] == [str(photos / "a.png"), str(photos / "b.png")]
        assert [names_below(answer.hits, photos) for answer in answers] == [["a.png"], ["b.png"]]
        assert len(faults) == 2
        assert str(asked[0]) in faults[0]
        assert str(asked[2]) in faults[1]

    def test_more_queries_than_are_done_here_keep_their_order(self, collection, photos, monkeypatch):
        def backwards(task: Any, items: Any, *, jobs: int | None = None) -> Iterator[Any]:
            return reversed(list(one_after_the_other(task, items)))

        monkeypatch.setattr(queries, "spread", backwards)
        asked = [photos / name for name in NAMES] * 3
        answers, faults = collection.search_many([*asked, photos / "gone.png"], top=1)
        assert [answer.hits[0].path for answer in answers] == asked
        assert len(faults) == 1

    def test_more_queries_than_are_encoded_at_once(self, collection, photos, monkeypatch):
        asked = [photos / name for name in NAMES] * 2
        expected = collection.search(asked)
        monkeypatch.setattr("faemb.collection.searching.PORTION", 3)
        for answer, other in zip(collection.search(asked), expected, strict=True):
            assert [hit.path for hit in answer.hits] == [hit.path for hit in other.hits]

    def test_kept_features_are_as_good_as_the_image(self, collection, photos):
        kept = collection.features(photos / "a.png")
        assert isinstance(kept, LocalFeatures)
        assert (len(kept), kept.image_size) == (40, (120, 90))
        (answer,) = collection.search_features([kept], names=["kept"], top=1)
        assert (answer.query, answer.features) == ("kept", 40)
        assert [(hit.path, hit.similarity) for hit in answer.hits] == [(photos / "a.png", 1.0)]
        assert collection.search_features([kept])[0].query == ""
        fresh = HessianAffine(max_features=40).extract(photos / "a.png")
        np.testing.assert_allclose(kept.descriptors, fresh.descriptors, atol=2e-3)
        np.testing.assert_array_equal(kept.frames, fresh.frames)

    def test_features_of_another_length_are_refused(self, collection):
        with pytest.raises(InputError, match="7"):
            collection.search_features([LocalFeatures.none(7, (9, 9))])

    def test_features_of_an_unknown_image_are_refused(self, collection, tmp_path):
        with pytest.raises(InputError, match=r"gone\.png is not in the collection"):
            collection.features(tmp_path / "gone.png")

    def test_a_change_is_seen_at_once_by_one_who_has_searched_before(self, collection, photos):
        with Collection.open(collection.layout.folder) as reader:
            assert len(reader.search(photos / "a.png")[0].hits) == 5
            collection.remove(photos / "trip")
            assert len(reader.search(photos / "a.png")[0].hits) == 3
            picture(photos / "new.png", 33)
            collection.add(photos / "new.png")
            assert_finds(reader.search(photos / "new.png", top=1)[0].hits, photos / "new.png")

    def test_nothing_is_read_again_while_nothing_changes(self, collection, photos):
        first = collection.view()
        collection.search(photos / "a.png")
        assert collection.view() is first
        collection.remove(photos / "a.png")
        assert collection.view() is not first


class TestTheQueryItself:
    def test_its_own_file_is_marked_and_counts_as_any_hit(self, collection, photos):
        (answer,) = collection.search(photos / "a.png", top=2)
        assert [(hit.itself, hit.copy_of_query) for hit in answer.hits] == [(True, False), (False, False)]

    def test_or_there_are_as_many_others_as_asked_for(self, collection, photos):
        (answer,) = collection.search(photos / "a.png", top=3, count_itself=False)
        assert [hit.itself for hit in answer.hits] == [True, False, False, False]
        assert answer.hits == collection.search(photos / "a.png", top=4)[0].hits

    def test_a_query_that_is_not_in_the_collection_has_no_more_answers_for_it(self, collection, photos, tmp_path):
        with PIL.Image.open(photos / "b.png") as image:
            image.crop((5, 5, 115, 85)).save(tmp_path / "part.png")
        (answer,) = collection.search(tmp_path / "part.png", top=2, count_itself=False)
        assert len(answer.hits) == 2
        assert not any(hit.itself or hit.copy_of_query for hit in answer.hits)

    @pytest.mark.parametrize("inside", [True, False])
    def test_a_copy_is_an_answer_that_is_marked(self, collection, photos, tmp_path, inside):
        """A copy inside the collection, found by the original; or the original, found by a copy outside."""
        copy = (photos if inside else tmp_path) / "copy.png"
        copy.write_bytes((photos / "a.png").read_bytes())
        if inside:
            collection.add(copy)
        (answer,) = collection.search(photos / "a.png" if inside else copy, top=2, count_itself=False)
        marks = {hit.path: (hit.itself, hit.copy_of_query) for hit in answer.hits if hit.similarity == 1}
        assert marks == (
            {photos / "a.png": (True, False), copy: (False, True)} if inside else {photos / "a.png": (False, True)}
        )
        assert len(answer.hits) == 2 + inside

    def test_a_link_to_it_is_itself(self, collection, photos, tmp_path):
        (tmp_path / "link.png").symlink_to(photos / "a.png")
        assert collection.search(tmp_path / "link.png", top=1)[0].hits[0].itself

    def test_its_box_changes_nothing(self, collection, photos):
        hits = collection.search(photos / "a.png", box=(0, 0, 70, 89))[0].hits
        assert [hit.path for hit in hits if hit.itself] == [photos / "a.png"]

    def test_a_file_that_has_changed_since_is_still_itself_and_judged_as_any_other(self, collection, photos):
        picture(photos / "a.png", 1)
        (answer,) = collection.search(photos / "a.png")
        (itself,) = (hit for hit in answer.hits if hit.itself)
        assert itself.path == photos / "a.png"
        assert itself.verdict == "unsure"
        assert (answer.hits[0].path, answer.hits[0].confidence) == (photos / "b.png", 1.0)  # whose bytes it has now
        folder = collection.layout.folder
        assert answer.note == f"the file of the query has changed since it was indexed; run: faemb update {folder}"

    def test_arrays_and_features_are_not_files(self, collection, photos):
        answers = collection.search(pixels(0)) + collection.search_features([collection.features(photos / "a.png")])
        assert not any(hit.itself or hit.copy_of_query for answer in answers for hit in answer.hits)


class TestBoxes:
    def test_only_what_lies_inside_counts(self, collection, photos):
        whole, part = (collection.search(photos / "a.png", box=box)[0] for box in (None, (0, 0, 70, 89)))
        assert 0 < part.features < whole.features
        assert part.hits[0].path == photos / "a.png"
        assert part.hits[0].similarity < 1
        assert collection.search(photos / "a.png", box=(-50, -50, 500, 500))[0] == whole

    def test_only_what_lies_inside_is_compared_with_results(self, collection, photos):
        whole, part = (
            found.points[:, 0]
            for box in (None, (0, 0, 70, 89))
            for found in [collection.search(photos / "a.png", box=box)[0].hits[0].verification]
        )
        assert part.size > 0
        assert part.max() <= 70 < whole.max()

    def test_a_box_that_shows_nothing_finds_nothing(self, collection, photos):
        (answer,) = collection.search(photos / "a.png", box=(0, 0, 1, 1))
        assert (answer.features, answer.hits) == (0, [])

    @pytest.mark.parametrize(
        ("box", "words"),
        [
            ((500, 0, 600, 50), "lies outside the image, which is 120 x 90 pixels"),
            ((50, 50, 50, 90), "is empty"),
            ((90, 50, 50, 90), "is empty"),
            ((0, 0, 10), "expected four finite numbers"),
            ((0, 0, 10, float("inf")), "expected four finite numbers"),
        ],
        ids=["outside", "empty", "turned", "three", "endless"],
    )
    def test_a_wrong_box_is_explained(self, collection, photos, box, words):
        with pytest.raises(InputError, match=words):
            collection.search(photos / "a.png", box=box)

    def test_a_box_that_one_query_does_not_have_is_told_of_that_one(self, collection, photos, tmp_path):
        small = picture(tmp_path / "small.png", 3, size=(64, 48))
        answers, faults = collection.search_many([small, photos / "a.png"], box=(70, 10, 119, 80))
        assert [answer.query for answer in answers] == [str(photos / "a.png")]
        (sentence,) = faults
        assert str(small) in sentence
