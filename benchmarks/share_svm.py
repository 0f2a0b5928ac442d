"""WellSVM with the shares of bags as a constraint: `python -m benchmarks.share_svm`.

Proportion-SVM, by WellSVM's label generation: a label vector is admissible if each bag has its
share of positive rows. The first one has the rows of each bag in the order of a ridge regression of
the shares on the means of the bags. Printed is the AUC on rows that are in no bag, for draws of the
cells of `python -m reproduction observations` (Adult and MAGIC), beside `ORedLogisticRegression`
with the same shares. Features are those of a Gaussian kernel (Nystroem); C, or the penalty, is
chosen on a quarter of the bags that is held out: by the error of their shares, or by likelihood.
"""

import argparse
import time
from dataclasses import dataclass

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from bagwise import loops
from bagwise.annotation import ORedLogisticRegression
from bagwise.bags import Bags
from bagwise.labels import LabelCounts
from bagwise.solvers.wellsvm.well_svm import canonical_order, split, well_svm
from reproduction.sources import make_share_bags

CELLS = {"low": (0.0, 0.5), "high": (0.5, 1.0)}
COSTS = (300.0, 3000.0, 30000.0)  # sum of C over the rows
PENALTIES = (0.03, 0.3, 3.0)  # as in the protocol `learn_shares`
MAX_CUTS = 10


@dataclass
class Shares:
    """Label vectors with a given number of -1 in each bag."""

    offsets: np.ndarray
    n_negative: np.ndarray

    def choose(self, scores, alpha, tie):
        """Label the lowest scores of each bag negative."""
        r, ends = alpha * scores, zip(self.offsets[:-1], self.offsets[1:], strict=True)
        parts = [
            split(r[a:b], tie[a:b], n) for (a, b), n in zip(ends, self.n_negative, strict=True)
        ]
        return np.arange(len(r)), np.concatenate(parts)


def well_svm_of(bags, shares, cost):
    """The weights of the features, the constant last."""
    rows = loops.dual_descent.with_constant(loops.dual_descent.rows_of(bags.instances), 1.0)
    labels = Shares(bags.offsets, np.rint(bags.sizes * (1 - shares)).astype(int))
    means = np.add.reduceat(bags.instances, bags.offsets[:-1]) / bags.sizes[:, None]
    scores = bags.instances @ Ridge(0.1).fit(means, shares).coef_
    n = bags.n_instances
    first, order = labels.choose(scores, np.ones(n), scores), canonical_order(rows, np.zeros(n))
    how = {"order": order, "tol": 1e-2, "max_cuts": MAX_CUTS}
    return well_svm(rows, labels, np.full(n, cost / n), first, **how).solution.f


def by_well_svm(bags, shares, held_out, truth, new):
    def error(cost):
        weights = well_svm_of(bags, shares, cost)
        said = held_out.instances @ weights[:-1] + weights[-1] > 0
        found = np.add.reduceat(said, held_out.offsets[:-1]) / held_out.sizes
        return np.abs(found - truth).mean()

    best = min(COSTS, key=error)
    return best, new @ well_svm_of(bags, shares, best)[:-1]


def by_likelihood(bags, shares, held_out, truth, new):
    known, other = (LabelCounts.from_shares(np.column_stack([1 - s, s])) for s in (shares, truth))
    models = [ORedLogisticRegression(reg=reg).fit(bags, known) for reg in PENALTIES]
    best = int(np.argmax([model.score(held_out, other) for model in models]))
    singles = Bags(new, np.arange(len(new) + 1))
    return PENALTIES[best], models[best].predict_proba_instances(singles)[:, 1]


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.share_svm", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 128])
    parser.add_argument("--draws", type=int, default=1)
    options = parser.parse_args()
    print("| rows | bags of | draw | WellSVM with shares (C; s) | likelihood (penalty; s) |")
    print("|---|---:|---:|---:|---:|")
    cases = [(n, c, s, d) for n in ("adult", "magic") for c in CELLS
             for s in options.sizes for d in range(options.draws)]  # fmt: skip
    for name, cell, size, draw in cases:
        low, high = CELLS[cell]
        data = make_share_bags(name, size, low, high, random_state=draw)
        scaler = StandardScaler().fit(data.bags.instances)
        rows = scaler.transform(data.bags.instances)
        kernel = Nystroem(gamma=0.5 / rows.shape[1], n_components=300, random_state=0).fit(rows)
        bags = data.bags.with_instances(kernel.transform(rows))
        new = kernel.transform(scaler.transform(data.X_test))
        out = np.arange(len(bags)) % 4 == 0
        cells = []
        for method in (by_well_svm, by_likelihood):
            start = time.process_time()
            given = bags[~out], data.shares[~out], bags[out], data.shares[out]
            chosen, scores = method(*given, new)
            seconds = time.process_time() - start
            cells.append(f"{roc_auc_score(data.y_test, scores):.3f} ({chosen:g}; {seconds:.0f})")
        print(f"| {name}, {cell} | {size} | {draw} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
