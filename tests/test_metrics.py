"""Metrics against hand-worked examples, three lines of numpy, and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn import metrics as sk

from bagwise import metrics
from bagwise.exceptions import InputError, LabelError
from cases import each

RANKING = [metrics.one_error, metrics.coverage, metrics.average_precision]


@st.composite
def rankings(draw, allow_empty_sets=True):
    """Label sets and scores with many ties."""
    shape = draw(st.tuples(st.integers(1, 6), st.integers(2, 5)))
    sets = draw(hnp.arrays(np.uint8, shape, elements=st.integers(0, 1)))
    if not allow_empty_sets:
        sets[np.arange(shape[0]), draw(hnp.arrays(int, shape[0], elements=st.integers(0, 1)))] = 1
    scores = draw(hnp.arrays(float, shape, elements=st.integers(-2, 2)))
    return sets, scores


class TestRankings:
    # Three bags, four labels; by hand:
    #   bag 0 ranks 0 > 1 > 2 > 3, carries {0, 2}: top right, deepest at place 3, (1/1 + 2/3) / 2
    #   bag 1 ranks 3 > 2 > 1 > 0, carries {1}:    top wrong, deepest at place 3, 1/3
    #   bag 2 ranks 1 > 0 > 3 > 2, carries {1}:    top right, deepest at place 1, 1
    SETS = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [0, 1, 0, 0]])
    SCORES = np.array([[4, 3, 2, 1], [1, 2, 3, 4], [3, 4, 1, 2]]) / 4

    def test_by_hand(self):
        assert metrics.one_error(self.SETS, self.SCORES) == pytest.approx(1 / 3)
        assert metrics.coverage(self.SETS, self.SCORES) == pytest.approx((2 + 2 + 0) / 3)
        assert metrics.average_precision(self.SETS, self.SCORES) == pytest.approx(
            ((1 + 2 / 3) / 2 + 1 / 3 + 1) / 3
        )

    def test_ties_count_against_the_ranking(self):
        # Labels 0 and 1 tie for the top; only 0 is carried.
        sets, scores = [[1, 0, 0]], [[2.0, 2.0, 1.0]]
        assert metrics.one_error(sets, scores) == 1
        assert metrics.coverage(sets, scores) == 1
        assert metrics.average_precision(sets, scores) == 0.5

    def test_tied_labels_that_are_all_carried_are_no_error(self):
        assert metrics.one_error([[1, 1, 0]], [[2.0, 2.0, 1.0]]) == 0

    def test_empty_sets_ask_for_nothing(self):
        sets, scores = [[0, 0, 0]], [[3.0, 2.0, 1.0]]
        assert metrics.one_error(sets, scores) == 0
        assert metrics.coverage(sets, scores) == 0
        assert metrics.average_precision(sets, scores) == 1

    def test_full_sets_cannot_be_ranked_wrongly(self):
        sets, scores = [[1, 1, 1]], [[3.0, 2.0, 1.0]]
        assert metrics.one_error(sets, scores) == 0
        assert metrics.coverage(sets, scores) == 2
        assert metrics.average_precision(sets, scores) == 1

    @given(rankings())
    def test_average_precision_is_that_of_scikit_learn(self, ranking):
        sets, scores = ranking
        assert metrics.average_precision(sets, scores) == pytest.approx(
            sk.label_ranking_average_precision_score(sets, scores)
        )

    @given(rankings(allow_empty_sets=False))
    def test_coverage_is_that_of_scikit_learn_counted_from_zero(self, ranking):
        sets, scores = ranking
        assert metrics.coverage(sets, scores) == pytest.approx(sk.coverage_error(sets, scores) - 1)

    @given(rankings())
    def test_one_error_in_plain_python(self, ranking):
        sets, scores = ranking
        errors = [
            any(row[c] and not labels[c] for c in range(len(row)))
            for labels, row in zip(sets, scores == scores.max(axis=1, keepdims=True), strict=True)
            if labels.any()
        ]
        assert metrics.one_error(sets, scores) == pytest.approx(sum(errors) / len(sets))

    @pytest.mark.parametrize("metric", RANKING)
    @given(ranking=rankings())
    def test_only_the_order_of_scores_matters(self, metric, ranking):
        sets, scores = ranking
        assert metric(sets, np.exp(scores) * 7) == pytest.approx(metric(sets, scores))

    @pytest.mark.parametrize("metric", RANKING)
    @given(ranking=rankings(), seed=st.integers(0, 99))
    def test_order_of_bags_and_labels_is_irrelevant(self, metric, ranking, seed):
        sets, scores = ranking
        rng = np.random.default_rng(seed)
        pick = np.ix_(rng.permutation(sets.shape[0]), rng.permutation(sets.shape[1]))
        assert metric(sets[pick], scores[pick]) == pytest.approx(metric(sets, scores))

    @each("metric", RANKING)
    def test_bags_about_which_nothing_is_known_are_left_out(self, metric):
        sets = np.vstack([self.SETS, np.full(4, -1)])
        scores = np.vstack([self.SCORES, np.full(4, np.nan)])
        assert metric(sets, scores) == metric(self.SETS, self.SCORES)

    @each("metric", RANKING)
    def test_sparse_and_boolean_sets(self, metric):
        expected = metric(self.SETS, self.SCORES)
        assert metric(sparse.csr_array(self.SETS), self.SCORES) == expected
        assert metric(self.SETS.astype(bool), self.SCORES) == expected

    @each("metric", RANKING)
    def test_infinite_scores_are_ranked(self, metric):
        scores = self.SCORES.copy()
        scores[:, [1, 2]] = [np.inf, -np.inf]
        finite = np.clip(scores, -9, 9)
        assert metric(self.SETS, scores) == metric(self.SETS, finite)

    @each("metric", RANKING)
    def test_an_unknown_label_is_left_out(self, metric):
        sets = np.array(self.SETS)
        sets[:, 1] = -1
        expected = metric(np.delete(sets, 1, axis=1), np.delete(self.SCORES, 1, axis=1))
        assert metric(sets, self.SCORES) == pytest.approx(expected)

    @each("metric", RANKING)
    @each(
        ("sets", "scores", "error", "message"),
        [
            ([[0, 2]], [[0.0, 1.0]], LabelError, "contain 2.0 .* for bag 0, class 1"),
            ([[0, 1]], [[0.0, np.nan]], InputError, "scores nan for bag 0, class 1"),
            ([[0, 1]], [[0.0, 1.0, 2.0]], LabelError, r"\(1, 2\) and scores \(1, 3\)"),
            ([{"a"}, {"b"}], [[0.0, 1.0]], InputError, "are not numbers"),
            (np.zeros((0, 2)), np.zeros((0, 2)), LabelError, r"\(n_bags, n_classes\)"),
            ([[-1, -1]], [[0.0, 1.0]], LabelError, "nothing to measure"),
        ],
    )
    def test_bad_input(self, metric, sets, scores, error, message):
        with pytest.raises(error, match=message):
            metric(sets, scores)


LABELS = st.lists(st.integers(0, 3), min_size=1, max_size=12)


@st.composite
def labellings(draw):
    truth = draw(LABELS)
    other = draw(st.lists(st.integers(0, 4), min_size=len(truth), max_size=len(truth)))
    return np.array(truth), np.array(other)


class TestPurity:
    def test_clusters_by_hand(self):
        # Cluster 0 holds classes a, a, b; cluster 1 holds b, b, b.
        truth, clusters = ["a", "a", "b", "b", "b", "b"], [0, 0, 0, 1, 1, 1]
        assert metrics.class_purity(truth, clusters) == pytest.approx(5 / 6)

    @given(labellings())
    def test_purity_from_the_confusion_of_scikit_learn(self, pair):
        counts = sk.cluster.contingency_matrix(*pair)
        assert metrics.class_purity(*pair) == pytest.approx(counts.max(axis=0).sum() / len(pair[0]))

    @given(labellings())
    def test_purity_rises_when_clusters_split(self, pair):
        truth, clusters = pair
        finer = 10 * clusters + np.arange(len(clusters)) % 2
        assert metrics.class_purity(truth, finer) >= metrics.class_purity(truth, clusters) - 1e-12

    def test_unknown_instances_are_left_out(self):
        truth, other = np.array([0] * 6 + [1] * 5), np.array([0, 1] * 5 + [1])
        with_unknown = metrics.class_purity(np.append(truth, [-1, -1]), np.append(other, [0, 1]))
        assert with_unknown == metrics.class_purity(truth, other)

    def test_strings_mean_the_same_as_numbers(self):
        truth, other = np.array([0] * 6 + [1] * 5), np.array([0, 1] * 5 + [1])
        names = np.array(["wren", "owl"])
        expected = metrics.class_purity(truth, other)
        assert metrics.class_purity(names[truth], names[other]) == pytest.approx(expected)
        mixed = np.append(names[truth].astype(object), -1)
        assert metrics.class_purity(mixed, np.append(other, 0)) == pytest.approx(expected)

    @each(
        ("truth", "message"),
        [
            ([0], "inconsistent numbers"),
            ([[0, 1]], "expected a label per instance"),
            ([-1, -1], "no instance has a known label"),
            ([0.5, 1], "expected a label per instance"),
            ([None, 1], "expected a label per instance"),
        ],
    )
    def test_bad_input(self, truth, message):
        with pytest.raises(ValueError, match=message):
            metrics.class_purity(truth, [0, 1])


def times(n=120, seed=0):
    """Risks and times, a third of them censored; ties among both."""
    rng = np.random.default_rng(seed)
    risk = np.round(rng.normal(size=n), 1)
    until = np.ceil(9 * rng.exponential(1, n) * np.exp(-risk))
    fields = [("event", bool), ("time", float)]
    return np.array(list(zip(rng.random(n) < 0.67, until, strict=True)), dtype=fields), risk


def test_concordance_is_that_of_scikit_survival():
    theirs = pytest.importorskip("sksurv.metrics")
    y, risk = times()
    others = times(seed=1)[0]
    inside = y["time"] < others["time"].max()
    y, risk = y[inside], risk[inside]
    harrell = theirs.concordance_index_censored(y["event"], y["time"], risk)[0]
    assert metrics.concordance_index(y, risk) == pytest.approx(harrell)
    uno = theirs.concordance_index_ipcw(others, y, risk)[0]
    assert metrics.concordance_index(y, risk, censoring=others) == pytest.approx(uno)
    assert harrell != pytest.approx(uno)


def test_the_brier_score_is_that_of_scikit_survival():
    theirs = pytest.importorskip("sksurv.metrics").integrated_brier_score
    y, risk = times()
    others, grid = times(seed=1)[0], np.arange(2.0, 12.5, 0.5)
    survival = np.exp(-np.exp(risk)[:, None] * grid / 9)
    found = metrics.integrated_brier_score(y, survival, grid, censoring=others)
    assert found == pytest.approx(theirs(others, y, survival, grid))
    certain = (y["time"][:, None] > grid).astype(float)
    assert metrics.integrated_brier_score(y, certain, grid) == 0


def test_survival_metrics_refuse_what_does_not_fit():
    y, risk = times(20)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        metrics.concordance_index(y, risk[:19])
    with pytest.raises(LabelError, match="structured array"):
        metrics.concordance_index(risk, risk)
    with pytest.raises(InputError, match="increasing, one per column"):
        metrics.integrated_brier_score(y, np.ones((20, 2)), [2.0, 1.0])
