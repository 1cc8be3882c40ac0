"""Score and confidence: monotone in both inputs, learned from pairs, comparable between collections."""

import numpy as np
import pytest
from scipy.special import expit

from faemb.normalise import unit_length
from faemb.rerank import POSSIBLE, SURE, Confidence, Unrelated, sample_of
from faemb.rerank.confidence import PRESENT, SIMILAR, probability


def planted(rng: np.random.Generator, weights: Confidence, count: int = 20_000):
    """Pairs whose labels are drawn with the probability that the weights state."""
    deviations, evidence = rng.normal(1, 2, count), np.minimum(rng.exponential(30, count), 60)  # what teaches something
    same = rng.random(count) < expit(weights.score(deviations, evidence))
    return deviations, evidence, same


class TestFit:
    @pytest.mark.parametrize(("bias", "weight"), [(-8.86, 0.15), (-3.0, 0.1), (-12.0, 0.4)])
    def test_planted_weights_are_found(self, rng, bias, weight):
        found = Confidence.fit(*planted(rng, Confidence(bias, weight)))
        assert found.bias == pytest.approx(bias + np.log(PRESENT), rel=0.1)
        assert found.evidence == pytest.approx(weight, rel=0.1)

    def test_planted_weights_of_vectors_alone_are_found(self, rng):
        deviations = rng.normal(3, 3, 20_000)
        same = rng.random(20_000) < expit(-5 + 0.9 * deviations)
        found = Confidence.fit(deviations, np.zeros(20_000), same)
        assert (found.bias_alone, found.similarity_alone) == pytest.approx((-5 + np.log(PRESENT), 0.9), rel=0.1)

    def test_what_was_learned_is_calibrated(self, rng):
        deviations, evidence, same = planted(rng, Confidence())
        learned = Confidence.fit(deviations, evidence, same).score(deviations, evidence)
        confidence = probability(learned - np.log(PRESENT))  # here every query has its answer
        for low in np.arange(0, 1, 0.25):
            inside = (confidence >= low) & (confidence < low + 0.25)
            assert same[inside].mean() == pytest.approx(confidence[inside].mean(), abs=0.05)

    def test_weights_are_never_negative(self, rng):
        """Even if the labels say that more evidence is worse."""
        found = Confidence.fit(*(value for value in planted(rng, Confidence(1.0, -0.2), 2000)))
        assert min(found.evidence, found.similarity_alone) >= 0

    def test_a_few_wrong_labels_with_much_evidence_do_little(self, rng):
        """Two photographs of one thing that nobody labelled."""
        deviations, evidence, same = planted(rng, Confidence())
        clean = Confidence.fit(deviations, evidence, same)
        evidence[:20], same[:20] = 5000, False
        assert Confidence.fit(deviations, evidence, same).evidence > 0.8 * clean.evidence


class TestUnrelatedDamaged:
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_vectors_that_are_not_finite_are_left_out(self, rng, value):
        vectors = unit_length(rng.standard_normal((40, 3, 32)))
        damaged = vectors.copy()
        damaged[7, 2, 5] = damaged[20, 0, 31] = value
        sound = np.delete(vectors, [7, 20], axis=0)
        assert Unrelated.of(damaged[:, 0], damaged) == pytest.approx(Unrelated.of(sound[:, 0], sound))
        assert Unrelated.of(damaged[:, 0]) == pytest.approx(Unrelated.of(np.delete(vectors[:, 0], 20, axis=0)))


class TestScore:
    def test_the_probability_by_the_book_without_overflow(self):
        scores = np.array([-800.0, -40.0, -1.0, 0.0, 1e-9, 3.0, 40.0, 800.0])
        with np.errstate(over="raise", invalid="raise"):
            np.testing.assert_allclose(probability(scores), expit(scores), rtol=1e-12)

    def test_more_of_either_never_lowers_it(self):
        values, weights = np.linspace(-5, 100, 50), Confidence()
        for other in (-3.0, 0.0, 40.0):
            constant = np.full(50, other)
            for score in (
                weights.score(values, constant),
                weights.score(constant, values),
                weights.score(values, None),
            ):
                assert (np.diff(score) >= 0).all()
                assert (np.diff(score) > 0)[values[1:] < 28].all()  # similarity counts up to 28 deviations

    def test_confidence_is_a_probability(self):
        found = probability(Confidence().score(np.array([-1e6, 0, 1e6]), np.array([0.0, 0, 1e6])))
        assert (found >= 0).all()
        assert (found <= 1).all()
        assert found[1] < 0.01

    def test_what_unrelated_images_have_is_not_claimed(self):
        """99 of 100 wrong pairs have an evidence below 20."""
        assert (probability(Confidence().score(np.array([1.0, 3.0]), np.array([20.0, 15.0]))) < POSSIBLE).all()
        assert probability(Confidence().score(np.array([3.0]), np.array([60.0])))[0] > SURE

    def test_where_the_evidence_is_what_chance_gives_the_more_similar_is_first(self):
        """However many candidates are verified: distant ones agree by chance as often as near ones."""
        similar, agreeing = Confidence().score(np.array([5.0, 1.5]), np.array([0.0, 15.0]))
        assert similar > agreeing

    @pytest.mark.parametrize("deviations", [SIMILAR, 20.0, 30.0, 84.0])
    def test_similarity_cannot_make_a_result_sure_without_geometry(self, deviations):
        """15 is what one of 100 wrong pairs has."""
        assert probability(Confidence().score(np.array([deviations]), np.array([15.0])))[0] < SURE


class TestUnrelated:
    def vectors(self, rng: np.random.Generator, count: int, dimension: int = 400) -> np.ndarray:
        return unit_length(rng.standard_normal((count, dimension)).astype(np.float32) + 0.3)

    def test_typical_similarity_and_its_deviation(self, rng):
        vectors = self.vectors(rng, 150)
        pairs = (vectors @ vectors.T)[np.triu_indices(150, 1)]
        found = Unrelated.of(vectors)
        assert found.typical == pytest.approx(pairs.mean(), abs=0.01)
        assert found.spread == pytest.approx(pairs.std(), rel=0.1)
        np.testing.assert_allclose(found.deviations(pairs).std(), 1, rtol=0.1)

    def test_groups_of_the_same_thing_change_little(self, rng):
        alone = self.vectors(rng, 100)
        groups = np.concatenate(
            [alone, unit_length(alone + 0.02 * rng.standard_normal(alone.shape).astype(np.float32))]
        )
        assert Unrelated.of(groups).spread == pytest.approx(Unrelated.of(alone).spread, rel=0.1)

    @pytest.mark.parametrize("count", [0, 1, 2, 7])
    def test_few_images_teach_nothing(self, rng, count):
        found = Unrelated.of(self.vectors(rng, 7)[:count])
        assert found.typical == 0
        assert found.spread == pytest.approx(1.5 / 20)

    def test_equal_images_leave_a_spread(self, rng):
        found = Unrelated.of(self.vectors(rng, 1)[np.zeros(30, int)])
        assert found.typical == pytest.approx(1, abs=1e-5)
        assert found.spread > 0
        assert np.isfinite(found.deviations(np.array([1.0, 0.0]))).all()

    @pytest.mark.parametrize(("total", "count"), [(1, 1), (5, 5), (256, 256), (1_000_000, 256)])
    def test_the_sample_is_spread_over_all_images(self, total, count):
        found = sample_of(total)
        assert len(found) == count
        assert found[0] == 0
        assert found[-1] == total - 1

    def test_no_images_no_sample(self):
        assert len(sample_of(0)) == 0
