"""PrimalDualMISVM(assumption="standard"): objectives compared with MI-SVM, time of an iteration."""

import warnings
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from bagwise.classification import BagMarginSVM, PrimalDualMISVM
from bagwise.datasets import load_elephant, load_fox, load_musk1, load_musk2
from bagwise.exceptions import DataNotFoundError

from .harness import Fact, Row, race_iterations, seconds
from .pdmisvm import shaped

SETS = {"Musk1": load_musk1, "Elephant": load_elephant, "Fox": load_fox, "Musk2": load_musk2}
standard = partial(PrimalDualMISVM, assumption="standard")


def fit(model, bags, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(bags, y)


def objectives():
    """Values of the objective that both minimise; settings were chosen on Musk1 and Elephant."""
    n_cells = n_lower = 0
    for name, load in SETS.items():
        try:
            data = load()
        except DataNotFoundError:
            continue
        rows = StandardScaler().fit_transform(np.asarray(data.bags.instances, dtype=float))
        bags = data.bags.with_instances(rows)
        for C in (0.01, 1.0):
            other = min(fit(BagMarginSVM(C, kernel="linear"), bags, data.y).objective_curve_)
            curve = fit(standard(C, polish=True), bags, data.y)
            frozen, ours = curve.objective_curve_[[curve.n_iter_ - 1, -1]]
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
