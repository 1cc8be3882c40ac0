"""A judgement of each candidate, with whatever is known of it."""

import numpy as np
import pytest
from planted import scene, seen, turned

from faemb.features import LocalFeatures
from faemb.features.local_features import without_geometry
from faemb.rerank import SURE, UPRIGHT, Confidence, Judge, Unrelated, judging
from faemb.rerank.confidence import probability
from faemb.rerank.judging import MOST_UNCOMPARED

UNRELATED = Unrelated(0.0, 0.02)


@pytest.fixture
def query(rng) -> LocalFeatures:
    return scene(rng, 80)


@pytest.fixture
def candidates(rng, query) -> list[LocalFeatures]:
    """The same thing, half of it, and other things."""
    return [seen(query, turned(5), rng, wrong=wrong) for wrong in (0, 0.5)] + [scene(rng, 80) for _ in range(6)]


def judged(query, candidates, similarities=None, turn=UPRIGHT):
    similar = np.zeros(len(candidates)) if similarities is None else np.array(similarities)
    loads = [lambda features=features: features for features in candidates]
    return Judge(UNRELATED, turn).judge(query, similar, loads)


def test_scores_are_made_of_evidence_and_similarity(query, candidates):
    similar = np.linspace(0, 0.2, 8)
    for found, similarity in zip(judged(query, candidates, similar), similar, strict=True):
        assert found.verification is not None
        expected = Confidence().score(np.array([similarity / 0.02]), np.array([found.verification.evidence]))
        assert found.score == pytest.approx(expected[0])
        assert found.confidence == pytest.approx(probability(expected)[0])


def test_the_same_thing_is_sure_and_others_are_not(query, candidates):
    found = [judgement.confidence for judgement in judged(query, candidates)]
    assert min(found[:2]) > SURE
    assert max(found[2:]) < 0.1


def test_the_more_similar_of_two_equal_candidates_is_first(query, candidates):
    first, second = judged(query, [candidates[1]] * 2, [0.1, 0.05])
    assert first.score > second.score


def test_candidates_whose_features_are_not_kept_are_judged_by_similarity(query, candidates):
    found = judged(query, [candidates[0], None, candidates[2], None], [0.1, 0.1, 0.1, 0.3])
    assert [judgement.verification is None for judgement in found] == [False, True, False, True]
    alone = Confidence().score(np.array([5.0, 15.0]), None)
    assert [found[1].score, found[3].score] == pytest.approx(alone.tolist())


def test_a_candidate_whose_features_are_lost_is_never_sure(query, candidates):
    loads = [lambda: None, lambda: None, lambda: candidates[0]]
    very, hardly, compared = Judge(UNRELATED, UPRIGHT, keeps=True).judge(query, np.array([0.3, 0.06, 0.0]), loads)
    assert very.confidence == pytest.approx(MOST_UNCOMPARED)
    assert hardly.score == pytest.approx(Confidence().score(np.array([3.0]), None)[0])
    assert compared.confidence > SURE > MOST_UNCOMPARED
    assert compared.score > very.score > hardly.score


def test_where_nothing_can_be_compared_nothing_is_lost(query, candidates):
    bare = LocalFeatures(query.descriptors, without_geometry(80), query.scores, (0, 0))
    for features, turn in ((bare, UPRIGHT), (query, None)):
        (found,) = Judge(UNRELATED, turn, keeps=True).judge(features, np.array([0.3]), [lambda: candidates[0]])
        assert found.confidence > SURE


def test_descriptors_without_geometry_are_judged_by_similarity(rng, query, candidates):
    bare = LocalFeatures(query.descriptors, without_geometry(80), query.scores, (0, 0))
    assert [each.verification for each in judged(bare, candidates)] == [None] * 8
    assert judged(query, [bare])[0].verification is None


def test_an_image_without_features_was_compared(rng, query):
    (found,) = judged(query, [scene(rng, 0)])
    assert found.verification is not None
    assert found.verification.evidence == 0


def test_a_query_without_features_and_an_extractor_without_geometry(rng, query, candidates):
    assert all(each.verification is None for each in judged(scene(rng, 0), candidates))
    assert all(each.verification is None for each in judged(query, candidates, turn=None))
    assert judged(query, []) == []


def test_features_are_not_loaded_where_nothing_can_be_verified(rng, query):
    def load() -> LocalFeatures:
        raise AssertionError("loaded")

    for features, turn in ((query, None), (scene(rng, 0), UPRIGHT)):
        Judge(UNRELATED, turn).judge(features, np.zeros(1), [load])


def test_an_error_of_loading_is_not_hidden(query):
    def load() -> LocalFeatures:
        raise OSError("the file is gone")

    with pytest.raises(OSError, match="the file is gone"):
        Judge(UNRELATED, UPRIGHT).judge(query, np.zeros(3), [load] * 3)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_same_bits_with_any_number_of_threads(query, candidates, monkeypatch, threads):
    expected = [judgement.score for judgement in judged(query, candidates)]
    monkeypatch.setattr(judging, "cores", lambda: threads)
    assert [judgement.score for judgement in judged(query, candidates)] == expected
