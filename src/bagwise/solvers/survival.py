"""Time to an event: Cox's partial likelihood, Breslow and Kaplan-Meier estimates, concordance.

Arrays in, arrays out: `event` tells whether the event was observed, `time` when, or until when the
bag was observed without it (censored).
"""

from typing import Any

import numpy as np
from scipy.special import digamma, gammaln
from scipy.stats import chi2

from bagwise import loops
from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.solvers.result import SolverResult, lbfgs

LOWEST = -500.0  # log risks below the largest one: their exponentials do not underflow


def cox_loss(risk: Floats, event: Bools, time: Floats, weight: Floats) -> tuple[float, Floats]:
    r"""Negative log partial likelihood of log risks, with Efron's correction for ties.

    At a time with events of total weight d, whose risks sum to D among S at risk, Efron's term is
    :math:`\sum_{l=0}^{d-1} \log(S - l D / d)`, which with :math:`a = d S / D` is
    :math:`d \log(D / d) + \log \Gamma(a + 1) - \log \Gamma(a - d + 1)`. This form also has a value
    for weights that are not whole; a bag of weight 2 counts as two equal bags.

    Parameters
    ----------
    risk : ndarray of shape (n_bags,)
        Log risks.
    event : ndarray of bool of shape (n_bags,)
        Whether the event was observed.
    time : ndarray of shape (n_bags,)
        Its time, or that of censoring.
    weight : ndarray of shape (n_bags,)
        Weights of the bags.

    Returns
    -------
    loss : float
    gradient : ndarray of shape (n_bags,)
    """
    centre = risk.max()
    powers = weight * np.exp(np.maximum(risk - centre, LOWEST))
    times, at = np.unique(time, return_inverse=True)
    dead = weight * event
    d, D, S = (np.bincount(at, v, len(times)) for v in (dead, powers * event, powers))
    S = S[::-1].cumsum()[::-1]
    some = d > 0
    d, D, S = d[some], D[some], np.maximum(S[some], D[some])
    a, single = d * S / D, d == 1  # without ties the term is log(a), free of rounding errors
    terms = np.where(single, np.log(a), gammaln(a + 1) - gammaln(a - d + 1))
    slopes = np.where(single, 1 / a, digamma(a + 1) - digamma(a - d + 1))
    loss = (d * np.log(D / d) + terms).sum() - dead @ (risk - centre)
    by_S, by_D = np.zeros((2, len(times)))
    by_S[some], by_D[some] = slopes * d / D, (d - slopes * a) / D
    return float(loss), powers * (by_S.cumsum()[at] + event * by_D[at]) - dead


def cox_regression(
    rows: Floats,
    offsets: Ints,
    event: Bools,
    time: Floats,
    weight: Floats,
    *,
    reg: float,
    max_iter: int,
    tol: float,
    start: Floats | None = None,
) -> SolverResult:
    r"""Cox regression on bags, whose log risk is the largest of their rows.

    .. math::

        \min_w \; -\log PL(r) + \frac{\lambda}{2} |w|^2, \qquad r_i = \max_{j \in i} w \cdot x_j

    With one row per bag it is convex, and the same as `CoxPHSurvivalAnalysis` of scikit-survival
    with ``ties="efron"``; otherwise L-BFGS reaches a local optimum.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        Features of the rows.
    offsets : ndarray of shape (n_bags + 1,)
        The first row of each bag, and the end of the last.
    event, time, weight
        As for `cox_loss`.
    reg : float
        The penalty :math:`\lambda`.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Largest entry of the gradient, per event, at which to stop.
    start : ndarray of shape (n_columns,), default=None
        First weights; 0 by default.

    Returns
    -------
    SolverResult
        The solution is the weights, of shape (n_columns,).
    """
    n_events = float(weight @ event)
    curve: list[float] = []

    def loss(w: Floats) -> tuple[float, Floats]:
        risk = rows @ w
        best = loops.segments.argmax(risk, offsets) + offsets[:-1]
        value, slopes = cox_loss(risk[best], event, time, weight)
        gradient = rows[best].T @ slopes + reg * w
        return float(value + 0.5 * reg * w @ w) / n_events, gradient / n_events

    def keep(w: Floats) -> None:
        curve.append(loss(w)[0])

    first = np.zeros(rows.shape[1]) if start is None else start
    # The maximum has kinks, where the gradient does not vanish: stop if the loss does not fall.
    ftol = 0.0 if len(rows) == len(time) else 1e-3 * tol
    found = lbfgs(loss, first, max_iter=max_iter, ftol=ftol, gtol=tol, callback=keep)
    return SolverResult((found.x,), curve or [found.fun], found.status != 1)


def cumulative_hazard(
    risk: Floats, event: Bools, time: Floats, weight: Floats | None = None
) -> tuple[Floats, Floats]:
    """Breslow's estimate of the baseline hazard, summed up to each time in the data.

    Parameters
    ----------
    risk, event, time, weight
        As for `cox_loss`; weights are 1 by default.

    Returns
    -------
    times : ndarray of shape (n_times,)
        The distinct times, sorted.
    hazard : ndarray of shape (n_times,)
    """
    weight = np.ones(len(time)) if weight is None else weight
    times, at = np.unique(time, return_inverse=True)
    deaths = np.bincount(at, weight * event, len(times))
    at_risk = np.bincount(at, weight * np.exp(risk), len(times))[::-1].cumsum()[::-1]
    return times, np.cumsum(deaths / at_risk)


def kaplan_meier(event: Bools, time: Floats, *, censoring: bool = False) -> tuple[Floats, Floats]:
    """Kaplan-Meier's estimate of the share of bags without the event.

    Parameters
    ----------
    event, time
        As for `cox_loss`.
    censoring : bool, default=False
        Whether to estimate the share that is not yet censored instead; events come first.

    Returns
    -------
    times : ndarray of shape (n_times,)
        The distinct times, sorted.
    shares : ndarray of shape (n_times,)
        The share after each.
    """
    times, at = np.unique(time, return_inverse=True)
    gone = np.bincount(at, ~event if censoring else event, len(times))
    at_risk = np.bincount(at, minlength=len(times))[::-1].cumsum()[::-1]
    if censoring:
        at_risk = np.maximum(at_risk - np.bincount(at, event, len(times)), 1)
    return times, np.cumprod(1 - gone / at_risk)


def censoring_weights(censored: Array, time: Floats) -> Floats:
    """Inverse probabilities of not being censored up to some times; 0 where that is impossible.

    Parameters
    ----------
    censored : structured array of shape (n_bags,)
        Times by which the distribution of censoring is estimated, see `check_times`.
    time : ndarray of shape (n_times,)
        The times.

    Returns
    -------
    ndarray of shape (n_times,)
    """
    curve = kaplan_meier(censored["event"], censored["time"], censoring=True)
    left = step_values(*curve, time)
    return np.divide(1.0, left, out=np.zeros(len(left)), where=left > 0)


def step_values(times: Floats, values: Floats, wanted: Any, start: float = 1.0) -> Floats:
    """Values of right-continuous step functions at other times; `start` before the first one.

    Parameters
    ----------
    times : ndarray of shape (n_times,)
        Sorted times of the steps.
    values : ndarray of shape (..., n_times)
        Values from each time on.
    wanted : array-like of shape (n_wanted,)
        Other times.
    start : float, default=1.0
        Value before the first time.

    Returns
    -------
    ndarray of shape (..., n_wanted)
    """
    first = np.full((*values.shape[:-1], 1), start)
    steps = np.concatenate([first, values], axis=-1)
    return steps[..., np.searchsorted(times, wanted, side="right")]


def concordance(event: Bools, time: Floats, risk: Floats, weight: Floats | None = None) -> float:
    """Share of the comparable pairs whose bag with the earlier event has the higher risk.

    A pair is comparable if the event of one bag was observed while the other was without it. Equal
    risks count 1/2. Harrell's C; with the weights 1 / G(time)^2 of the earlier bags, Uno's.

    Parameters
    ----------
    event, time, risk
        As for `cox_loss`.
    weight : ndarray of shape (n_bags,), default=None
        Weight of the pairs in which a bag has the earlier event.

    Returns
    -------
    float
        NaN if no pair is comparable.
    """
    won = pairs = 0.0
    for i in np.flatnonzero(event):
        later = (time > time[i]) | ((time == time[i]) & ~event)
        w = 1.0 if weight is None else weight[i]
        pairs += w * later.sum()
        won += w * (1 + np.sign(risk[i] - risk[later])).sum() / 2
    return float(won / pairs) if pairs else float("nan")


def log_rank(event: Bools, time: Floats, group: Array) -> float:
    """P-value of the log-rank test that all groups have the same hazard."""
    codes, n_groups = np.unique(group, return_inverse=True)[1], len(np.unique(group))
    members = codes == np.arange(n_groups - 1)[:, None]  # the last group follows from the others
    surplus, spread = np.zeros(n_groups - 1), np.zeros((n_groups - 1, n_groups - 1))
    for t in np.unique(time[event]):
        at_risk, dead = time >= t, event & (time == t)
        n, d = at_risk.sum(), dead.sum()
        shares = (members & at_risk).sum(axis=1) / n
        surplus += (members & dead).sum(axis=1) - d * shares
        if n > 1:
            scale = d * (n - d) / (n - 1)
            spread += scale * (np.diag(shares) - np.outer(shares, shares))
    statistic = surplus @ np.linalg.pinv(spread) @ surplus
    return float(chi2.sf(statistic, n_groups - 1))
