"""RankLossSIM and M3MIML: against loops and a general QP solver; invariants."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import check_grad, minimize
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.annotation import M3MIML, RankLossSIM
from bagwise.annotation._annotator import best_threshold
from bagwise.datasets import load_letter_frost
from bagwise.exceptions import LabelError
from bagwise.solvers.annotation.rank_loss import rank_loss, rank_loss_sim
from cases import each


@pytest.fixture
def data(rng):
    """Twenty bags of three kinds of instances in the plane, and their label sets."""
    kinds = rng.integers(3, size=60)
    bags = Bags(np.eye(3)[kinds][:, :2] * 3 + rng.normal(size=(60, 2)), np.arange(0, 61, 3))
    sets = np.zeros((20, 3), int)
    sets[bags.bag_index, kinds] = 1
    return bags, sets, kinds


def rank_loss_by_loops(scores, sets):
    total = 0.0
    for row, labels in zip(scores, sets, strict=True):
        pairs = [(p, q) for p in np.flatnonzero(labels) for q in np.flatnonzero(labels == 0)]
        missed = [max(0.0, 1 - row[p] + row[q]) for p, q in pairs]
        total += np.mean(missed) if pairs else 0.0
    return total / len(scores)


def pooled(rows, offsets, W):
    return np.array(
        [
            np.sum(softmax(part @ W.T, axis=0) * (part @ W.T), axis=0)
            for part in np.split(rows, offsets[1:-1])
        ]
    )


class TestRankLoss:
    def test_the_loss_is_that_of_loops(self, rng, data):
        _, sets, _ = data
        sets[0], sets[1] = 0, 1  # say nothing
        scores = rng.normal(size=(20, 3))
        loss, _ = rank_loss(scores, sets == 1, 0.0)
        assert loss == pytest.approx(rank_loss_by_loops(scores, sets))
        near, _ = rank_loss(scores, sets == 1, 0.05)
        assert loss - 0.025 <= near <= loss

    def test_the_gradient_is_that_of_the_rounded_loss(self, rng, data):
        _, sets, _ = data

        def value(flat, part=0):
            loss, gradient = rank_loss(flat.reshape(20, 3), sets == 1, 0.3)
            return (loss, gradient.ravel())[part]

        start = rng.normal(size=60)
        assert check_grad(value, lambda x: value(x, 1), start) < 1e-6

    def test_the_objective_is_that_of_the_paper(self, data):
        bags, sets, _ = data
        model = RankLossSIM(reg=0.01).fit(bags, sets)
        mean = bags.instances.mean(axis=0)
        rows = np.column_stack([bags.instances - mean, np.ones(60)])
        W = np.column_stack([model.coef_, model.intercept_ + model.coef_ @ mean])
        scores = pooled(rows, bags.offsets, W)
        value = 0.005 * np.sum(W**2) + rank_loss_by_loops(scores, sets)
        assert model.objective_curve_.min() == pytest.approx(value)
        assert_allclose(model.decision_function(bags), scores - model.threshold_)

    def test_the_first_round_is_the_convex_problem_on_means(self, data):
        """Against a derivative-free descent on the plain hinge from the solution found."""
        bags, sets, _ = data
        X, options = bags.instances, {"reg": 0.1, "max_iter": 1, "tol": 0}
        coef, intercept = rank_loss_sim(X, bags.offsets, sets, **options).solution
        W = np.column_stack([coef, intercept + coef @ X.mean(axis=0)])
        means = np.array([np.append(bag.mean(axis=0) - X.mean(axis=0), 1) for bag in bags])

        def objective(flat):
            V = flat.reshape(3, 3)
            return 0.05 * np.sum(V**2) + rank_loss_by_loops(means @ V.T, sets)

        options = {"maxiter": 4000, "xatol": 1e-6, "fatol": 1e-9}
        lower = minimize(objective, W.ravel(), method="Nelder-Mead", options=options).fun
        assert objective(W.ravel()) <= lower + 2e-3  # the rounded corner

    @each("table", [np.asarray, sparse.csr_array])
    @each("shift", [1e4, 1e8])
    def test_the_origin_of_the_features_does_not_matter(self, data, shift, table):
        """With 1e4 added to the features all bags had the same score, without a warning."""
        bags, sets, _ = data
        plain = RankLossSIM().fit(bags, sets).predict(bags)
        moved = bags.with_instances(table(bags.instances + shift))
        model = RankLossSIM().fit(moved, sets)
        assert np.ptp(model.decision_function(moved), axis=0).min() > 1
        assert np.mean(model.predict(moved) == plain) > 0.9

    @each("factors", [(1e20, 1e20), (1e6, 1.0), (1e-3, 1e9)])
    def test_the_unit_of_the_features_matters_to_the_penalty_only(self, data, factors):
        bags, sets, _ = data
        scaled = bags.with_instances(bags.instances * np.array(factors))
        plain, model = (RankLossSIM(reg=1e-8).fit(b, sets) for b in (bags, scaled))
        share = np.mean(plain.predict(bags) == sets)
        assert np.mean(model.predict(scaled) == sets) > share - 0.1

    def test_a_short_budget_warns(self, data):
        with pytest.warns(ConvergenceWarning, match="max_iter=1"):
            RankLossSIM(max_iter=1, tol=0.0).fit(*data[:2])


class TestM3MIML:
    def test_it_is_the_quadratic_program(self, data):
        pytest.importorskip("clarabel")
        from qp_oracle import bag_margin_problem, solve_margins

        bags, sets, _ = data
        model = M3MIML(C=0.5).fit(bags, sets)
        for label in range(3):
            means = [bag.mean(axis=0) for bag in bags]
            problem = bag_margin_problem(bags, sets[:, label] == 1, means, 0.5)
            w, b, _ = solve_margins(*problem)
            assert_allclose(model.coef_[label], w, atol=1e-5)
            # The intercept may have a flat choice: its objective counts.
            values = [
                primal(bags, sets[:, label] == 1, 0.5, model.coef_[label], at)
                for at in (model.intercept_[label], b)
            ]
            assert values[0] <= values[1] + 1e-6

    def test_the_linear_kernel_is_the_linear_machine(self, data):
        bags, sets, _ = data
        plain = M3MIML().fit(bags, sets)
        gram = M3MIML(kernel=lambda a, b: a @ b).fit(bags, sets)
        assert_allclose(gram.score_instances(bags), plain.score_instances(bags), atol=1e-4)
        assert M3MIML(kernel="rbf").fit(bags, sets).predict(bags).shape == (20, 3)

    def test_a_label_of_all_bags_or_of_none(self, data):
        bags, sets, _ = data
        wide = np.column_stack([sets, np.ones(20, int), np.zeros(20, int)])
        model = M3MIML().fit(bags, wide)
        assert_array_equal(model.predict(bags)[:, 3:], [[1, 0]] * 20)
        assert 4 not in model.annotate(bags, wide)
        assert len(set(model.annotate(bags, wide))) > 1  # what all carry does not take all
        assert np.isfinite(model.decision_function(bags)).all()

    def test_a_set_of_labels_that_no_training_bag_carries(self, data):
        bags, sets, _ = data
        model = M3MIML().fit(bags, np.column_stack([sets, 0 * sets[:, 0]]))
        only_the_new = np.tile([0, 0, 0, 1], (len(bags), 1))
        assert_array_equal(model.annotate(bags, only_the_new), 3)
        everything = np.ones((len(bags), 4), int)
        assert_array_equal(model.annotate(bags, everything), model.predict_instances(bags))

    def test_a_fit_that_learned_nothing_says_so(self, data):
        """With costs of next to nothing, w = 0: it was returned without a warning."""
        bags, sets, _ = data
        with pytest.warns(ConvergenceWarning, match="learned nothing.*raise C"):
            model = M3MIML(C=1e-9).fit(bags, sets)
        assert np.ptp(model.score_instances(bags), axis=0).max() < 1e-3


def primal(bags, carried, C, w, b):
    scores = bags.split(bags.instances @ w + b)
    slack = [1 - s.mean() if c else 1 + s.max() for s, c in zip(scores, carried, strict=True)]
    return 0.5 * w @ w + C * np.maximum(slack, 0).sum()


@pytest.mark.parametrize("model", [RankLossSIM(), M3MIML()], ids=lambda m: type(m).__name__)
class TestBoth:
    def test_instances_are_named_within_the_set(self, data, model):
        bags, sets, _ = data
        names = np.array(["x", "y", "z"])
        words = [set(names[row == 1]) for row in sets]
        model.fit(bags, words)
        annotated = bags.split(model.annotate(bags, words))
        assert all(set(part) <= word for part, word in zip(annotated, words, strict=True))
        free = model.annotate(bags, [None] * 20)
        assert_array_equal(free, model.predict_instances(bags))
        assert_array_equal(model.annotate(bags, [set()] * 20), free)

    def test_unknown_sets_are_left_out(self, data, model):
        bags, sets, _ = data
        partly = [None if i < 3 else set(np.flatnonzero(row)) for i, row in enumerate(sets)]
        known = model.fit(bags[3:], sets[3:]).decision_function(bags)
        assert_allclose(model.fit(bags, partly).decision_function(bags), known, atol=1e-6)
        with pytest.raises(LabelError, match="known label"):
            model.fit(bags, np.full((20, 3), -1))

    def test_letters(self, model):
        data = load_letter_frost()
        bags = data.bags.with_instances(StandardScaler().fit_transform(data.bags.instances))
        found = model.fit(bags, data.label_sets).annotate(bags, data.label_sets)
        assert (found == data.instance_labels).mean() > 0.5  # a guess within the set: .33


def test_the_threshold_makes_the_fewest_errors(rng):
    for _ in range(20):
        scores, sets = rng.normal(size=(4, 3)).round(1), rng.integers(2, size=(4, 3))
        ends = np.sort(scores, axis=None)
        choices = np.r_[ends[0] - 1, (ends[1:] + ends[:-1]) / 2, ends[-1] + 1]
        least = min(((scores > t) != sets).sum() for t in choices)
        assert ((scores > best_threshold(scores, sets)) != sets).sum() == least
