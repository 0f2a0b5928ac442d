"""cleanlab: wrong labels of bags, from held-out probabilities."""

import numpy as np
import pytest
from sklearn.model_selection import cross_val_predict

from bagwise.annotation import NoisyOrLogisticRegression
from partner_data import drawn

filter_ = pytest.importorskip("cleanlab.filter")


def test_flipped_labels_are_found():
    bags, y = drawn(120)
    flipped = np.random.default_rng(1).choice(len(y), 6, replace=False)
    wrong = y.copy()
    wrong[flipped] = 1 - y[flipped]
    shares = cross_val_predict(
        NoisyOrLogisticRegression(), bags, wrong, cv=5, method="predict_proba"
    )
    found = np.flatnonzero(filter_.find_label_issues(wrong, shares, n_jobs=1))
    assert len(np.intersect1d(found, flipped)) >= 3
    assert len(found) <= 30
