"""WellSVM against one LIBLINEAR fit of the same, fully labelled matrix; growth in rows; memory.

Texts of two topics (`make_text_rows`) are easy: one label vector is enough. Rows whose classes are
a random linear concept (`concept_rows`) need several.

``BAGWISE_BENCH_SHARE=0.1`` takes a tenth of the rows (RCV1 needs about 2 GB).
"""

import os
import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC
from sklearn.utils import Bunch

from bagwise.semi_supervised import WellSVMClassifier
from reproduction.sources import make_text_rows

from .harness import Fact, Row, growth, seconds

SHAPES = {
    "real-sim shape": ({"n_rows": 72_309, "n_features": 20_958, "words": 54}, "<= 5"),
    "RCV1 shape": ({"n_rows": 677_399, "n_features": 47_236, "words": 84}, "<= 4"),
}


def rows():
    share = float(os.environ.get("BAGWISE_BENCH_SHARE", "1"))
    small = make_text_rows(400, 100, words=10, random_state=0)
    well(small.X, hidden(small.y))  # compiles
    for name, (options, goal) in SHAPES.items():
        n_rows = int(options["n_rows"] * share)
        data = make_text_rows(**options | {"n_rows": n_rows}, random_state=0)
        y = hidden(data.y)
        times = [(seconds(lambda: well(data.X, y)), seconds(lambda: svm(data))) for _ in range(3)]  # noqa: B023
        ours, other = np.min(times, axis=0)
        shape = f"{n_rows:,} x {options['n_features']:,}, {data.X.nnz / n_rows:.0f} non-zeros a row"
        what = f"WellSVM, 50 labels, {name} ({shape})"
        yield Row(what, ours, "LinearSVC(loss='hinge'), all labelled", other, goal)
        model = well(data.X, y)
        few = LinearSVC(loss="hinge").fit(data.X[y >= 0], data.y[y >= 0])
        accuracies = f"{model.score(data.X, data.y):.3f}, {few.score(data.X, data.y):.3f}"
        yield Fact("its label vectors", str(model.n_iter_), "")
        yield Fact("its accuracy, and of an SVM on the 50 labels", accuracies, "")
    yield from several_label_vectors(share)
    ours, other, product = exponents(share)
    what = "WellSVM, growth in rows (real-sim shape); of LinearSVC; of one product X v"
    yield Fact(what, f"{ours:.2f}; {other:.2f}; {product:.2f}", "<= 1.15")
    yield Fact("peak memory of the process", f"{peak():.2g} GB", "<= 4 GB")


def several_label_vectors(share):
    """Four samples, with the default and four times the weight of unlabelled rows (C2 = .02)."""
    for options in ({}, {"C2": 0.02}):
        ratios, cuts, accuracies = [], [], []
        for seed in range(4):
            data = concept_rows(int(40_000 * share), random_state=seed)
            y = hidden(data.y, 200)
            runs = (lambda: well(data.X, y, **options), lambda: svm(data))  # noqa: B023
            ours, other = np.min([[seconds(run) for run in runs] for _ in range(3)], axis=0)
            model = well(data.X, y, **options)
            ratios.append(ours / other)
            cuts.append(model.n_iter_)
            few = LinearSVC(loss="hinge").fit(data.X[y >= 0], data.y[y >= 0])
            accuracies.append([each.score(data.X, data.y) for each in (model, few)])
        each = np.divide(ratios, cuts)
        setting = "C2 = 0.02" if options else "default"
        what = f"WellSVM, 200 labels, 40,000 rows of a linear concept, {setting}"
        yield Fact(f"{what}: ratio to LinearSVC, four draws", _row(ratios, ".2f"), "<= 10")
        yield Fact("its label vectors", _row(cuts, "d"), "")
        yield Fact("ratio per label vector", _row(each, ".2f"), "<= 3")
        accuracies = "; ".join(_row(a, ".3f") for a in np.transpose(accuracies))
        yield Fact("its accuracies; of an SVM on the 200 labels", accuracies, "")


def _row(values, kind):
    return ", ".join(format(value, kind) for value in values)


def concept_rows(n_rows=40_000, n_features=20_000, words=50, random_state=None):
    """Unit-length counts of words drawn by Zipf's law; a random hyperplane defines the classes."""
    rng = np.random.default_rng(random_state)
    frequency = 1.0 / (np.arange(n_features) + 1.0)
    ends = np.cumsum(frequency) / frequency.sum()
    columns = np.searchsorted(ends, rng.random((n_rows, words))).clip(max=n_features - 1)
    starts = np.arange(0, n_rows * words + 1, words, dtype=np.int32)
    X = sparse.csr_array(
        (np.ones(columns.size), columns.ravel().astype(np.int32), starts),
        shape=(n_rows, n_features),
    )
    X.sum_duplicates()
    X = normalize(X)
    scores = X @ rng.normal(size=n_features)
    return Bunch(X=X, y=(scores > np.median(scores)).astype(int))


def hidden(y, n_shown=50):
    """Hide all labels but a few random ones."""
    shown = np.random.default_rng(1).permutation(len(y))[:n_shown]
    return np.where(np.isin(np.arange(len(y)), shown), y, -1)


def well(X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return WellSVMClassifier(**options).fit(X, y)


def svm(data):
    LinearSVC(loss="hinge", fit_intercept=False, C=1, tol=1e-3, max_iter=10_000).fit(data.X, data.y)


def exponents(share):
    """Growth exponents of WellSVM, LinearSVC and a product X @ v, which shows effects of caches."""
    sizes, times = [int(n * share) for n in (10_000, 20_000, 40_000, 72_309)], []
    for n in sizes:
        data = make_text_rows(n, random_state=0)
        y, v = hidden(data.y), np.ones(data.X.shape[1])
        runs = (lambda: well(data.X, y), lambda: svm(data), lambda: data.X @ v)  # noqa: B023
        times.append([min(seconds(run) for _ in range(5)) for run in runs])
    return [growth(sizes, column) for column in zip(*times, strict=True)]


def peak():
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
