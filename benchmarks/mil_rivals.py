"""EM-DD, diverse density, MILBoost and MILES on Musk1, each against a naive implementation."""

import sys
from functools import partial

import numpy as np
from scipy.optimize import linprog, minimize, minimize_scalar
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from bagwise.classification import EMDD, MILES, ClassToBag, DiverseDensity, MILBoost
from bagwise.datasets import load_dataset, load_musk1
from bagwise.exceptions import DataNotFoundError

from .harness import Fact, Row, race, seconds

N_STARTS = 6  # of the naive versions: all starts would take minutes


def standardised(data):
    rows = StandardScaler().fit_transform(np.asarray(data.bags.instances, dtype=float))
    return data.bags.with_instances(rows)


def likelihood(z, rows, offsets, positive):
    """Noisy-or likelihood and gradient, in numpy."""
    t, s = np.split(z, 2)
    differences = rows - t
    d = differences**2 @ s**2 + 1e-8
    doubt = np.maximum(-np.log1p(-np.exp(-d)), 1e-300)
    total = np.add.reduceat(doubt, offsets[:-1])
    value = np.where(positive, -np.log(-np.expm1(-total)), total).sum()
    slope = np.where(positive, -1 / np.expm1(np.minimum(total, 700)), 1.0)
    c = np.repeat(slope, np.diff(offsets)) * -1 / np.expm1(np.minimum(d, 700))
    return value, np.concatenate([-2 * s**2 * (c @ differences), 2 * s * (c @ differences**2)])


def descend(z, rows, offsets, positive):
    options = {"maxiter": 100, "ftol": 1e-4}
    found = minimize(
        likelihood, z, (rows, offsets, positive), jac=True, method="L-BFGS-B", options=options
    )
    return found.x, found.fun


def em_dd(z, bags, positive):
    alone, before, value = np.arange(len(bags) + 1), np.inf, np.inf
    while True:
        t, s = np.split(z, 2)
        nearest = [bag[((bag - t) ** 2 @ s**2).argmin()] for bag in bags]
        value = likelihood(z, np.array(nearest), alone, positive)[0]
        if not value < before * (1 - 1e-4):
            return value
        before = value
        z, _ = descend(z, np.array(nearest), alone, positive)


def starts(bags, positive):
    points = np.vstack([bag for bag, label in zip(bags, positive, strict=True) if label])
    return np.hstack([points, np.full(points.shape, np.sqrt(1 / bags.n_features))])


def boost(bags, positive, n_estimators):
    rows, offsets = bags.instances, bags.offsets
    F = np.full(len(rows), -2.0)

    def objective(scores):
        total = np.add.reduceat(np.logaddexp(0, scores), offsets[:-1])
        return np.where(positive, -np.log(-np.expm1(-total)), total).sum()

    for _ in range(n_estimators):
        total = np.add.reduceat(np.logaddexp(0, F), offsets[:-1])
        slope = np.where(positive, 1 / np.expm1(total), -1.0)
        w = np.repeat(slope, bags.sizes) / (1 + np.exp(-F))
        h = DecisionTreeRegressor(max_depth=1).fit(rows, np.sign(w), np.abs(w)).predict(rows)
        step = minimize_scalar(lambda a, F=F, h=h: objective(F + a * h), bounds=(0, 8)).x
        F = F + 0.5 * step * h
    return objective(F)


def miles(bags, y):
    z = bags.instances
    M = np.array([np.exp(-((z[:, None] - bag) ** 2).sum(2).min(1) / z.shape[1]) for bag in bags])
    n, k = M.shape
    sign = np.where(y == 1, 1.0, -1.0)[:, None]
    table = np.hstack([-sign * M, sign * M, -sign, -np.eye(n)])
    bounds = [(0, None)] * (2 * k) + [(None, None)] + [(0, None)] * n
    cost = np.concatenate([np.ones(2 * k), [0], np.ones(n)])
    return linprog(cost, table, -np.ones(n), bounds=bounds, method="highs").fun


def rows():
    data = load_musk1()
    bags, y = standardised(data), data.y
    z = starts(bags, y == 1)
    some = z[:: len(z) // N_STARTS][:N_STARTS]
    share = len(z) / len(some)
    by_scipy = {
        EMDD: lambda: [em_dd(start, bags, y == 1) for start in some],
        DiverseDensity: lambda: [
            descend(start, bags.instances, bags.offsets, y == 1) for start in some
        ],
    }
    for cls, obvious in by_scipy.items():
        cls().fit(bags, y)  # compiles
        ours = min(seconds(partial(cls().fit, bags, y)) for _ in range(3))
        other = share * min(seconds(obvious) for _ in range(3))
        name = f"{cls.__name__} on Musk1, all {len(z)} positive starts"
        yield Row(name, ours, f"scipy's L-BFGS, from {N_STARTS} scaled up", other, "< 10 s")
    ours, other = race(lambda: MILBoost().fit(bags, y), lambda: boost(bags, y == 1, 100), rounds=3)
    yield Row("MILBoost on Musk1, 100 stumps", ours, "scikit-learn's stumps", other, "<= 1")
    ours = min(seconds(partial(ClassToBag(random_state=0).fit, bags, y)) for _ in range(2))
    yield Fact("M-C2B on Musk1, two metrics of 124 x 166", f"{ours:.1f} s", "seconds")
    sets = {"Musk1": (bags, y)}
    try:
        elephant = load_dataset("elephant")
        sets["Elephant"] = (standardised(elephant), elephant.y)
    except DataNotFoundError:
        print("Elephant is not in the data home", file=sys.stderr)
    for name, (bags, y) in sets.items():
        model = MILES(gamma=1 / bags.n_features)
        ours, other = race(partial(model.fit, bags, y), partial(miles, bags, y), rounds=3)
        yield Row(f"MILES on {name}", ours, "the whole program, loops for bags", other, "<= 0.5")
        both = f"{model.objective_curve_[-1]:.6g}, {miles(bags, y):.6g}"
        yield Fact("its objective, ours and of the whole program", both, "equal")
    if "Elephant" in sets:
        bags, y = sets["Elephant"]
        yield Fact(
            "EM-DD on Elephant, all 762 starts",
            f"{seconds(partial(EMDD().fit, bags, y)):.1f} s",
            "",
        )
