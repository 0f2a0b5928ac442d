"""An interrupted evaluation continues with the folds that are left, and gives the same scores."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from bagwise.classification import CitationKNN, SetKernelSVM
from bagwise.datasets import make_bags
from bagwise.evaluate import compare


class Interrupted(ClassifierMixin, BaseEstimator):
    """Nearest mean, interrupted like by Ctrl-C after some fits."""

    fits = 0
    last = 10**9

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, X, y):
        if Interrupted.fits >= Interrupted.last:
            raise KeyboardInterrupt
        Interrupted.fits += 1
        self.classes_ = np.unique(y)
        means = np.array([bag.mean(axis=0) for bag in X])
        self.means_ = np.array([means[y == label].mean(axis=0) for label in self.classes_])
        return self

    def decision_function(self, X):
        means = np.array([bag.mean(axis=0) for bag in X])
        near = ((means[:, None] - self.means_) ** 2).sum(axis=2)
        return near[:, 0] - near[:, 1] + self.shift

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


@pytest.fixture(autouse=True)
def counted():
    Interrupted.fits, Interrupted.last = 0, 10**9


def scores_of(comparison):
    return [(found.name, dict(found.scores)) for found in comparison]


@pytest.mark.parametrize("names", [["a", "b"], [0, 1]])
def test_finished_folds_are_not_fitted_again(tmp_path, names):
    data = make_bags(n_bags=30, random_state=0)
    y = np.array(names)[data.y]
    models = {"own": Interrupted(), "nsk": SetKernelSVM()}
    whole = compare(models, data.bags, y, cv=4)
    assert Interrupted.fits == 4
    Interrupted.fits, Interrupted.last = 0, 3
    with pytest.raises(KeyboardInterrupt):
        compare(models, data.bags, y, cv=4, resume=tmp_path)
    assert len(list(tmp_path.rglob("*.npz"))) == 6  # three folds of both
    Interrupted.last = 10**9
    steps = []
    with pytest.warns(UserWarning, match="6 of 8 fits are of an interrupted evaluation"):
        again = compare(
            models, data.bags, y, cv=4, resume=tmp_path, after_fold=lambda: steps.append(1)
        )
    assert (Interrupted.fits, len(steps)) == (4, 8)
    assert scores_of(again) == scores_of(whole)
    predictions = again.predictions(), whole.predictions()
    assert all(
        np.array_equal(predictions[0][name], predictions[1][name]) for name in predictions[0]
    )
    assert not list(tmp_path.rglob("*.npz"))


def test_other_data_models_and_folds_do_not_share_folds(tmp_path):
    data = make_bags(n_bags=30, random_state=0)
    Interrupted.last = 2
    with pytest.raises(KeyboardInterrupt):
        compare({"own": Interrupted()}, data.bags, data.y, cv=3, resume=tmp_path)
    Interrupted.last = 10**9
    other = make_bags(n_bags=30, random_state=1)
    flipped = np.where(np.arange(30) == 4, 1 - data.y, data.y)
    for models, bags, y, how in (
        ({"own": Interrupted(shift=1.0)}, data.bags, data.y, {}),
        ({"own": Interrupted(), "nsk": SetKernelSVM()}, data.bags, data.y, {}),
        ({"own": CitationKNN()}, data.bags, data.y, {}),
        ({"own": Interrupted()}, other.bags, data.y, {}),
        ({"own": Interrupted()}, data.bags, flipped, {}),
        ({"own": Interrupted()}, data.bags, data.y, {"random_state": 1}),
        ({"own": Interrupted()}, data.bags, data.y, {"scoring": "f1"}),
    ):
        compare(models, bags, y, cv=3, resume=tmp_path, **how)  # a warning would be an error


def test_a_damaged_file_or_folder_is_ignored(tmp_path):
    data = make_bags(n_bags=20, random_state=0)
    Interrupted.last = 1
    with pytest.raises(KeyboardInterrupt):
        compare({"own": Interrupted()}, data.bags, data.y, cv=2, resume=tmp_path)
    Interrupted.last = 10**9
    (path,) = tmp_path.rglob("*.npz")
    path.write_bytes(b"PK damaged")
    compare({"own": Interrupted()}, data.bags, data.y, cv=2, resume=tmp_path)
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    compare({"own": Interrupted()}, data.bags, data.y, cv=2, resume=blocked)
