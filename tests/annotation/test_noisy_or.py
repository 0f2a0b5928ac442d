"""Noisy-or logistic regression: enumeration, related models, invariants, edge cases."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import check_grad
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from bagwise import Bags
from bagwise.annotation import NoisyOrLogisticRegression
from bagwise.exceptions import InputError, LabelError
from bagwise.solvers.annotation.orlr import NoisyOrPart
from cases import each


def by_enumeration(p, carried):
    """P(the bag carries the label, or not), and P(instance shows it | that), over all outcomes."""
    total, shown = 0.0, np.zeros(len(p))
    for outcome in product([0, 1], repeat=len(p)):
        if bool(any(outcome)) == carried:
            chance = np.prod(np.where(outcome, p, 1 - p))
            total += chance
            shown += chance * np.array(outcome)
    return total, shown / total


def overlaps(n_bags=40, seed=0, n_labels=3):
    """Bags of instances that show up to two labels; a label raises a feature of its own."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, n_bags)
    shown = (rng.random((sizes.sum(), n_labels)) < 0.3).astype(int)
    shown[shown.sum(axis=1) > 2] = 0
    table = 3.0 * shown + rng.normal(scale=0.5, size=shown.shape)
    bags = Bags(table, np.concatenate([[0], np.cumsum(sizes)]))
    return bags, np.maximum.reduceat(shown, bags.offsets[:-1]), shown


@pytest.fixture(scope="module")
def problem():
    return overlaps()


@pytest.fixture(scope="module")
def fitted(problem):
    bags, sets, _ = problem
    return NoisyOrLogisticRegression(tol=1e-9).fit(bags, sets)


class TestAgainstEnumeration:
    def test_probabilities_of_bags_and_instances(self, problem, fitted):
        bags, sets, _ = problem
        p = expit(fitted.score_instances(bags))
        posterior = fitted.annotate_proba(bags, sets)
        log_likelihood = np.zeros(len(bags))
        for b, (start, stop) in enumerate(zip(bags.offsets, bags.offsets[1:], strict=False)):
            for c in range(3):
                total, shown = by_enumeration(p[start:stop, c], bool(sets[b, c]))
                log_likelihood[b] += np.log(total)
                assert_allclose(posterior[start:stop, c], shown, atol=1e-12)
        assert_allclose(fitted.log_likelihood(bags, sets), log_likelihood, rtol=1e-10)

    def test_the_objective_is_minus_the_penalised_likelihood_and_never_rises(self, problem, fitted):
        bags, sets, _ = problem
        expected = -fitted.log_likelihood(bags, sets).sum() + 0.5 * np.sum(fitted.coef_**2)
        assert_allclose(fitted.objective_curve_[-1], expected, rtol=1e-10)
        assert (np.diff(fitted.objective_curve_) <= 1e-9).all()

    @each("size", [1.0, 300.0])  # probabilities down to 1e-300
    def test_the_gradient_is_that_of_the_loss(self, rng, size):
        bags, sets, _ = overlaps(8)
        part = NoisyOrPart(bags, sets, rng.uniform(1, 2, 8))
        theta = rng.normal(size=(3, 4))
        theta[:, -1] -= size

        def value(flat):
            return part.loss(flat.reshape(3, 4))[0]

        def gradient(flat):
            return part.loss(flat.reshape(3, 4))[1].ravel()

        error = check_grad(value, gradient, theta.ravel())
        assert error < 1e-5 * np.linalg.norm(gradient(theta.ravel()))


class TestLaws:
    def test_singletons_are_a_logistic_regression_per_label(self, rng):
        X = rng.normal(size=(80, 3))
        y = (X + rng.normal(size=X.shape) > 0.3).astype(int)
        ours = NoisyOrLogisticRegression(reg=0.5, tol=1e-10).fit(Bags(X, np.arange(81)), y)
        for c in range(3):
            theirs = LogisticRegression(C=2.0, tol=1e-10).fit(X, y[:, c])
            assert_allclose(ours.coef_[c], theirs.coef_[0], atol=1e-5)
            assert_allclose(ours.intercept_[c], theirs.intercept_[0], atol=1e-5)

    def test_labels_do_not_depend_on_each_other(self, problem, fitted):
        bags, sets, _ = problem
        alone = NoisyOrLogisticRegression(tol=1e-9).fit(bags, sets[:, :2])
        assert_allclose(alone.coef_, fitted.coef_[:2], atol=1e-5)

    def test_bags_of_unknown_set_or_without_weight_do_not_count(self, problem, fitted):
        bags, sets, _ = problem
        more, weights = np.vstack([sets, sets[:4]]), np.ones(len(bags) + 4)
        more[-4:-2], weights[-2:] = -1, 0.0
        both = bags[np.append(np.arange(len(bags)), [3, 2, 1, 0])]
        found = NoisyOrLogisticRegression(tol=1e-9).fit(both, more, sample_weight=weights)
        assert_allclose(found.coef_, fitted.coef_, atol=1e-8)


class TestOverlaps:
    @each("kernel", ["linear", "rbf"])
    def test_all_labels_of_an_instance_are_found(self, problem, kernel):
        bags, sets, shown = problem
        model = NoisyOrLogisticRegression(kernel=kernel, reg=0.02, random_state=0).fit(bags, sets)
        given_sets = model.annotate_sets(bags, sets)
        assert (given_sets == shown).mean() > 0.95
        assert (model.predict_instance_sets(bags) == shown).mean() > 0.95
        assert_array_equal(np.maximum.reduceat(given_sets, bags.offsets[:-1]), sets)
        new, _, truth = overlaps(seed=1)
        assert (model.predict_instance_sets(new) == truth).mean() > 0.93

    def test_every_label_of_the_set_is_shown_by_its_likeliest_instances(self, fitted):
        low = Bags(np.tile([[-2.0, 0.1, 0.1]], (3, 1)), [0, 3])  # three copies
        assert fitted.annotate_proba(low, [[1, 0, 0]])[:, 0].max() < 0.5
        assert_array_equal(fitted.annotate_sets(low, [[1, 0, 0]]), [[1, 0, 0]] * 3)
        assert_array_equal(fitted.annotate_sets(low, [[0, 0, 0]]), np.zeros((3, 3)))


class TestEdges:
    def test_a_label_of_no_bag_and_one_of_all(self, problem):
        bags, sets, _ = problem
        columns = np.column_stack([sets[:, 0], 0 * sets[:, 0], 0 * sets[:, 0] + 1])
        model = NoisyOrLogisticRegression().fit(bags, columns)
        assert np.isneginf(model.intercept_[1])
        assert_array_equal(model.coef_[1:], 0)
        assert_array_equal(model.predict(bags)[:, 1:], columns[:, 1:])
        assert np.isfinite(model.predict_proba(bags)).all()
        two = Bags(bags.instances[:2], [0, 2])
        assert_allclose(model.annotate_proba(two, [[0, 1, 0]]), [[0, 0.5, 0]] * 2)
        assert_array_equal(model.annotate(two, [[0, 1, 0]]), [1, 1])
        assert np.isneginf(model.log_likelihood(two, [[0, 1, 0]])).all()

    def test_nothing_known_of_a_bag(self, problem, fitted):
        bags, sets, _ = problem
        unknown = np.full_like(sets, -1)
        assert_allclose(fitted.annotate_proba(bags, unknown), fitted.predict_proba_instances(bags))
        assert_array_equal(fitted.annotate(bags, unknown), fitted.predict_instances(bags))
        assert_array_equal(fitted.log_likelihood(bags, unknown), 0)

    def test_one_label_per_bag(self, problem):
        bags, sets, _ = problem
        y = np.where(sets[:, 0] == 1, "a", "b")
        model = NoisyOrLogisticRegression().fit(bags, y)
        assert_allclose(model.predict_proba(bags).sum(axis=1), 1)
        assert (model.predict(bags) == y).mean() > 0.9

    def test_refusals(self, problem, fitted):
        bags, sets, _ = problem
        with pytest.raises(LabelError, match="known label and a positive weight"):
            NoisyOrLogisticRegression().fit(bags, np.full_like(sets, -1))
        for threshold in (0, 1.5, "half", np.nan):
            with pytest.raises(InputError, match="expected a probability above 0"):
                fitted.annotate_sets(bags, sets, threshold=threshold)
