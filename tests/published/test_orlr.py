"""ORLR as printed: generalised EM of Pham, Raich and Fern (2014), transcribed from the paper."""

import itertools

import numpy as np
import pytest

from bagwise.published import orlr


def drawn(seed=0, n_classes=4):
    """Bags of one to five instances and the union of random labels of their instances."""
    rng = np.random.RandomState(seed)
    bags = [rng.standard_normal((n, 3)) for n in rng.randint(1, 6, size=25)]
    sets = [set(rng.randint(n_classes, size=len(bag)).tolist()) for bag in bags]
    return bags, sets


def logistic(X, w):
    """Eq. 1."""
    scores = np.exp(X @ w.T)
    return scores / scores.sum(axis=1, keepdims=True)


def e_step(p, Y, term=1):
    """p(y_i = c | Y, X, w) of all instances: Eqs. 8, 11 and 12; the i-th is swapped to the end."""
    subsets = [frozenset(s) for k in range(len(Y) + 1) for s in itertools.combinations(Y, k)]
    joint = np.zeros_like(p)
    for i in range(len(p)):
        others = [*range(i), *range(i + 1, len(p))]
        sub_bag = {L: float(len(L) == 0) for L in subsets}  # of no instance
        for j in others:
            sub_bag = {
                L: sum(p[j, c] * (sub_bag[L] + sub_bag[L - {c}]) for c in L) for L in subsets
            }
        for c in Y:
            joint[i, c] = p[i, c] * (sub_bag[frozenset(Y)] + term * sub_bag[frozenset(Y) - {c}])
    return joint / joint.sum(axis=1, keepdims=True)


def generalised_em(bags, sets, n_classes, n_steps, term=1):
    """The iterates w of Eqs. 13 and 14, from w = 0."""
    X = np.concatenate(bags)
    w, delta, iterates = np.zeros((n_classes, X.shape[1])), 1 / len(X), []
    for _ in range(n_steps):
        posterior = np.concatenate(
            [e_step(logistic(x, w), Y, term) for x, Y in zip(bags, sets, strict=True)]
        )
        gradient = (posterior - logistic(X, w)).T @ X  # Eq. 14

        def g(w, posterior=posterior):  # Eq. 7
            scores = X @ w.T
            return np.sum(posterior * scores) - np.sum(np.log(np.exp(scores).sum(axis=1)))

        delta = 4 * delta
        while g(w + delta * gradient) < g(w) + delta / 2 * np.sum(gradient**2):
            delta = delta / 2
        w = w + delta * gradient  # Eq. 13
        iterates.append(w)
    return iterates


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_the_steps_are_those_of_the_paper():
    bags, sets = drawn()
    printed = generalised_em(bags, sets, 4, 12)
    for n_steps in (1, 2, 5, 12):
        model = orlr(max_iter=n_steps).fit(bags, sets)
        np.testing.assert_allclose(model.coef_, printed[n_steps - 1], atol=1e-10)
        assert not model.intercept_.any()


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_a_changed_sign_is_noticed():
    bags, sets = drawn()
    printed = generalised_em(bags, sets, 4, 3, term=0.5)[-1]
    assert np.abs(orlr(max_iter=3).fit(bags, sets).coef_ - printed).max() > 1e-3


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_predictions_are_those_of_the_paper():
    bags, sets = drawn(1)
    model = orlr(max_iter=5).fit(bags, sets)
    p = [logistic(x, model.coef_) for x in bags]
    posterior = np.concatenate([e_step(each, Y) for each, Y in zip(p, sets, strict=True)])
    np.testing.assert_allclose(model.annotate_proba(bags, sets), posterior, atol=1e-10)
    assert (model.annotate(bags, sets) == posterior.argmax(axis=1)).all()  # Eq. 16
    new = np.concatenate(p).argmax(axis=1)
    assert (model.predict_instances(bags) == new).all()  # Eq. 15


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_a_class_of_no_label_set_has_its_share():
    """Eq. 1 sums over all C classes, also those that no bag carries."""
    bags, sets = drawn(2, n_classes=3)
    indicator = np.array([[int(c in Y) for c in range(4)] for Y in sets])
    printed = generalised_em(bags, sets, 4, 5)[-1]
    model = orlr(max_iter=5).fit(bags, indicator)
    np.testing.assert_allclose(model.coef_, printed, atol=1e-10)


def test_the_fit_stops_where_the_gradient_is_small():
    bags, sets = drawn()
    model = orlr(max_iter=2000, tol=1e-3).fit(bags, sets)
    assert model.n_iter_ < 2000
    assert (np.diff(model.objective_curve_) <= 1e-10).all()
