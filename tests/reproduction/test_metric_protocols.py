"""Protocols for metric learners, on synthetic faces and letters, against explicit steps."""

import dataclasses
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.datasets import load_letter_carroll
from bagwise.metric_learning import MIMLCA
from bagwise.metrics import average_precision
from bagwise.preprocessing import InstanceTransformer
from cases import each
from reproduction import Store, load_paper, make_plan, make_report, run_plan, write_report
from reproduction._building import build_model, training_sizes
from reproduction._protocols import PROTOCOLS
from reproduction._units import list_units
from reproduction.models import annotator
from reproduction.sources import captioned_faces

SMALL = {"n_bags": 300, "n_categories": 10}


def units_of(experiment, data, method, **options):
    """The folds of one cell, on few drawn photos."""
    paper = load_paper("mimlca")
    entry = paper.data[data]
    few = {**(entry.stand_in or {}).get("options", {}), **options}
    source = (entry.stand_in or vars(entry))["source"]
    small = dataclasses.replace(entry, source=source, options=few, stand_in=None)
    paper = dataclasses.replace(paper, data={**paper.data, data: small})
    narrowed = paper.experiment(experiment).narrowed([data, method])
    return list_units(paper, narrowed, frozenset())


def test_faces_are_named_as_by_hand():
    unit = units_of("table1", "news-b", "mimlca", **SMALL)[0]
    result = PROTOCOLS["face_naming"](unit)
    data = captioned_faces("b", **SMALL, random_state=unit.shared_seed)
    folds = KFold(10, shuffle=True, random_state=unit.shared_seed)
    train, test = next(folds.split(np.zeros(300)))
    scaler = InstanceTransformer(StandardScaler()).fit(data.bags[train])
    model = MIMLCA().fit(scaler.transform(data.bags[train]), data.label_sets[train])
    names = data.bags.split(data.instance_labels)
    truth = np.concatenate([names[i] for i in test])
    predicted = model.predict_instances(scaler.transform(data.bags[test]))
    frequent = [c for c in np.unique(truth[truth >= 0]) if np.sum(truth == c) >= 5]
    shown = np.isin(truth, frequent)
    assert result["precision"] == pytest.approx(np.mean(predicted[shown] == truth[shown]))
    accuracies = [np.mean(predicted[truth == c] == c) for c in frequent]
    assert result["accuracy"] == pytest.approx(np.mean(accuracies))


@each(
    ("experiment", "data", "method"),
    [
        ("table1", "news-a", "mlca"),
        ("table1", "news-b", "mlca"),
        ("table1", "news-c", "euclidean"),
        ("table2", "news-b", "mildml"),
        ("table7", "tiny-news-b", "minimax"),
        ("table7", "tiny-news-b", "mimlca"),
        ("table7", "tiny-news-b", "milboost"),
    ],
)
def test_every_rule_names_more_than_chance(experiment, data, method):
    unit = units_of(experiment, data, method, **SMALL)[0]
    result = PROTOCOLS["face_naming"](unit)
    assert 0.3 < result["precision"] <= 1
    assert 0.3 < result["accuracy"] <= 1


@each("method", ["c2b", "miles", "milboost", "emdd"])
def test_tokens_are_annotated_by_every_rival(method):
    """Few pictures of sparse tokens, two keywords of which have a token of their own."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    tokens = np.column_stack([y, *(rng.integers(2, 8, (2, 60)))]).ravel()
    rows = sparse.csr_array(np.eye(8)[tokens])
    bags, label_sets = Bags(rows, np.arange(0, 181, 3)), np.column_stack([y, 1 - y])
    model = build_model(
        load_paper("mimlca").methods[method].model, training_sizes(bags, label_sets)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(bags, label_sets)
    assert average_precision(label_sets, model.decision_function(bags)) > 0.95  # chance: .75


def test_letters_are_annotated_as_by_hand():
    unit = units_of("table4-sets", "msrc", "annotate-mimlca")[0]
    source = {"source": "bagwise.datasets:load_letter_carroll", "options": {}}
    unit = dataclasses.replace(unit, settings={**unit.settings, "data": source})
    result = PROTOCOLS["bag_annotation"](unit)
    data = load_letter_carroll(unit.shared_seed)
    folds = KFold(10, shuffle=True, random_state=unit.shared_seed)
    train, test = next(folds.split(np.zeros(len(data.bags))))
    scaler = InstanceTransformer(StandardScaler()).fit(data.bags[train])
    model = annotator(MIMLCA()).fit(scaler.transform(data.bags[train]), data.label_sets[train])
    scores = model.predict_proba(scaler.transform(data.bags[test]))
    expected = average_precision(data.label_sets[test], scores)
    assert result["average_precision"] == pytest.approx(expected)


def test_letters_are_assigned_and_alpha_is_drawn(tmp_path):
    unit = units_of("assignment-letters", "letters", "mimlca")[0]
    result = PROTOCOLS["instance_assignment"](unit)
    assert result["assignment_accuracy"] > 0.8
    assert 0.9 < result["assigned_share"] < 1
    assert 0.9 < result["truth_over_found"] < 1.5
    pytest.importorskip("matplotlib")
    paper = load_paper("mimlca")
    stand_in = {**paper.data["few-news-b"].stand_in, "options": {"scenario": "b", **SMALL}}
    few = dataclasses.replace(paper.data["few-news-b"], stand_in=stand_in)
    paper = dataclasses.replace(paper, data={**paper.data, "few-news-b": few})
    table = paper.experiment("table3-kernel").narrowed(["few-news-b", "mimlca"])
    plan = make_plan(paper, dataclasses.replace(table, folds=2))
    store = Store(tmp_path / "table3.jsonl")
    run_plan(plan, store)
    written = write_report(make_report(plan, store), tmp_path, "table3")
    assert len(written) == 3  # the page, and the curves of accuracy and precision
