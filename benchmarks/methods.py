"""Growth of every public bag method with the bags, its memory, and methods against their floor.

CPU seconds; bags of 5 to 10 instances of 20 features. Iterations are fixed where they would differ
between sizes. Kernel methods are measured where their switch to landmarks says, and compared by all
pairs below it: MI-SVM and its relatives switch at 3,000 instances, WellMISVM at 7,000, MILES at
3,000,000 similarities, NSK at 10,000 bags.
"""

import time
import tracemalloc
import warnings

import numpy as np
from scipy.special import softmax
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from bagwise.annotation import (
    M3MIML,
    NoisyOrLogisticRegression,
    ORedLogisticRegression,
    RankLossSIM,
)
from bagwise.classification import (
    EMDD,
    MILES,
    BagMarginSVM,
    BalancedSparseMIL,
    CitationKNN,
    ClassToBag,
    ConceptCountsClassifier,
    DiverseDensity,
    InstanceMarginSVM,
    MILBoost,
    OrdinalBagClassifier,
    PrimalDualMISVM,
    SetKernelSVM,
    SingleInstanceClassifier,
    SparseMIL,
    WellMISVM,
)
from bagwise.datasets import load_musk1, make_bags
from bagwise.embedding import (
    BagDissimilarity,
    BagStatistics,
    FisherVector,
    InstanceSimilarity,
    RandomFourierEmbedding,
)
from bagwise.metric_learning import MIMLCA, MildML, MultiInstancePLDA
from bagwise.regression import CensoredBagRegressor, SetKernelRegressor
from bagwise.solvers.annotation.orlr_parts import BagLabelSets, infer

from . import csp, wellsvm
from .harness import Fact, Row, growth

SMALL, MIDDLE, LARGE = (125, 250, 500), (250, 500, 1_000), (1_000, 2_000, 4_000)
PAIRS, LINEAR = 2.2, 1.15  # bounds of the exponent
# The model, what it learns from, the numbers of bags, the bound, and the goal of its memory.
METHODS = {
    "pdMISVM": (PrimalDualMISVM(max_iter=20, tol=0.0, random_state=0), "y", LARGE, LINEAR, ""),
    "SIL": (SingleInstanceClassifier(), "y", MIDDLE, LINEAR, ""),
    "MI-SVM, linear": (
        BagMarginSVM(kernel="linear", threshold="zero", max_iter=5),
        "y",
        LARGE,
        LINEAR,
        "<= 5",
    ),
    "MI-SVM, 300 landmarks": (
        BagMarginSVM(threshold="zero", max_iter=5),
        "y",
        LARGE,
        1.2,
        "",
    ),
    "mi-SVM, kernel matrix": (
        InstanceMarginSVM(threshold="zero", max_iter=5),
        "y",
        SMALL,
        PAIRS,
        "",
    ),
    "sMIL, linear": (SparseMIL(kernel="linear"), "y", MIDDLE, LINEAR, ""),
    "sbMIL, linear": (BalancedSparseMIL(kernel="linear"), "y", MIDDLE, LINEAR, ""),
    "MILBoost, 20 rounds": (MILBoost(n_estimators=20, tol=0.0), "y", LARGE, LINEAR, "<= 3"),
    "NSK, all pairs": (SetKernelSVM(), "y", MIDDLE, PAIRS, ""),
    "NSK, 300 landmarks": (SetKernelSVM(n_landmarks=300), "y", MIDDLE, LINEAR, ""),
    "Citation-kNN, all pairs": (CitationKNN(), "y", MIDDLE, PAIRS, ""),
    "MILES, 500 prototypes": (MILES(), "y", LARGE, 1.2, "<= 10"),
    "WellMISVM, 500 landmarks": (WellMISVM(max_cuts=2), "y", LARGE, 1.2, "<= 20"),
    "WellMISVM, linear": (WellMISVM(kernel="linear", max_cuts=2), "y", MIDDLE, LINEAR, ""),
    "M-C2B": (ClassToBag(max_iter=5, random_state=0), "y", MIDDLE, LINEAR, ""),
    "concepts": (
        ConceptCountsClassifier(concepts=(1,), dependence=1.0, C=1.0, random_state=0),
        "y",
        SMALL,
        LINEAR,
        "",
    ),
    "DD, starts in two bags": (DiverseDensity(max_iter=2, n_start_bags=2), "y", MIDDLE, LINEAR, ""),
    "EM-DD, starts in two bags": (
        EMDD(max_iter=2, max_rounds=2, n_start_bags=2),
        "y",
        MIDDLE,
        LINEAR,
        "",
    ),
    "grades, all pairs": (OrdinalBagClassifier(), "grade", MIDDLE, PAIRS, ""),
    "regression, all pairs": (SetKernelRegressor(), "number", MIDDLE, PAIRS, ""),
    "bounds of numbers, all pairs": (
        CensoredBagRegressor(max_iter=20),
        "number",
        MIDDLE,
        PAIRS,
        "",
    ),
    "ORLR": (ORedLogisticRegression(max_iter=20, tol=1e-12), "sets", LARGE, LINEAR, ""),
    "noisy-or": (NoisyOrLogisticRegression(max_iter=20, tol=1e-12), "sets", MIDDLE, LINEAR, ""),
    "SIM": (RankLossSIM(max_iter=2), "sets", MIDDLE, LINEAR, ""),
    "M3MIML": (M3MIML(tol=0.1), "sets", SMALL, PAIRS, ""),
    "MIMLCA": (MIMLCA(max_iter=3), "sets", MIDDLE, LINEAR, ""),
    "MildML": (MildML(max_iter=2, n_pairs=200, random_state=0), "sets", MIDDLE, LINEAR, ""),
    "PLDA": (MultiInstancePLDA(max_iter=3), "sets", MIDDLE, LINEAR, ""),
    "BagStatistics": (BagStatistics(), "transform", MIDDLE, LINEAR, ""),
    "FisherVector": (FisherVector(random_state=0), "transform", MIDDLE, LINEAR, ""),
    "Fourier": (RandomFourierEmbedding(random_state=0), "transform", MIDDLE, LINEAR, ""),
    "MInD, all pairs": (BagDissimilarity(), "transform", MIDDLE, PAIRS, ""),
    "similarities, all pairs": (InstanceSimilarity(), "transform", MIDDLE, PAIRS, ""),
}


def cpu(run, rounds=2):
    """The least CPU seconds of some calls."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def trained(model, kind, n):
    """A function that fits a copy of the model on n bags, and the size of their instances."""
    data = make_bags(n, 20, separation=3.0, bag_size=(5, 10), random_state=0)
    y, rng = np.asarray(data.y), np.random.default_rng(0)
    other = rng.integers(0, 2, n)
    target = {
        "y": y,
        "grade": y + other,
        "number": y + rng.normal(size=n),
        "sets": np.column_stack([y, 1 - y, other]),
        "transform": None,
    }[kind]

    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind == "transform":
                clone(model).fit_transform(data.bags)
            else:
                clone(model).fit(data.bags, target)

    return run, data.bags.instances.nbytes


def sizes():
    """How the fit of each public bag method grows, and its memory at the largest size."""
    for name, (model, kind, counts, bound, most) in METHODS.items():
        trained(model, kind, counts[0])[0]()  # compiles
        times = [cpu(trained(model, kind, n)[0], 1 + (n < 1_000)) for n in counts]
        run, n_bytes = trained(model, kind, counts[-1])
        tracemalloc.start()
        run()
        peak = tracemalloc.get_traced_memory()[1] / n_bytes
        tracemalloc.stop()
        at = f"{counts[0]:,} to {counts[-1]:,} bags"
        yield Fact(
            f"{name}: exponent, {at} ({times[-1]:.3g} s)",
            f"{growth(counts, times):.2f}",
            f"<= {bound}",
        )
        yield Fact(f"{name}: memory against the data, {counts[-1]:,} bags", f"{peak:.1f} x", most)


def scored():
    """Scores of 1,000 bags: NSK and Citation-kNN against a loop over blocks, Fourier features."""
    data = make_bags(1_000, 20, separation=3.0, bag_size=(5, 10), random_state=0)
    bags, y = data.bags, np.asarray(data.y)
    nsk, cknn = SetKernelSVM().fit(bags, y), CitationKNN().fit(bags, y)
    own = np.sqrt([np.exp(-nsk.gamma_ * squares(bag, bag)).sum() for bag in bags])
    support = np.sqrt([np.exp(-nsk.gamma_ * squares(bag, bag)).sum() for bag in nsk.support_bags_])

    def by_blocks():
        totals = pooled(bags, nsk.support_bags_, lambda d: np.exp(-nsk.gamma_ * d), np.add)
        return totals / own[:, None] / support @ nsk.dual_coef_.T

    def nearest():
        found = np.sqrt(pooled(bags, bags, lambda d: d, np.minimum))
        near = found <= np.partition(found, cknn.n_references - 1)[:, [cknn.n_references - 1]]
        return (near.astype(float) + (found <= cknn.citation_radius_)) @ cknn.label_sets_

    for name, ours, other in (
        ("NSK", lambda: nsk.decision_function(bags), by_blocks),
        ("Citation-kNN", lambda: cknn.predict(bags), nearest),
    ):
        ours(), other()
        yield Row(f"{name}: 1,000 bags scored", cpu(ours, 5), "NumPy", cpu(other, 5), "<= 1.1")
    embedding = RandomFourierEmbedding(random_state=0).fit(bags)
    X, W = np.asarray(bags.instances), embedding.frequencies_
    embedding.transform(bags)
    ours, other = cpu(lambda: embedding.transform(bags), 5), cpu(lambda: X @ W, 5)
    yield Row("random Fourier features of 1,000 bags", ours, "X @ W", other, "<= 30")


def squares(X, Y):
    """Squared distances of rows."""
    product = X @ Y.T
    product *= -2
    product += (X**2).sum(axis=1)[:, None]
    product += (Y**2).sum(axis=1)
    return np.maximum(product, 0, out=product)


def pooled(A, B, function, gather, n_bags=64):
    """A function of squared distances, reduced over the instances of both bags, in blocks."""
    blocks = []
    for start in range(0, len(A), n_bags):
        some = A[start : start + n_bags]
        values = gather.reduceat(function(squares(some.instances, B.instances)), B.offsets[:-1], 1)
        blocks.append(gather.reduceat(values, some.offsets[:-1], 0))
    return np.concatenate(blocks)


def clusters():
    """CSP with its default constraints against its graph of nearest neighbours."""
    for n, goal in ((5_000, "<= 3"), (20_000, "<= 2")):
        bags, label_sets, _ = csp.drawn(n)
        X = np.asarray(bags.instances)
        csp.cluster(bags[:200], label_sets[:200], affinity="nearest_neighbors")
        ours = cpu(lambda: csp.cluster(bags, label_sets, affinity="nearest_neighbors"), 1)  # noqa: B023
        graph = cpu(lambda: NearestNeighbors(n_neighbors=10).fit(X).kneighbors(), 3)  # noqa: B023
        yield Row(f"CSP, {n:,} instances", ours, "the neighbour graph", graph, goal)


def cuts():
    """WellSVM on rows that need several label vectors, against LIBLINEAR."""
    for n in (10_000, 40_000):
        ratios = []
        for seed in range(3):
            data = wellsvm.concept_rows(n, random_state=seed)
            y = wellsvm.hidden(data.y, 200)
            wellsvm.well(data.X, y)
            ours, other = cpu(lambda: wellsvm.well(data.X, y)), cpu(lambda: wellsvm.svm(data))  # noqa: B023
            ratios.append(ours / other)
        yield Fact(
            f"WellSVM, {n:,} rows, several label vectors, against LIBLINEAR",
            f"{np.median(ratios):.1f} x",
            "<= 6",
        )


def expectations(n_bags=2_000, n_instances=10, n_labels=8):
    """The E-step of ORLR against a softmax of the same scores."""
    scores = np.random.default_rng(0).normal(size=(n_bags * n_instances, n_labels))
    sets = np.zeros((n_bags, n_labels), np.int8)
    sets[:, :4] = 1
    offsets = np.arange(n_bags + 1) * n_instances
    bags = BagLabelSets(offsets, sets, background=False, max_operations=np.inf)

    def ours():
        return infer(bags, slice(0, n_bags), scores)

    ours()
    other = cpu(lambda: softmax(scores, axis=1), 7)
    yield Row("ORLR: E-step, sets of 4 of 8 labels", cpu(ours, 7), "softmax", other, "<= 8")


class WithLandmarks(WellMISVM):
    """WellMISVM with the features that it uses beyond 7,000 instances."""

    largest_gram = 100


def accuracies():
    """What the switches cost: AUC and accuracy on both sides, five folds, two shuffles."""
    drawn = make_bags(400, 20, separation=3.0, bag_size=(5, 10), random_state=0)
    for name, data in (("Musk1", load_musk1()), ("400 drawn bags", drawn)):
        table = StandardScaler().fit_transform(np.asarray(data.bags.instances, float))
        bags, y = data.bags.with_instances(table), np.asarray(data.y)
        for what, model in (
            ("MILES, all instances", MILES(n_prototypes=None)),
            ("MILES, 500 prototypes", MILES(n_prototypes=500)),
            ("WellMISVM, its kernel", WellMISVM()),
            ("WellMISVM, 500 landmarks", WithLandmarks()),
        ):
            found = []
            for seed in range(2):
                folds = StratifiedKFold(5, shuffle=True, random_state=seed)
                for train, test in folds.split(y, y):
                    model.fit(bags[train], y[train])
                    scores = model.decision_function(bags[test])
                    right = np.mean(model.predict(bags[test]) == y[test])
                    found.append((roc_auc_score(y[test], scores), right))
            auc, accuracy = np.mean(found, axis=0)
            yield Fact(f"{what}: {name}, AUC (accuracy)", f"{auc:.3f} ({accuracy:.3f})", "")


def rows():
    for part in (scored, expectations, cuts, clusters, sizes, accuracies):
        yield from part()
