"""MIMLCA: the whole fit against one product X'X, and its assignment pass against a loop.

MIMLCA by likelihood: an iteration against X'X (accuracies: python -m reproduction mimlca naming).

BAGWISE_BENCH_SHARE scales the Labeled-Yahoo-News shape in each direction (1 is the paper's: 560 MB
of instances, and about twice as much in addition).
"""

import os
import threading
import time
import warnings

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning

from bagwise import Bags
from bagwise.loops import assignment
from bagwise.metric_learning import MIMLCA, MultiInstancePLDA

from .harness import Fact, Row, race, race_iterations, seconds

PHOTOS_WITH_FACES = (12562, 5109, 1675, 480, 146, 61, 17, 8, 6, 0, 1, 3, 1, 1, 1)
PHOTOS_WITH_NAMES = (0, 12225, 6247, 1325, 216, 46, 8, 3, 0, 1)


def rows():
    yield from yahoo_news(float(os.environ.get("BAGWISE_BENCH_SHARE", "0.5")))
    yield from corel()


def yahoo_news(share):
    """Photos and names of the paper's size: 28,000 faces of 4,992 features, 5,873 names."""
    bags, label_sets = draw(
        n_bags=int(18064 * share),
        n_features=int(4992 * share),
        n_labels=int(5873 * share),
        sizes=np.repeat(np.arange(1, 16), PHOTOS_WITH_FACES),
        n_names=np.repeat(np.arange(10), PHOTOS_WITH_NAMES),
    )
    X = np.asarray(bags.instances)
    shape = f"{X.shape[0]:,} x {X.shape[1]:,}, k = {label_sets.shape[1]:,}, float32"
    model = MIMLCA()
    other = X.copy()  # numpy would notice X'X, and do half the work
    fit, product = race(lambda: model.fit(bags, label_sets), lambda: X.T @ other, rounds=3)
    yield Row(f"MIMLCA, Labeled-Yahoo-News ({shape})", fit, "X'X as a GEMM", product, "<= 2.5")
    extra = peak_bytes(lambda: model.fit(bags, label_sets)) / X.nbytes
    yield Fact("its memory, in tables of X, X itself included", f"{1 + extra:.2g}", "<= 3")
    yield from assignment_pass(bags, label_sets)
    yield from likelihood(bags, label_sets, shape)


def likelihood(bags, label_sets, shape):
    """Time of an iteration of MIMLCA by likelihood: half the cost of two more iterations."""
    model = MultiInstancePLDA(instances_per_label=1, null=True, tol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)

        def fit(max_iter):
            model.set_params(max_iter=max_iter).fit(bags, label_sets)

        X = np.asarray(bags.instances)
        other = X.copy()  # numpy would notice X'X, and do half the work
        one, product = race_iterations(fit, lambda: X.T @ other, few=1, many=3, rounds=3)
        extra = peak_bytes(lambda: model.set_params(max_iter=2).fit(bags, label_sets))
    yield Row(f"by likelihood, an iteration ({shape})", one, "X'X as a GEMM", product, "<= 4")
    memory = 1 + extra / X.nbytes
    yield Fact("its memory, in tables of X, X itself included", f"{memory:.2g}", "<= 3")


def corel():
    """Images split into regions as in the paper: 37,083 regions of 36 features, 20 keywords."""
    bags, label_sets = draw(
        n_bags=3947, n_features=36, n_labels=20, sizes=np.arange(8, 12), n_names=np.arange(1, 5)
    )
    model = MIMLCA().fit(bags, label_sets)
    best = min(seconds(lambda: model.fit(bags, label_sets)) for _ in range(5))
    yield Fact(
        f"MIMLCA, Corel shape ({bags.n_instances:,} x 36, k = 20)", f"{best:.3f} s", "<= 0.15 s"
    )


def assignment_pass(bags, label_sets):
    counts = label_sets.sum(axis=1)
    label_offsets = np.concatenate([[0], np.cumsum(counts)])
    starts = assignment.block_offsets(bags.offsets, label_offsets)
    costs = np.random.default_rng(0).random(starts[-1])

    def loop():
        for i, (n, k) in enumerate(zip(bags.sizes, counts, strict=True)):
            linear_sum_assignment(costs[starts[i] : starts[i + 1]].reshape(n, k))

    ours, other = race(
        lambda: assignment.assign(costs, bags.offsets, label_offsets), loop, rounds=5
    )
    yield Row(f"assignment of {len(bags):,} bags", ours, "a loop over SciPy's", other, "<= 0.2")


def draw(n_bags, n_features, n_labels, sizes, n_names):
    """Bags around the centres of labels of unequal frequency, in single precision."""
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.choice(sizes, n_bags))])
    X = rng.standard_normal((offsets[-1], n_features), dtype=np.float32)
    centres = rng.standard_normal((n_labels, n_features), dtype=np.float32)
    fame = 1 / np.arange(1, n_labels + 1)
    fame = np.cumsum(fame / fame.sum())
    label_sets = np.zeros((n_bags, n_labels), dtype=np.int8)
    for i, n in enumerate(rng.choice(n_names, n_bags)):
        names = np.unique(np.minimum(np.searchsorted(fame, rng.random(n)), n_labels - 1))
        label_sets[i, names] = 1
        rows = rng.permutation(np.arange(offsets[i], offsets[i + 1]))[: len(names)]
        X[rows] += centres[names[: len(rows)]]
    return Bags(X, offsets), label_sets


def peak_bytes(run):
    """Increase of the resident memory during `run`."""
    base = resident()
    peak, done = base, threading.Event()

    def watch():
        nonlocal peak
        while not done.is_set():
            peak = max(peak, resident())
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    run()
    done.set()
    watcher.join()
    return peak - base


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
