"""Stacking: scores of several models, calibrated and combined by logistic regression.

    log-odds of bag i for class k  =  b_k + sum_m w_m clip(slope_mk s_imk + offset_mk),   w >= 0

Platt scaling (1999) fits slopes and offsets for each model; the weights w are shared by the
classes. Both are fitted to out-of-fold scores. Non-negative weights keep the stack from offsetting
one model against the errors of another (Breiman, Stacked regressions, 1996).
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize, nnls
from scipy.special import expit, log_expit, log_softmax, logit, softmax

from bagwise._common.types import Array, Bools, Floats
from bagwise.solvers.survival import cox_loss

MAX_NEWTON = 100
SHORTEST = 1e-10  # Newton step at which the calibration has converged
TINY = 1e-12  # added to a curvature that may be zero


@dataclass(frozen=True)
class Stack:
    """Calibrated models and their weights.

    Attributes
    ----------
    slopes, offsets : ndarray of shape (n_models, n_columns)
        Map the scores of each model to log-odds.
    weights : ndarray of shape (n_models,) or (n_models, n_columns)
        The weights of the models, of each column if these are several targets.
    intercept : ndarray of shape (n_columns,)
        Added to the weighted log-odds.
    limit : float
        Largest magnitude of the log-odds of one model. A model calibrated on n bags has no evidence
        for odds beyond n : 1, which a bag far from the training data would otherwise get.
    """

    slopes: Floats
    offsets: Floats
    weights: Floats
    intercept: Floats
    limit: float

    def log_odds(self, scores: Floats) -> Floats:
        """Calibrate scores of shape (n_bags, n_columns, n_models)."""
        return np.clip(scores * self.slopes.T + self.offsets.T, -self.limit, self.limit)

    def logits(self, scores: Floats) -> Floats:
        """Combine scores of shape (n_bags, n_columns, n_models): shape (n_bags, n_columns)."""
        if self.weights.ndim == 2:
            return np.einsum("ikm,mk->ik", self.log_odds(scores), self.weights) + self.intercept
        return self.log_odds(scores) @ self.weights + self.intercept


def fit_stack(scores: Floats, targets: Array, *, exclusive: bool, reg: float) -> Stack:
    """Calibrate models on their out-of-fold scores, and find their weights.

    Parameters
    ----------
    scores : ndarray of shape (n_bags, n_columns, n_models)
        Scores of bags by models that were not fitted on them; one column for two classes.
    targets, exclusive, reg
        As for `weigh`.

    Returns
    -------
    Stack
    """
    _, n_columns, n_models = scores.shape
    slopes, offsets = platt(scores, targets[:, :, None] == 1)
    limit = float(np.log1p(len(scores)))
    alone = Stack(slopes.T, offsets.T, np.zeros(n_models), np.zeros(n_columns), limit)
    weights, intercept = weigh(alone.log_odds(scores), targets, exclusive=exclusive, reg=reg)
    return replace(alone, weights=weights, intercept=intercept)


def platt(scores: Floats, positive: Array) -> tuple[Floats, Floats]:
    """Turn scores into log-odds of the positive class: ``slope * score + offset``.

    By Newton's method; a step that does not decrease the loss is shortened.

    Parameters
    ----------
    scores : ndarray of shape (n, ...)
        Scores of n bags by models that were not fitted on them.
    positive : ndarray of bool that broadcasts to the shape of `scores`
        Which of them are positive.

    Returns
    -------
    slopes : ndarray of shape (...)
        Non-negative; 0 if the scores are uninformative, or rank the classes the wrong way round.
    offsets : ndarray of shape (...)
    """
    n_positive = positive.sum(axis=0)
    n_negative = len(positive) - n_positive
    # Platt's targets: a bag of a class counts as certain only in the limit of many bags.
    targets = np.where(positive, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))
    base = logit(targets.mean(axis=0))
    center, scale = scores.mean(axis=0), scores.std(axis=0)
    is_constant = scale <= 1e-12 * np.maximum(1.0, np.abs(center))
    z = np.where(is_constant, 0.0, (scores - center) / np.where(is_constant, 1.0, scale))
    slope, offset = np.broadcast_arrays(0.0 * scale, base)
    value = np.full(scale.shape, np.inf)
    by_slope = by_offset = np.zeros(scale.shape)
    for _ in range(MAX_NEWTON):
        new_slope, new_offset = slope + by_slope, offset + by_offset
        logits = new_slope * z + new_offset
        loss = np.sum((1 - targets) * logits - log_expit(logits), axis=0)
        worse = loss > value
        p = expit(logits)
        bend, missed = p * (1 - p), targets - p
        aa, ab, bb = np.sum(bend * z * z, axis=0) + TINY, np.sum(bend * z, axis=0), bend.sum(axis=0)
        a, b, determinant = np.sum(missed * z, axis=0), missed.sum(axis=0), aa * bb - ab * ab
        by_slope = np.where(worse, 0.25 * by_slope, (bb * a - ab * b) / determinant)
        by_offset = np.where(worse, 0.25 * by_offset, (aa * b - ab * a) / determinant)
        slope, offset = np.where(worse, slope, new_slope), np.where(worse, offset, new_offset)
        value = np.where(worse, value, loss)
        if np.maximum(np.abs(by_slope), np.abs(by_offset)).max() <= SHORTEST:
            break
    is_flat = is_constant | (slope <= 0)
    slope = np.where(is_flat, 0.0, slope / np.where(is_constant, 1.0, scale))
    return slope, np.where(is_flat, base, offset - slope * center)


def weigh(
    log_odds: Floats, targets: Array, *, exclusive: bool, reg: float
) -> tuple[Floats, Floats]:
    """Find the weights of models whose log-odds are known.

    Parameters
    ----------
    log_odds : ndarray of shape (n_bags, n_columns, n_models)
        Calibrated log-odds of each class by each model: one column for two classes.
    targets : ndarray of shape (n_bags, n_columns)
        Which classes a bag has: 0, 1, or a probability between.
    exclusive : bool
        Whether a bag has exactly one class (softmax), or each column is a separate problem.
    reg : float
        Strength of a penalty that shrinks the weights to 1 / n_models, in units of one bag.

    Returns
    -------
    weights : ndarray of shape (n_models,)
        Non-negative.
    offsets : ndarray of shape (n_columns,)
    """
    n_bags, n_columns, n_models = log_odds.shape
    equal = 1 / n_models

    def loss(parameters: Floats) -> tuple[float, Floats]:
        weights, offsets = parameters[:n_models], parameters[n_models:]
        logits = log_odds @ weights + offsets
        if exclusive:
            value = -np.sum(targets * log_softmax(logits, axis=1))
            residual = softmax(logits, axis=1) - targets
        else:
            value = -np.sum(targets * log_expit(logits) + (1 - targets) * log_expit(-logits))
            residual = expit(logits) - targets
        away = weights - equal
        by_weight = np.einsum("ikm,ik->m", log_odds, residual) + reg * away
        gradient = np.concatenate([by_weight, residual.sum(axis=0)])
        return float(value + 0.5 * reg * away @ away) / n_bags, gradient / n_bags

    start = np.concatenate([np.full(n_models, equal), np.zeros(n_columns)])
    bounds = [(0, None)] * n_models + [(None, None)] * n_columns
    options = {"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-8}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return found[:n_models], found[n_models:]


def fit_linear_stack(predictions: Floats, targets: Floats, *, reg: float) -> tuple[Floats, float]:
    r"""Combine predictions of a regression target (Breiman, Stacked regressions).

    .. math:: \min_{w, b} \sum_i \bigl(y_i - b - \sum_m w_m f_{im}\bigr)^2
        + \lambda \sigma^2 \sum_m (w_m - 1 / M)^2
        \quad \text{s.t.} \quad w \ge 0, \; \sum_m w_m \le 1

    with :math:`\sigma` the standard deviation of the targets. Weights that sum to 1 average the
    models; a smaller sum shrinks this average to the mean of the targets. A larger sum would
    amplify the predictions beyond what held-out bags support.

    Parameters
    ----------
    predictions : ndarray of shape (n_bags, n_models)
        Predictions for bags by models that were not fitted on them.
    targets : ndarray of shape (n_bags,)
        The targets.
    reg : float
        The penalty :math:`\lambda`, which shrinks the weights to 1 / M, in units of one bag.

    Returns
    -------
    weights : ndarray of shape (n_models,)
        Non-negative; their sum is at most 1.
    intercept : float
    """
    n_models = predictions.shape[1]
    means, centre = predictions.mean(axis=0), float(targets.mean())
    scale = float(targets.std()) or 1.0
    pull = np.sqrt(reg)
    table = np.vstack([(predictions - means) / scale, pull * np.eye(n_models)])
    wanted = np.append((targets - centre) / scale, np.full(n_models, pull / n_models))
    weights = nnls(table, wanted)[0]
    if weights.sum() > 1:
        # If the weights sum to 1, the residual is (table - wanted) w, which is homogeneous in w.
        # Adding the constraint as one more row, then normalising, is therefore exact.
        rows = np.vstack([table - wanted[:, None], np.ones(n_models)])
        weights = nnls(rows, np.append(np.zeros(len(table)), 1.0))[0]
        weights /= weights.sum()
    return weights, float(centre - means @ weights)


def fit_risk_stack(risks: Floats, event: Bools, time: Floats, *, reg: float) -> Stack:
    r"""Combine risks of a time to an event by Cox regression with non-negative weights.

    The risks of each model, standardised, become log risks :math:`f_m` by a Cox regression of
    their own; then

    .. math:: \min_{w \ge 0} -\log PL(\sum_m w_m f_m) + \frac{\lambda}{2} \sum_m (w_m - 1 / M)^2.

    Parameters
    ----------
    risks : ndarray of shape (n_bags, 1, n_models)
        Risks of bags by models that were not fitted on them.
    event : ndarray of bool of shape (n_bags,)
        Whether the event of a bag was observed.
    time : ndarray of shape (n_bags,)
        Its time, or that of censoring.
    reg : float
        The penalty :math:`\lambda`, which shrinks the weights to 1 / M, in units of one event.

    Returns
    -------
    Stack
    """
    values = risks[:, 0]
    n_models = values.shape[1]
    centre, scale = values.mean(axis=0), values.std(axis=0)
    is_constant = scale <= 1e-12 * np.maximum(1.0, np.abs(centre))
    z = np.where(is_constant, 0.0, (values - centre) / np.where(is_constant, 1.0, scale))

    def weights(columns: Floats, reg: float, equal: float) -> Floats:
        def loss(w: Floats) -> tuple[float, Floats]:
            value, slopes = cox_loss(columns @ w, event, time, np.ones(len(time)))
            away = w - equal
            return float(value + 0.5 * reg * away @ away), columns.T @ slopes + reg * away

        start, bounds = np.full(columns.shape[1], equal), [(0, None)] * columns.shape[1]
        options = {"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-8}
        how = {"jac": True, "method": "L-BFGS-B", "bounds": bounds, "options": options}
        return minimize(loss, start, **how).x

    # A penalty of one event keeps the slope finite where a model ranks all bags correctly.
    own = np.concatenate([weights(z[:, [m]], 1.0, 0.0) for m in range(n_models)])
    slopes = (own / np.where(is_constant, 1.0, scale))[:, None]
    limit = float(np.log1p(len(values)))
    alone = Stack(slopes, -centre[:, None] * slopes, np.zeros(n_models), np.zeros(1), limit)
    log_risks = alone.log_odds(risks)[:, 0]
    return replace(alone, weights=weights(log_risks, reg, 1 / n_models))
