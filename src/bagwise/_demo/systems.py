"""The last table of ``bagwise demo``: the five systems, each beside a plain method."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise._methods.ready_made import metric_citation_knn, single_instance_svm, standardised
from bagwise.annotation import ORedLogisticRegression
from bagwise.classification import CitationKNN, PrimalDualMISVM
from bagwise.cluster import BagConstrainedSpectralClustering
from bagwise.datasets import load_letter_carroll, load_musk1
from bagwise.metric_learning import MIMLCA, MultiInstanceKMeans
from bagwise.metrics import class_purity, instance_accuracy
from bagwise.model_selection import compare
from bagwise.preprocessing import InstanceTransformer
from bagwise.report._page import Section, Table
from bagwise.semi_supervised import WellSVMClassifier

Answer = tuple[float, float, float]  # ours, the plain method's, seconds of ours


def five_systems(workshop: Any) -> Section:
    """Run the five systems."""
    questions: tuple[tuple[str, str, str, str, Callable[[], Answer]], ...] = (
        ("Which molecules are musk?", "pdMISVM", "accuracy", "SIL", _molecules),
        ("Which letter of a word is which?", "ORLR", "accuracy", "chance", _letters),
        ("Which letters belong together?", "CSP", "purity", "k-means", _clusters),
        ("Which letter is which, by distance?", "MIMLCA", "accuracy", "Euclidean", _assignment),
        ("Which letters has an unseen word?", "MIMLCA", "precision", "Euclidean", _ranking),
        ("3 or 8, from ten labelled digits?", "WellSVM", "accuracy", "SVM", _few_labels),
    )
    answers = [answer() for *_, answer in questions]
    columns: dict[str, list[Any]] = {
        "question": [question for question, *_ in questions],
        "system": [system for _, system, *_ in questions],
        "measured": [measured for *_, measured, _, _ in questions],
        "ours": [ours for ours, _, _ in answers],
        "plain": [plain for _, plain, _ in answers],
        "plain is": [name for *_, name, _ in questions],
        "seconds": [f"{seconds:.1f}" for _, _, seconds in answers],
    }
    return Section(
        "Five systems",
        [
            "Each system answers its question with the settings it comes with; the plain method "
            "beside it is what one would try first. Molecules and unseen words: five-fold "
            "cross-validation on Musk1 and Letter-Carroll. Letters: named, grouped or assigned in "
            "the words they were learned from, whose label sets are known; chance takes one of the "
            "word's letters, k-means makes as many clusters, Euclidean has the same method without "
            "the learned distance. Digits: the mean of ten draws of ten labels; the SVM sees only "
            "those. Precision is average precision.",
            Table(columns, "The five systems on shipped data"),
        ],
    )


def _molecules() -> Answer:
    data = load_musk1()
    models = {"ours": PrimalDualMISVM(random_state=0), "plain": single_instance_svm()}
    return _compared(models, data.bags, data.y, "accuracy")


def _ranking() -> Answer:
    data = load_letter_carroll(random_state=0)
    models = {"ours": metric_citation_knn(), "plain": CitationKNN()}
    return _compared(models, data.bags, data.label_sets, "average precision")


def _compared(models: dict[str, Any], bags: Any, y: Any, measure: str) -> Answer:
    scaled = {name: standardised(model) for name, model in models.items()}
    ours, plain = compare(scaled, bags, y, cv=5)
    means = [float(np.mean(result.scores[measure])) for result in (ours, plain)]
    return means[0], means[1], sum(ours.seconds)


def _words() -> tuple[Any, Any, Any]:
    """Bags, label sets and, to judge by, what each letter is."""
    data = load_letter_carroll(random_state=0)
    bags = InstanceTransformer(StandardScaler()).fit_transform(data.bags)
    return bags, data.label_sets, data.instance_labels


def _letters() -> Answer:
    bags, sets, truth = _words()
    start = time.perf_counter()
    named = ORedLogisticRegression().fit(bags, sets).annotate(bags, sets)
    seconds = time.perf_counter() - start
    chance = float(np.mean(1 / sets.sum(axis=1)[bags.bag_index]))
    return instance_accuracy(truth, named), chance, seconds


def _clusters() -> Answer:
    bags, sets, truth = _words()
    n_clusters = sets.shape[1]
    start = time.perf_counter()
    model = BagConstrainedSpectralClustering(n_clusters, random_state=0).fit(bags, sets)
    seconds = time.perf_counter() - start
    plain = KMeans(n_clusters, n_init=10, random_state=0).fit_predict(bags.instances)
    return class_purity(truth, model.labels_), class_purity(truth, plain), seconds


def _assignment() -> Answer:
    bags, sets, truth = _words()
    start = time.perf_counter()
    ours = MIMLCA().fit(bags, sets).assignments_
    seconds = time.perf_counter() - start
    plain = MultiInstanceKMeans().fit(bags, sets).assignments_
    shares = [instance_accuracy(truth[a >= 0], a[a >= 0]) for a in (ours, plain)]
    return shares[0], shares[1], seconds


def _few_labels() -> Answer:
    X, digits = load_digits(return_X_y=True)
    chosen = np.isin(digits, (3, 8))
    X, digits = X[chosen] / 16, digits[chosen]
    ours, plain, seconds = [], [], 0.0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        labelled = [rng.choice(np.flatnonzero(digits == d), 5, replace=False) for d in (3, 8)]
        known = np.isin(np.arange(len(X)), labelled)
        start = time.perf_counter()
        model = WellSVMClassifier().fit(X, np.where(known, digits, -1))
        ours.append(model.score(X[~known], digits[~known]))
        seconds += time.perf_counter() - start
        alone = SVC(kernel="linear").fit(X[known], digits[known])
        plain.append(alone.score(X[~known], digits[~known]))
    return float(np.mean(ours)), float(np.mean(plain)), seconds
