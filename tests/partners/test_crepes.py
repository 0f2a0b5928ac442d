"""crepes: prediction sets with a coverage for each class."""

import numpy as np
import pytest

from bagwise.annotation import NoisyOrLogisticRegression
from partner_data import drawn

crepes = pytest.importorskip("crepes")


def test_sets_of_new_bags_contain_the_class():
    bags, y = drawn(160)
    model = crepes.WrapClassifier(NoisyOrLogisticRegression())
    model.fit(bags[:60], y[:60])
    model.calibrate(bags[60:100], y[60:100], class_cond=True)
    sets = model.predict_set(bags[100:], confidence=0.8)
    hits = [label in found for label, found in zip(y[100:], sets, strict=True)]
    assert np.mean(hits) > 0.8 - 3 * (0.16 / 60 + 0.16 / 40) ** 0.5
