"""Metrics against hand-worked examples, three lines of numpy, and scikit-learn."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn import metrics as sk
from sklearn.exceptions import UndefinedMetricWarning

from bagwise import Bags, metrics
from bagwise.exceptions import BagwiseError, InputError, LabelError

RANKING = [metrics.one_error, metrics.coverage, metrics.average_precision]
INSTANCE = [
    metrics.instance_accuracy,
    metrics.per_category_accuracy,
    metrics.naming_precision,
    metrics.class_purity,
    metrics.normalized_mutual_info,
]
ROI = [
    metrics.roi_success_rate,
    partial(metrics.roi_success_rate, of="relevant"),
    partial(metrics.roi_success_rate, of="predicted"),
]


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

    @pytest.mark.parametrize("metric", RANKING)
    def test_bags_about_which_nothing_is_known_are_left_out(self, metric):
        sets = np.vstack([self.SETS, np.full(4, -1)])
        scores = np.vstack([self.SCORES, np.full(4, np.nan)])
        assert metric(sets, scores) == metric(self.SETS, self.SCORES)

    @pytest.mark.parametrize("metric", RANKING)
    def test_sparse_and_boolean_sets(self, metric):
        expected = metric(self.SETS, self.SCORES)
        assert metric(sparse.csr_array(self.SETS), self.SCORES) == expected
        assert metric(self.SETS.astype(bool), self.SCORES) == expected

    @pytest.mark.parametrize("metric", RANKING)
    def test_infinite_scores_are_ranked(self, metric):
        scores = self.SCORES.copy()
        scores[:, [1, 2]] = [np.inf, -np.inf]
        finite = np.clip(scores, -9, 9)
        assert metric(self.SETS, scores) == metric(self.SETS, finite)

    @pytest.mark.parametrize("metric", RANKING)
    @pytest.mark.parametrize(
        ("sets", "scores", "error", "message"),
        [
            ([[0, 2]], [[0.0, 1.0]], LabelError, "hold 2.0 for bag 0, class 1"),
            ([[-1, 1]], [[0.0, 1.0]], LabelError, "hold -1.0 for bag 0, class 0"),
            ([[0, np.nan]], [[0.0, 1.0]], LabelError, "hold nan"),
            ([[0, 1]], [[0.0, np.nan]], InputError, "NaN for bag 0, class 1"),
            ([[0, 1]], [[0.0, 1.0, 2.0]], LabelError, r"\(1, 2\) and scores \(1, 3\)"),
            ([0, 1], [0.0, 1.0], LabelError, r"\(n_bags, n_classes\)"),
            ([[0, 1], [1]], [[0.0, 1.0]], LabelError, "are not numbers"),
            ([{"a"}, {"b"}], [[0.0, 1.0]], LabelError, "are not numbers"),
            (np.zeros((0, 2)), np.zeros((0, 2)), LabelError, "nothing to measure"),
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


class TestInstanceLabels:
    def test_by_hand(self):
        # Category 0: 5 of 6 right; category 1: 1 of 2; category 2: 0 of 1; one unknown.
        truth = [0, 0, 0, 0, 0, 0, 1, 1, 2, -1]
        predicted = [0, 0, 0, 0, 0, 1, 1, 0, 0, 2]
        assert metrics.instance_accuracy(truth, predicted) == pytest.approx(6 / 9)
        assert metrics.per_category_accuracy(truth, predicted) == pytest.approx(
            (5 / 6 + 1 / 2 + 0) / 3
        )
        assert metrics.per_category_accuracy(
            truth, predicted, min_category_size=2
        ) == pytest.approx((5 / 6 + 1 / 2) / 2)
        assert metrics.naming_precision(truth, predicted) == pytest.approx(5 / 6)
        assert metrics.naming_precision(truth, predicted, min_category_size=2) == 6 / 8

    def test_clusters_by_hand(self):
        # Cluster 0 holds classes a, a, b; cluster 1 holds b, b, b.
        truth, clusters = ["a", "a", "b", "b", "b", "b"], [0, 0, 0, 1, 1, 1]
        assert metrics.class_purity(truth, clusters) == pytest.approx(5 / 6)
        entropy_of_classes = -(2 / 6 * np.log(2 / 6) + 4 / 6 * np.log(4 / 6))
        information = (
            2 / 6 * np.log((2 / 6) / (2 / 6 * 1 / 2))
            + 1 / 6 * np.log((1 / 6) / (4 / 6 * 1 / 2))
            + 3 / 6 * np.log((3 / 6) / (4 / 6 * 1 / 2))
        )
        assert metrics.normalized_mutual_info(truth, clusters) == pytest.approx(
            2 * information / (entropy_of_classes + np.log(2))
        )

    @given(labellings())
    def test_accuracy_is_that_of_scikit_learn(self, pair):
        truth, predicted = pair
        assert metrics.instance_accuracy(truth, predicted) == pytest.approx(
            sk.accuracy_score(truth, predicted)
        )

    @given(labellings())
    def test_per_category_accuracy_is_scikit_learn_macro_recall(self, pair):
        truth, predicted = pair
        expected = sk.recall_score(
            truth, predicted, labels=np.unique(truth), average="macro", zero_division=0
        )
        assert metrics.per_category_accuracy(truth, predicted) == pytest.approx(expected)

    @given(labellings())
    def test_naming_precision_of_all_categories_is_accuracy(self, pair):
        assert metrics.naming_precision(*pair, min_category_size=1) == metrics.instance_accuracy(
            *pair
        )

    @given(labellings())
    def test_purity_from_the_confusion_of_scikit_learn(self, pair):
        counts = sk.cluster.contingency_matrix(*pair)
        assert metrics.class_purity(*pair) == pytest.approx(counts.max(axis=0).sum() / len(pair[0]))

    @given(labellings())
    def test_mutual_info_is_that_of_scikit_learn(self, pair):
        assert metrics.normalized_mutual_info(*pair) == pytest.approx(
            sk.normalized_mutual_info_score(*pair), abs=1e-12
        )

    @given(labellings())
    def test_mutual_info_is_symmetric_and_purity_rises_when_clusters_split(self, pair):
        truth, clusters = pair
        assert metrics.normalized_mutual_info(clusters, truth) == pytest.approx(
            metrics.normalized_mutual_info(truth, clusters)
        )
        finer = 10 * clusters + np.arange(len(clusters)) % 2
        assert metrics.class_purity(truth, finer) >= metrics.class_purity(truth, clusters) - 1e-12

    @pytest.mark.parametrize("metric", INSTANCE)
    def test_unknown_instances_are_left_out(self, metric):
        truth, other = np.array([0] * 6 + [1] * 5), np.array([0, 1] * 5 + [1])
        with_unknown = metric(np.append(truth, [-1, -1]), np.append(other, [0, 1]))
        assert with_unknown == metric(truth, other)

    @pytest.mark.parametrize("metric", INSTANCE)
    def test_strings_mean_the_same_as_numbers(self, metric):
        truth, other = np.array([0] * 6 + [1] * 5), np.array([0, 1] * 5 + [1])
        names = np.array(["wren", "owl"])
        assert metric(names[truth], names[other]) == pytest.approx(metric(truth, other))
        mixed = np.append(names[truth].astype(object), -1)
        assert metric(mixed, np.append(names[other], "owl")) == pytest.approx(metric(truth, other))

    def test_an_unassigned_prediction_is_wrong(self):
        assert metrics.instance_accuracy([0, 1], [0, -1]) == 0.5

    @pytest.mark.parametrize("metric", INSTANCE)
    @pytest.mark.parametrize(
        ("truth", "other", "message"),
        [
            ([0, 1], [0], "2 entries"),
            ([[0, 1]], [[0, 1]], "1-D"),
            ([-1, -1], [0, 1], "no instance has a known label"),
            ([], [], "no instance has a known label"),
            ([0.5, 1], [0, 1], "expected labels"),
            ([0, np.nan], [0, 1], "expected labels"),
            ([0, np.inf], [0, 1], "expected labels"),
            ([0, [1]], [0, 1], "not a list of labels"),
            ([None, 1], [0, 1], "expected labels"),
        ],
    )
    def test_bad_input(self, metric, truth, other, message):
        with pytest.raises(LabelError, match=message):
            metric(truth, other)

    @pytest.mark.parametrize("metric", INSTANCE[:3])
    def test_names_are_not_compared_with_numbers(self, metric):
        with pytest.raises(LabelError, match="strings"):
            metric(["a"] * 5, [0] * 5)

    def test_no_category_large_enough(self):
        with pytest.raises(LabelError, match="the largest has 2"):
            metrics.naming_precision([0, 0, 1], [0, 0, 1])

    @pytest.mark.parametrize("metric", INSTANCE)
    @given(
        truth=st.lists(st.one_of(st.integers(-1, 3), st.floats(), st.text(max_size=2), st.none())),
        other=st.lists(st.one_of(st.integers(-1, 3), st.floats(), st.text(max_size=2), st.none())),
    )
    def test_only_our_errors_come_out(self, metric, truth, other):
        try:
            value = metric(truth, other)
        except BagwiseError:
            return
        assert 0 <= value <= 1


class TestRegionsOfInterest:
    # Five images: relevant 0-2, predicted relevant 0, 1, 3; the returned region is right in 0
    # (a success), wrong in 1; image 2 is missed, image 3 wrongly found.
    TRUTH = np.array([1, 1, 1, 0, 0])
    PREDICTED = np.array([1, 1, 0, 1, 0])
    HITS = np.array([True, False, True, False, False])

    def test_by_hand(self):
        arguments = self.TRUTH, self.PREDICTED, self.HITS
        assert metrics.roi_success_rate(*arguments, of="relevant") == pytest.approx(1 / 3)
        assert metrics.roi_success_rate(*arguments, of="predicted") == pytest.approx(1 / 3)
        assert metrics.roi_success_rate(*arguments) == pytest.approx(2 * 1 / (3 + 3))

    @given(
        st.integers(1, 12).flatmap(
            lambda n: st.tuples(*[hnp.arrays(int, n, elements=st.integers(0, 1))] * 3)
        )
    )
    def test_f_mean_is_the_harmonic_mean_of_both_rates(self, arguments):
        truth, predicted, hits = arguments
        truth[0] = predicted[0] = hits[0] = 1
        recall = metrics.roi_success_rate(truth, predicted, hits, of="relevant")
        precision = metrics.roi_success_rate(truth, predicted, hits, of="predicted")
        assert metrics.roi_success_rate(truth, predicted, hits) == pytest.approx(
            2 / (1 / recall + 1 / precision)
        )

    @pytest.mark.parametrize(
        ("ours", "theirs"),
        [
            (metrics.roi_success_rate, sk.f1_score),
            (partial(metrics.roi_success_rate, of="relevant"), sk.recall_score),
            (partial(metrics.roi_success_rate, of="predicted"), sk.precision_score),
        ],
    )
    def test_with_every_region_right_they_are_f1_recall_and_precision(self, ours, theirs):
        everything = np.ones(5, dtype=bool)
        expected = theirs(self.TRUTH, self.PREDICTED)
        assert ours(self.TRUTH, self.PREDICTED, everything) == pytest.approx(expected)

    def test_an_irrelevant_image_has_no_success(self):
        assert metrics.roi_success_rate([1, 0], [1, 1], [True, True]) == pytest.approx(2 / 3)

    @pytest.mark.parametrize("metric", ROI)
    def test_nothing_relevant_and_nothing_predicted(self, metric):
        with pytest.warns(UndefinedMetricWarning, match="set to 0"):
            assert metric([0, 0], [0, 0], [False, False]) == 0

    def test_string_labels(self):
        names = np.array(["forest", "castle"])
        value = metrics.roi_success_rate(
            names[self.TRUTH], names[self.PREDICTED], self.HITS, pos_label="castle"
        )
        assert value == metrics.roi_success_rate(self.TRUTH, self.PREDICTED, self.HITS)

    @pytest.mark.parametrize("metric", ROI)
    def test_bad_input(self, metric):
        with pytest.raises(LabelError, match="3 entries, y_pred 2 and hits 3"):
            metric([0, 1, 1], [0, 1], [True, False, True])
        with pytest.raises(LabelError, match="True and False"):
            metric([0, 1], [0, 1], [0, 2])
        with pytest.raises(LabelError, match="name one of"):
            metric(["a", "b"], ["a", "b"], [True, True])

    def test_hits(self):
        bags = Bags(np.zeros((6, 1)), [0, 1, 3, 6], ids=["x", "y", "z"])
        labels = [1, 0, 1, 1, 0, -1]
        assert metrics.roi_hits(bags, [0, 0, 2], labels).tolist() == [True, False, False]
        assert metrics.roi_hits(bags, [0, 1, 1], labels, label=0).tolist() == [False, False, True]

    def test_hits_bad_input(self):
        bags = Bags(np.zeros((3, 1)), [0, 1, 3], ids=["x", "y"])
        with pytest.raises(LabelError, match=r"bag 0 \('x'\) is row 1, but the bag has 1"):
            metrics.roi_hits(bags, [1, 0], [0, 1, 1])
        with pytest.raises(LabelError, match="1 entries"):
            metrics.roi_hits(bags, [0], [0, 1, 1])
        with pytest.raises(LabelError, match="2 entries for 3 instances"):
            metrics.roi_hits(bags, [0, 0], [0, 1])
        with pytest.raises(LabelError, match="name one of"):
            metrics.roi_hits(bags, [0, 0], ["a", "b", "a"])


@pytest.mark.parametrize("bags", [None, 3, [1, 2], np.zeros((2, 1))])
def test_hits_are_asked_of_bags(bags):
    with pytest.raises(InputError, match="expected Bags"):
        metrics.roi_hits(bags, [0, 0], [0, 1])


def test_complex_scores_are_refused():
    with pytest.raises(InputError, match="complex"):
        metrics.one_error([[1, 0]], np.array([[1j, 0]]))


class TestCalibrationError:
    def test_in_plain_python(self):
        rng = np.random.default_rng(0)
        proba, truth = rng.dirichlet(np.ones(3), 200), rng.integers(-1, 3, 200)
        bins = {}
        for row, label in zip(proba.tolist(), truth.tolist(), strict=True):
            if label != -1:
                sure = max(row)
                bins.setdefault(int(5 * sure), []).append(sure - (row.index(sure) == label))
        n_known = sum(map(len, bins.values()))
        expected = sum(abs(sum(gaps)) for gaps in bins.values()) / n_known
        assert metrics.instance_calibration_error(truth, proba, n_bins=5) == pytest.approx(expected)
        names = np.array(["a", "b", "c"])
        labels = np.where(truth < 0, "-1", names[truth])
        found = metrics.instance_calibration_error(labels, proba, classes=names, n_bins=5)
        assert found == pytest.approx(expected)

    def test_certain_and_right_is_no_error(self):
        assert metrics.instance_calibration_error([0, 1], [[1, 0], [0, 1]]) == 0
        assert metrics.instance_calibration_error([1, 0], [[1, 0], [0, 1]]) == 1

    @pytest.mark.parametrize(
        ("truth", "proba", "options", "message"),
        [
            ([0], [0.5], {}, "expected numbers from 0 to 1"),
            ([0], [[0.5, 1.5]], {}, "expected numbers from 0 to 1"),
            ([0], [[0.5, np.nan]], {}, "expected numbers from 0 to 1"),
            ([0], [["a", "b"]], {}, "not numbers"),
            ([0, 1], [[0.5, 0.5]], {}, "one each per instance"),
            ([-1], [[0.5, 0.5]], {}, "no instance has a known label"),
            ([0], [[0.5, 0.5]], {"classes": ["a"]}, "1 classes for 2 columns"),
            ([0], [[0.5, 0.5]], {"n_bins": 0}, "expected a whole number"),
        ],
    )
    def test_bad_input(self, truth, proba, options, message):
        with pytest.raises(InputError, match=message):
            metrics.instance_calibration_error(truth, proba, **options)
