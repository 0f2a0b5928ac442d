"""Other packages compared with bagwise, in the same folds: `python -m benchmarks.peers`.

Prints accuracy, AUC and CPU seconds of five folds, for models of bagwise, of scikit-learn alone,
and of those other packages that are installed (`pip install "sawmil[osqp]" mikit-learn torchmil`).
"""

import argparse
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from bagwise.auto._methods import find_method, make_model
from bagwise.base._selections import bag_scores, undecided_score
from bagwise.datasets import load_dataset
from bagwise.exceptions import DataNotFoundError
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline


class Peer:
    """A model of another package, which takes a list of standardised arrays and labels -1, 1."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, bags: list[Any], y: Any) -> "Peer":
        self.scaler = StandardScaler().fit(np.concatenate(bags))
        self.model.fit(self._scaled(bags), np.where(y == 1, 1.0, -1.0))
        return self

    def decision_function(self, bags: list[Any]) -> Any:
        return self.model.decision_function(self._scaled(bags))

    def _scaled(self, bags: list[Any]) -> list[Any]:
        return [self.scaler.transform(bag) for bag in bags]


def peers() -> dict[str, Callable[[], Any]]:
    """Models of sawmil (`pip install "sawmil[osqp]"`), if it is installed.

    C is the cost of a bag, as in bagwise. With the default, C divided by the number of bags, the
    models stay near chance on Musk1.
    """
    try:
        from sawmil import NSK, RBF, sMIL
    except ImportError:
        return {}
    kinds = {"sawmil NSK": NSK, "sawmil sMIL": sMIL}
    settings = {"solver": "osqp", "scale_C": False}
    return {
        name: lambda kind=kind: Peer(kind(kernel=RBF(), **settings)) for name, kind in kinds.items()
    }


class SawmilNSK(ClassifierMixin, BaseEstimator):
    """NSK of sawmil: `python -m benchmarks.leaderboard add benchmarks.peers:SawmilNSK`."""

    def fit(self, X: Any, y: Any) -> "SawmilNSK":
        from sawmil import NSK, RBF

        self.classes_ = np.unique(y)
        if len(self.classes_) != 2 or np.ndim(y) > 1:
            raise ValueError("NSK of sawmil learns from two classes.")
        model = NSK(kernel=RBF(), solver="osqp", scale_C=False)
        self.model_ = model.fit(list(X), np.where(y == self.classes_[1], 1.0, -1.0))
        return self

    def decision_function(self, X: Any) -> Any:
        return self.model_.decision_function(list(X))

    def predict(self, X: Any) -> Any:
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


class Network:
    """A network of mikit-learn, which takes a list of standardised arrays and labels 0, 1."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def fit(self, bags: list[Any], y: Any) -> "Network":
        self.scaler = StandardScaler().fit(np.concatenate(bags))
        self.network = self.make()
        self.network.fit(
            [self.scaler.transform(bag) for bag in bags], [float(label) for label in y]
        )
        return self

    def predict_proba(self, bags: list[Any]) -> Any:
        found = self.network.predict([self.scaler.transform(bag) for bag in bags])
        positive = np.ravel(found)
        return np.column_stack([1 - positive, positive])


def networks() -> dict[str, Callable[[], Any]]:
    """Attention networks of mikit-learn and torchmil, with their defaults, if installed."""
    found: dict[str, Callable[[], Any]] = {}
    with suppress(ImportError):
        from milearn.network.classifier import AdditiveAttentionNetworkClassifier

        found["mikit-learn attention"] = lambda: Network(AdditiveAttentionNetworkClassifier)
    with suppress(ImportError):
        from torchmil.models import ABMIL

        from bagwise.classification import TorchBagClassifier

        found["torchmil ABMIL, trained by bagwise"] = lambda: make_bag_pipeline(
            InstanceTransformer(StandardScaler()),
            TorchBagClassifier(
                lambda n_features, n_outputs: ABMIL((n_features,)),
                batch_dimension=True,
                random_state=0,
            ),
        )
    return found


class Means:
    """Three lines of scikit-learn: the mean of each bag, and trees."""

    def fit(self, bags: list[Any], y: Any) -> "Means":
        self.trees = ExtraTreesClassifier(300, random_state=0).fit(self._rows(bags), y)
        return self

    def predict_proba(self, bags: list[Any]) -> Any:
        return self.trees.predict_proba(self._rows(bags))

    def _rows(self, bags: list[Any]) -> Any:
        return np.array([bag.mean(axis=0) for bag in bags])


def compared() -> dict[str, Callable[[], Any]]:
    """The models, by name."""
    ours = {
        f"bagwise {name}": lambda name=name: make_model(
            find_method(name), {}, scale=True, sparse=False
        )
        for name in ("pooled-trees", "nsk", "smil", "auto")
    }
    return {"scikit-learn, trees on bag means": Means} | peers() | networks() | ours


def measured(make: Callable[[], Any], data: Any) -> tuple[float, float, float]:
    """Accuracy, AUC and CPU seconds of a model in five folds."""
    bags = [np.asarray(bag, dtype=float) for bag in data.bags]
    start, scores = time.process_time(), np.zeros(len(bags))
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(bags, data.y):
        model = clone(make(), safe=False).fit([bags[i] for i in train], data.y[train])
        found = bag_scores(model, [bags[i] for i in test]).reshape(len(test), -1)[:, -1]
        scores[test] = found - undecided_score(model, 1)
    seconds = time.process_time() - start
    return accuracy_score(data.y, scores > 0), roc_auc_score(data.y, scores), seconds


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["Musk1", "Elephant"])
    for name in parser.parse_args().sets:
        try:
            data = load_dataset(name.lower())
        except DataNotFoundError as error:
            print(f"{name}: {error}")
            continue
        print(f"| {name} | accuracy | AUC | CPU seconds |\n|---|---:|---:|---:|")
        for what, make in compared().items():
            accuracy, auc, seconds = measured(make, data)
            print(f"| {what} | {accuracy:.3f} | {auc:.3f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
