"""Platt scaling and non-negative stacking against general optimisers; invariants."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from bagwise.solvers.stacking import fit_stack, platt, weigh
from cases import each


def drawn(seed, n=60, n_columns=1, n_models=3):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, n_columns))
    if n_columns == 1:
        targets = (rng.random((n, 1)) < expit(2 * truth)).astype(int)
    else:
        targets = np.eye(n_columns, dtype=int)[truth.argmax(axis=1)]
    noise = rng.normal(size=(n, n_columns, n_models)) * np.arange(1, n_models + 1)
    return truth[:, :, None] + noise, targets


@each("seed", range(3))
def test_platt_is_logistic_regression_on_his_targets(seed):
    """Each bag enters twice, as positive and as negative, weighted by Platt's targets."""
    scores, targets = drawn(seed)
    s, positive = scores[:, 0, 0], targets[:, 0] == 1
    n_pos, n_neg = positive.sum(), (~positive).sum()
    share = np.where(positive, (n_pos + 1) / (n_pos + 2), 1 / (n_neg + 2))
    twice = np.concatenate([s, s])[:, None]
    model = LogisticRegression(C=1e8, tol=1e-10, max_iter=1000)
    model.fit(twice, np.repeat([1, 0], len(s)), np.concatenate([share, 1 - share]))
    slope, offset = platt(s, positive)
    assert slope == pytest.approx(model.coef_[0, 0], rel=1e-4)
    assert offset == pytest.approx(model.intercept_[0], abs=1e-4)


@each("turned", [0.0, -1.0])
def test_scores_without_information_give_the_share_of_positives(turned):
    scores, targets = drawn(1)
    slope, offset = platt(turned * scores[:, 0, 0], targets[:, 0] == 1)
    assert slope == 0
    assert expit(offset) == pytest.approx(targets.mean(), abs=0.02)


def loss_by_loops(parameters, log_odds, targets, exclusive, reg):
    n, _, n_models = log_odds.shape
    weights, offsets = parameters[:n_models], parameters[n_models:]
    total = 0.5 * reg * np.sum((weights - 1 / n_models) ** 2)
    for i in range(n):
        logits = log_odds[i] @ weights + offsets
        if exclusive:
            total -= np.log(softmax(logits)[targets[i].argmax()])
        else:
            p = expit(logits)
            total -= np.sum(np.log(np.where(targets[i] == 1, p, 1 - p)))
    return total


@each(("n_columns", "exclusive"), [(1, False), (3, True), (3, False)])
@each("reg", [0.1, 5.0])
def test_weights_are_the_optimum(n_columns, exclusive, reg):
    log_odds, targets = drawn(2, n=40, n_columns=n_columns)
    weights, offsets = weigh(log_odds, targets, exclusive=exclusive, reg=reg)
    assert (weights >= 0).all()
    arguments = (log_odds, targets, exclusive, reg)
    found = loss_by_loops(np.concatenate([weights, offsets]), *arguments)
    bounds = [(0, None)] * 3 + [(None, None)] * n_columns
    best = minimize(loss_by_loops, np.full(3 + n_columns, 0.5), arguments, bounds=bounds).fun
    assert found == pytest.approx(best, rel=1e-6)


def test_a_copy_shares_the_weight_of_its_model():
    log_odds, targets = drawn(3)
    log_odds = log_odds[:, :, [0, 0, 1]]
    weights, _ = weigh(log_odds, targets, exclusive=False, reg=1.0)
    assert weights[0] == pytest.approx(weights[1], abs=1e-4)


def test_the_stack_is_the_sum_that_it_promises():
    scores, targets = drawn(5, n_columns=3)
    stack = fit_stack(scores, targets, exclusive=True, reg=1.0)
    expected = np.zeros((len(scores), 3))
    for k in range(3):
        for m in range(3):
            slope, offset = platt(scores[:, k, m], targets[:, k] == 1)
            log_odds = slope * scores[:, k, m] + offset
            expected[:, k] += stack.weights[m] * np.clip(log_odds, -np.log(61), np.log(61))
    np.testing.assert_allclose(stack.logits(scores), expected + stack.intercept, atol=1e-10)
