"""Protocols for what is known of a bag: counts, unknown labels, candidates and shares."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise.annotation import ORedLogisticRegression
from bagwise.bags import Bags
from bagwise.labels import LabelCounts
from reproduction._building import build_model, with_seed
from reproduction._units import Unit

__all__ = ["learn_candidates", "learn_shares", "observe"]

# Penalties and kernels that are compared by the likelihood of held-out bags.
GRID = [
    {"kernel": ["linear"], "reg": [1.0, 30.0]},
    {"kernel": ["rbf"], "reg": [0.03, 0.3, 3.0]},
]


def observe(unit: Unit) -> dict[str, Any]:
    """Learn from what a kind of annotator reports of the training bags; see `reported`.

    Instances without a label are one more class. ``inductive`` is the accuracy on instances of
    new bags, ``training`` that on instances of the training bags, given the report.
    """
    data = unit.load()
    truth = np.where(data.instance_labels < 0, len(data.classes), data.instance_labels)
    numbers = np.array(
        [np.bincount(of, minlength=truth.max() + 1) for of in data.bags.split(truth)]
    )
    folds = KFold(unit.settings["folds"], shuffle=True, random_state=unit.shared_seed)
    train, test = list(folds.split(numbers))[unit.fold or 0]
    rng = np.random.default_rng(unit.shared_seed)
    counts = reported(unit.method, numbers, rng)[train]
    old, new = _scaled(data.bags, train, test)
    model = with_seed(build_model(unit.settings["model"], {}), unit.seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "[0-9]+ of [0-9]+ bags")  # without any label
        model.fit(old, counts)
        named = model.annotate(old, counts)
    in_test = np.isin(data.bags.bag_index, test)
    return {
        "inductive": float((model.predict_instances(new) == truth[in_test]).mean()),
        "training": float((named == truth[~in_test]).mean()),
    }


def reported(kind: str, numbers: NDArray[Any], rng: np.random.Generator) -> Any:
    """What an annotator reports who could count the instances of each label.

    Parameters
    ----------
    kind : str
        "sets" (which labels are present), "capped" (one, two, three or more), "counts" (exactly),
        "unknown-30" (sets, but 30 % of the cells were not looked for), "absent-30" (these cells are
        taken for absent), "presences-30" (70 % of the labels that are present; nothing is known of
        the others).
    numbers : ndarray of shape (n_bags, n_classes)
        The number of instances of each label.
    rng : Generator
        Draws the cells that are not looked for; the same ones for each kind.

    Returns
    -------
    LabelCounts, or ndarray of shape (n_bags, n_classes)
        The labels of each bag, -1 where they are unknown.
    """
    name, _, share = kind.partition("-")
    if name == "counts":
        return LabelCounts(numbers, numbers)
    if name == "capped":
        return LabelCounts(np.minimum(numbers, 3), np.where(numbers >= 3, -1, numbers))
    present = (numbers > 0).astype(np.int64)
    if name == "sets":
        return present
    hidden = rng.random(numbers.shape) < int(share) / 100
    if name == "absent":
        return np.where(hidden, 0, present)
    if name == "presences":
        return np.where((present == 1) & ~hidden, 1, -1)
    return np.where(hidden, -1, present)


def learn_candidates(unit: Unit) -> dict[str, Any]:
    """Learn from single instances with candidate labels, of which one is right (partial labels).

    ``inductive`` is the accuracy on new instances, ``training`` that on the training instances,
    given their candidates. Groups are not kept together, as in the literature.
    """
    data = unit.load()
    folds = KFold(unit.settings["folds"], shuffle=True, random_state=unit.shared_seed)
    train, test = list(folds.split(data.label_sets))[unit.fold or 0]
    allowed = np.where(data.label_sets[train] == 1, -1, 0)
    counts = LabelCounts(np.zeros_like(allowed), allowed)
    old, new = _scaled(data.bags, train, test)
    model = with_seed(build_model(unit.settings["model"], {}), unit.seed).fit(old, counts)
    truth = data.instance_labels
    return {
        "inductive": float((model.predict_instances(new) == truth[test]).mean()),
        "training": float((model.annotate(old, counts) == truth[train]).mean()),
    }


def learn_shares(unit: Unit) -> dict[str, Any]:
    """Learn from the shares of two labels in each bag; ``auc`` is over rows that are in no bag.

    Kernel and penalty are those with the largest likelihood of held-out bags, by four folds. The
    method "all-known" is logistic regression on the labels of all rows of the bags, its kernel and
    penalty chosen by the log loss of held-out rows.
    """
    data = unit.load()
    scaler = StandardScaler().fit(data.bags.instances)
    rows, new = scaler.transform(data.bags.instances), scaler.transform(data.X_test)
    if unit.method == "all-known":
        search: Any = _supervised(unit.seed).fit(rows, data.instance_labels)
        return {"auc": float(roc_auc_score(data.y_test, search.predict_proba(new)[:, 1]))}
    counts = LabelCounts.from_shares(np.column_stack([1 - data.shares, data.shares]))
    folds = KFold(4, shuffle=True, random_state=unit.shared_seed)
    model = ORedLogisticRegression(random_state=unit.seed % 2**31)
    search = GridSearchCV(model, GRID, cv=folds)
    search.fit(data.bags.with_instances(rows), counts)
    singles = Bags(new, np.arange(len(new) + 1))
    chances = search.best_estimator_.predict_proba_instances(singles)[:, 1]
    return {"auc": float(roc_auc_score(data.y_test, chances))}


def _supervised(seed: int) -> GridSearchCV:
    kernel = Nystroem(n_components=300, random_state=seed % 2**31)
    model = make_pipeline(kernel, LogisticRegression(max_iter=1000))
    grid = [
        {"nystroem": ["passthrough"], "logisticregression__C": [0.03, 1.0]},
        {"nystroem__gamma": [None], "logisticregression__C": [0.3, 3.0, 30.0]},
    ]
    return GridSearchCV(model, grid, cv=3, scoring="neg_log_loss")


def _scaled(bags: Bags, train: Any, test: Any) -> tuple[Bags, Bags]:
    """Training and test bags, standardised on the training bags."""
    scaler = StandardScaler().fit(bags[train].instances)
    old, new = (bags[part] for part in (train, test))
    return tuple(part.with_instances(scaler.transform(part.instances)) for part in (old, new))
