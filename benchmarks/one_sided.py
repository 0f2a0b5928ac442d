"""PrimalDualMISVM(assumption="standard"): objectives compared with MI-SVM, time of an iteration."""

import warnings
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from bagwise import loops
from bagwise._common.memory import as_float64
from bagwise.classification import BagMarginSVM, PrimalDualMISVM
from bagwise.compute.arrays import product
from bagwise.datasets import load_dataset
from bagwise.exceptions import DataNotFoundError
from bagwise.solvers.margin.feature_space import LinearFeatures
from bagwise.solvers.margin.misvm import LabelledBags, bag_margin
from bagwise.solvers.result import SolverResult, total_curve

from .harness import Fact, Row, race_iterations, seconds
from .pdmisvm import shaped

SETS = ("Musk1", "Elephant", "Fox", "Musk2")
MAX_ROUNDS = 50  # of updating witnesses, after the ADMM
TOL = 1e-6  # tolerance on the margins of the SVM for given witnesses
standard = partial(PrimalDualMISVM, assumption="standard")


def fit(model, bags, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(bags, y)


def polished(bags, signs, start, costs):
    """Lower J by the concave-convex procedure of MI-SVM; never return a worse point.

    -max_j s_ij is concave for a bag with the concept: if its best instance is fixed, the rest is
    convex, and its minimum is not above J at the start. The procedure ends in a local minimum, so
    it also runs from the start of MI-SVM, the means of the bags, and the lower result is kept.

    """
    W, b = (np.array(array, dtype=np.float64) for array in start)
    scores = np.asarray(product(bags.instances, W), np.float64) + b
    before = column_objectives(W, scores, bags.offsets, signs, costs)
    space = LinearFeatures(as_float64(bags.instances))
    results = []
    for m, sign in enumerate(signs.T):
        if np.all(sign == sign[0]):  # optimal: w = 0, and b at zero loss
            W[m], b[m], result = 0.0, sign[0], SolverResult((), [0.0], converged=True)
        else:
            starts = best_rows(scores[:, m], bags.offsets)[sign > 0], None
            result = min(
                (
                    bag_margin(
                        LabelledBags(space, bags.offsets, sign > 0, costs),
                        slack_per_bag=True, max_iter=MAX_ROUNDS, tol=TOL, witnesses=witnesses,
                    )
                    for witnesses in starts
                ),
                key=lambda result: result.objective_curve.min(),
            )  # fmt: skip
            if min(result.objective_curve) < before[m]:
                coef, intercept = result.solution
                W[m : m + 1], b[m : m + 1] = space.planes(coef[None], np.atleast_1d(intercept))
        results.append(result)
    curve = np.minimum(np.minimum.accumulate(total_curve(results)), before.sum())
    converged = all(result.converged for result in results)
    return SolverResult((W.astype(start[0].dtype), b), curve, converged)


def column_objectives(W, scores, offsets, signs, costs):
    """Objective J of each column of W."""
    best = loops.segments.maximum(scores, offsets)
    return 0.5 * (W**2).sum(axis=1) + costs @ np.maximum(0.0, 1.0 - signs * best)


def best_rows(scores, offsets):
    """Row of the highest-scoring instance of each bag."""
    return offsets[:-1] + loops.segments.argmax(scores, offsets)


def objectives():
    """Values of the objective that both minimise; settings were chosen on Musk1 and Elephant."""
    n_cells = n_lower = 0
    for name in SETS:
        try:
            data = load_dataset(name.lower())
        except DataNotFoundError:
            continue
        rows = StandardScaler().fit_transform(np.asarray(data.bags.instances, dtype=float))
        bags = data.bags.with_instances(rows)
        for C in (0.01, 1.0):
            other = min(fit(BagMarginSVM(C, kernel="linear"), bags, data.y).objective_curve_)
            model = fit(standard(C), bags, data.y)
            frozen = model.objective_curve_[-1]
            signs = np.where(np.asarray(data.y) == model.pos_label_, 1.0, -1.0)[:, None]
            costs = np.full(len(bags), C)
            start = model.coef_, model.intercept_
            ours = polished(bags, signs, start, costs).objective_curve[-1]
            n_cells += 1
            n_lower += ours <= other * (1 + 1e-6)
            yield Fact(
                f"{name}, C = {C:g}: objective (before polish)",
                f"{ours:.4f} ({frozen:.4f})",
                f"<= MI-SVM's {other:.4f}",
            )
    yield Fact("objectives at or below MI-SVM's", f"{n_lower} of {n_cells}", ">= 6 of 8")


def iterations():
    """Time of an iteration against one product of the instances with W."""
    for n_bags, n, d, n_classes in ((10_000, 200_000, 100, 2), (2_000, 40_000, 500, 10)):
        bags, y = shaped(n_bags, n, d, n_classes)
        X, W = np.asarray(bags.instances), np.zeros((d, 1 if n_classes == 2 else n_classes))
        for solver in ("exact", "inexact"):

            def iterate(n, bags=bags, y=y, solver=solver):
                fit(standard(solver=solver, tol=0.0, max_iter=n), bags, y)

            times = race_iterations(iterate, lambda X=X, W=W: X @ W, few=20, many=220)
            what = f"standard, {solver} iteration, {n:,} x {d}, {W.shape[1]} columns"
            yield Row(what, times[0], "one X @ W", times[1], "<= 1.5")


def million():
    """A million instances of 20 features in bags of ten."""
    bags, y = shaped(100_000, 1_000_000, 20, 2)
    fit(standard(), bags[:50], y[:50])
    model = standard()
    time = seconds(lambda: fit(model, bags, y))
    what = f"standard, exact fit, 1,000,000 x 20, {model.n_iter_} iterations"
    yield Fact(what, f"{time:.1f} s", "<= 20 s")


def rows():
    for part in (objectives, iterations, million):
        yield from part()
