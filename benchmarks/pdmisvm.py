"""pdMISVM: cost of an iteration and of a fit, growth, memory."""

import sys
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from bagwise import Bags
from bagwise.classification import PrimalDualMISVM
from bagwise.datasets import load_dataset
from bagwise.exceptions import DataNotFoundError

from .harness import Fact, Row, growth, race, race_iterations, seconds

sys.path.append(str(Path(__file__).parent.parent / "tests" / "classification"))


def shaped(n_bags, n_instances, n_features, n_classes, dtype=np.float64):
    """Random bags whose first instance shows the class."""
    rng = np.random.default_rng(0)
    cuts = rng.choice(np.arange(1, n_instances), n_bags - 1, replace=False)
    offsets = np.sort(np.concatenate([[0, n_instances], cuts]))
    X = rng.standard_normal((n_instances, n_features), dtype=np.float32).astype(dtype, copy=False)
    y = np.arange(n_bags) % n_classes
    X[offsets[:-1]] += rng.standard_normal((n_classes, n_features)).astype(dtype)[y]
    return Bags(X, offsets), y


def fit(bags, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return PrimalDualMISVM(random_state=0, **options).fit(bags, y)


def deep():
    """SIVAL-25-deep shape: 80,561 x 4,096, 25 classes, single precision, 1.3 GB."""
    bags, y = shaped(1500, 80_561, 4096, 25, np.float32)
    X = np.asarray(bags.instances)
    W = np.zeros((4096, 25), np.float32)

    def iterate(n):
        fit(bags, y, solver="inexact", tol=0.0, max_iter=n)

    times = race_iterations(iterate, lambda: X @ W, few=2, many=12)
    what = "inexact iteration, 80,561 x 4,096, K = 25"
    yield Row(what, times[0], "one X @ W", times[1], "<= 1.3")
    models = []
    exact, inexact = race(
        lambda: models.append(fit(bags, y, solver="exact")),
        lambda: fit(bags, y, solver="inexact"),
        rounds=3,
    )
    yield Row("exact fit, same data", exact, "inexact fit", inexact, "")
    n_iter = models[-1].n_iter_
    floor = n_iter * float(np.median(times[1])) + seconds(lambda: X.T @ X)
    yield Row("the same", float(np.median(exact)), f"{n_iter} x X @ W, and X'X", floor, "")


def sival():
    """SIVAL-25 shape."""
    bags, y = shaped(1500, 47_414, 30, 25)
    X, labels = np.asarray(bags.instances), y[bags.bag_index]
    fit(bags[:50], y[:50], solver="exact")
    exact = min(seconds(lambda: fit(bags, y, solver="exact")) for _ in range(3))
    yield Fact("exact fit, 1,500 bags, 47,414 x 30, K = 25", f"{exact:.2f} s", "< 2 s (paper 24 s)")
    svc = seconds(lambda: LinearSVC(max_iter=200, tol=1e-2).fit(X, labels))
    yield Row("the same", exact, "LinearSVC on the instances", svc, "")


def literal():
    """The paper's algorithm with all K x n variables, as in the tests."""
    from primal_dual_oracle import DenseADMM

    bags, y = shaped(300, 3000, 20, 5)
    W = 1e-3 * np.random.RandomState(0).standard_normal((5, 20))
    arguments = (np.asarray(bags.instances), bags.offsets, y, 5, W)

    def dense():
        DenseADMM(*arguments, C=0.01, mu=1e-4, rho=1.2).run(10)

    ours, other = race(lambda: fit(bags, y, solver="exact", max_iter=10, tol=0.0), dense, rounds=3)
    yield Row(
        "ten exact iterations, 300 bags, 3,000 x 20, K = 5",
        ours,
        "the dense K x n ADMM",
        other,
        "<< 1",
    )


def elephant():
    try:
        data = load_dataset("elephant")
    except DataNotFoundError:
        return
    rows = StandardScaler().fit_transform(np.asarray(data.bags.instances, dtype=float))
    bags = data.bags.with_instances(rows)
    for solver in ("exact", "inexact"):
        fit(bags, data.y, solver=solver)
        best = min(seconds(lambda s=solver: fit(bags, data.y, solver=s)) for _ in range(5))
        yield Fact(f"Elephant, {solver} fit", f"{best:.3f} s", "<= 0.1 s")


def thirty_iterations(n_bags, solver):
    """Seconds of thirty iterations on bags of ten instances, the faster of two runs."""
    bags, y = shaped(n_bags, 10 * n_bags, 50, 2)
    options = {"solver": solver, "max_iter": 30, "tol": 0.0}
    return min(seconds(lambda: fit(bags, y, **options)) for _ in range(2))


def scaling():
    sizes = [1_000, 10_000, 100_000]
    for solver in ("exact", "inexact"):
        times = [thirty_iterations(n_bags, solver) for n_bags in [100, *sizes]][1:]
        exponent = f"exponent {growth(sizes, times):.2f}"
        yield Fact(f"growth in bags, 1k to 100k, {solver}", exponent, "<= 1.1")


def memory():
    bags, y = shaped(5000, 100_000, 50, 10)
    for solver in ("exact", "inexact"):
        tracemalloc.start()
        fit(bags, y, solver=solver, max_iter=5, tol=0.0)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        allowed = 2 * 100_000 * 10 * 8 / 1e6
        yield Fact(
            f"peak beside X, 100,000 x 50, K = 10, {solver}",
            f"{peak:.0f} MB",
            f"2 nK = {allowed:.0f} MB + 200 MB",
        )


def rows():
    for part in (elephant, sival, literal, scaling, memory, deep):
        yield from part()
