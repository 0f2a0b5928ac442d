"""MAPIE: prediction sets for a classifier of bags."""

import pytest
from sklearn.calibration import CalibratedClassifierCV

from bagwise.classification import SetKernelSVM
from partner_data import drawn

mapie = pytest.importorskip("mapie.classification")


def test_sets_of_new_bags_contain_the_class():
    bags, y = drawn(160)
    model = mapie.SplitConformalClassifier(
        CalibratedClassifierCV(SetKernelSVM(C=10.0), cv=3), confidence_level=0.8, prefit=False
    )
    model.fit(bags[:60], y[:60]).conformalize(bags[60:100], y[60:100])
    _, sets = model.predict_set(bags[100:])
    assert sets.shape == (60, 2, 1)
    # 80 % +- three standard errors of 60 new and 40 calibration bags.
    assert sets[range(60), y[100:], 0].mean() > 0.8 - 3 * (0.16 / 60 + 0.16 / 40) ** 0.5
