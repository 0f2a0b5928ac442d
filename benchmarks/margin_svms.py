"""The classic multi-instance SVMs, against the same algorithms with a general QP solver."""

import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.preprocessing import StandardScaler

from bagwise.classification import BagMarginSVM
from bagwise.datasets import load_dataset
from bagwise.exceptions import DataNotFoundError

from .harness import Fact, Row, seconds

sys.path.append(str(Path(__file__).parent.parent / "tests" / "classification"))


def rows():
    from qp_oracle import bag_margin_by_qp

    try:
        data = load_dataset("elephant")
    except DataNotFoundError:
        return
    scaled = StandardScaler().fit_transform(np.asarray(data.bags.instances, dtype=float))
    bags = data.bags.with_instances(scaled)
    for C in (0.01, 1.0):
        model = BagMarginSVM(C=C, kernel="linear", threshold="zero").fit(bags, data.y)  # compiles
        ours = min(seconds(partial(model.fit, bags, data.y)) for _ in range(3))
        start = time.perf_counter()
        objective = bag_margin_by_qp(bags, data.y == 1, C)[2]
        other = time.perf_counter() - start
        yield Row(f"MI-SVM on Elephant, C = {C}", ours, "a QP per round", other, "<= 0.1")
        both = f"{model.objective_curve_[-1]:.5g}, {objective:.5g}"
        yield Fact("its objective, ours and by QP (clarabel)", both, "equal")
