"""Alternatives to WellSVM on sparse rows: growth, and ratios to one LIBLINEAR fit."""

from functools import partial

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from reproduction.rivals import AnnealedSVM, CuttingPlaneMMC

from .harness import Fact, Row, growth, seconds

SIZES = (9_000, 18_000, 36_000, 72_309)  # the last is real-sim's
N_FEATURES, PER_ROW, N_LABELLED = 20_958, 51, 50


def sparse_rows(n_rows, seed=0):
    """Texts of two topics, words drawn by Zipf's law, rows of length 1: the shape of real-sim."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    words = np.arange(N_FEATURES)
    chance = 1 / (10.0 + words)
    tilt = rng.permutation(np.where(words % 4 < 2, 1.0, np.where(words % 4 == 2, 1.5, 1 / 1.5)))
    rows = np.empty((n_rows, PER_ROW), dtype=np.int32)
    for label, weights in ((0, chance * tilt), (1, chance / tilt)):
        chosen = np.flatnonzero(y == label)
        cumulated = np.cumsum(weights) / weights.sum()
        rows[chosen] = np.searchsorted(cumulated, rng.random((len(chosen), PER_ROW)))
    values = np.full(rows.size, 1.0)
    offsets = np.arange(0, rows.size + 1, PER_ROW, dtype=np.int32)
    X = sparse.csr_array((values, rows.ravel(), offsets), shape=(n_rows, N_FEATURES))
    X.sum_duplicates()
    return normalize(X), y


def rows():
    times, machines = [], []
    for n_rows in SIZES:
        X, y = sparse_rows(n_rows)
        partly = np.full(n_rows, -1)
        partly[:N_LABELLED] = y[:N_LABELLED]
        model = AnnealedSVM()
        times.append(min(seconds(partial(model.fit, X, partly)) for _ in range(2)))
        clusters = CuttingPlaneMMC(C=100 / n_rows, random_state=0)  # the largest C of the paper
        machines.append(seconds(partial(clusters.fit, X)))
    svm = LinearSVC(loss="hinge", fit_intercept=False, C=1, tol=1e-3)
    full = min(seconds(partial(svm.fit, X, y)) for _ in range(2))
    few = LinearSVC().fit(X[:N_LABELLED], y[:N_LABELLED])
    what = f"AnnealedSVM, {SIZES[-1]} sparse rows, {N_LABELLED} labels"
    yield Row(what, times[-1], "LinearSVC, all labels", full, "")
    right = f"{model.score(X, y):.3f}, {few.score(X, y):.3f}"
    yield Fact("its accuracy, and that of LinearSVC on the labelled rows", right, "")
    yield Fact("AnnealedSVM: growth in rows, exponent", f"{growth(SIZES, times):.2f}", "<= 1.15")
    what = f"CuttingPlaneMMC, {SIZES[-1]} sparse rows"
    yield Row(what, machines[-1], "LinearSVC, all labels", full, "")
    yield Fact("CuttingPlaneMMC: growth in rows, exponent", f"{growth(SIZES, machines):.2f}", "")
