"""Accuracy of bag classifiers with the defaults of bagwise 0.1 and with the current ones.

`python -m benchmarks.defaults` prints a table: 5-fold cross-validation, two seeds, instances
standardised inside the folds. The sets are those on which the defaults were chosen, so the gains
are optimistic.
"""

import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import StandardScaler

from bagwise.classification import (
    BagMarginSVM,
    BalancedSparseMIL,
    InstanceMarginSVM,
    SetKernelSVM,
    SparseMIL,
    WellMISVM,
)
from bagwise.datasets import load_dataset, make_bags, make_digit_bags
from bagwise.exceptions import DataNotFoundError
from bagwise.pairwise import kernel_width
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline
from bagwise.preprocessing._bag_pipeline import prepared
from reproduction.sources import make_rings

OLD = {"kernel": "linear", "threshold": "zero"}
OLD_SPARSE = OLD | {"negative_weight": 1.0}


class InstanceWidth(SetKernelSVM):
    """The minimax kernel of bagwise 0.1, whose width is that of an instance kernel."""

    def _width(self, bags):
        return kernel_width(self.gamma, bags)


# method: before, after
METHODS = {
    "NSK": (SetKernelSVM(C=1.0), SetKernelSVM()),
    "minimax": (InstanceWidth(C=1.0, bag_kernel="minimax"), SetKernelSVM(bag_kernel="minimax")),
    "MI-SVM": (BagMarginSVM(**OLD), BagMarginSVM()),
    "mi-SVM": (InstanceMarginSVM(**OLD), InstanceMarginSVM()),
    "sMIL": (SparseMIL(**OLD_SPARSE), SparseMIL()),
    "WellSVM": (WellMISVM(kernel="linear"), WellMISVM()),
    "sbMIL": (BalancedSparseMIL(**OLD_SPARSE, eta=0.1), BalancedSparseMIL()),
}


def data_sets():
    """Name, bags and labels of each set."""
    for name in ("musk1", "elephant"):
        try:
            data = load_dataset(name)
        except DataNotFoundError:
            continue
        yield name, data.bags, data.y
    drawn = {"separation": 3.0, "noise": 2.0, "bag_size": (3, 8)}
    data = make_bags(120, 10, **drawn, random_state=0)
    yield "clusters", data.bags, data.y
    data = make_bags(160, 10, **drawn, random_state=1)
    few = np.flatnonzero((data.y == 0) | (np.cumsum(data.y == 1) <= 30))  # 80 and 30 bags
    yield "uneven", data.bags[few], data.y[few]
    data = make_rings(100, bag_size=(2, 6), random_state=0)
    yield "ring", data.bags, data.y
    data = make_digit_bags(120, random_state=0)
    yield "digits", data.bags, data.y


def before_and_after(models, bags, y):
    """Mean accuracies in five folds, drawn twice; the new models clip values at 10 deviations."""
    old, new = models
    pipelines = make_bag_pipeline(InstanceTransformer(StandardScaler()), old), prepared(new)
    folds = [StratifiedKFold(5, shuffle=True, random_state=seed) for seed in (0, 1)]
    return [
        np.mean([cross_val_score(model, bags, y, cv=cv) for cv in folds]) for model in pipelines
    ]


def main():
    sets = list(data_sets())
    print("".join([f"{'':10}", *(f"{name:>15}" for name, _, _ in sets), f"{'mean':>15}"]))
    for method, models in METHODS.items():
        pairs = [before_and_after(models, bags, y) for _, bags, y in sets]
        pairs.append(np.mean(pairs, axis=0))
        cells = [f"{f'{before:.3f} -> {after:.3f}':>15}" for before, after in pairs]
        print("".join([f"{method:10}", *cells]), flush=True)


if __name__ == "__main__":
    main()
