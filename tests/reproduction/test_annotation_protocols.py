"""Protocols for annotators compute the documented measures."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

from bagwise.annotation import ORedLogisticRegression
from cases import each
from reproduction import load_paper, make_plan
from reproduction._protocols import PROTOCOLS
from reproduction._protocols.annotation import _with_errors


def units(experiment, *only):
    paper = load_paper("orlr")
    chosen = paper.experiment(experiment).shortened().narrowed(["frost", *only])
    return make_plan(paper, chosen).units


def standardised(data, train):
    scaler = StandardScaler().fit(data.bags[train].instances)
    return data.bags.with_instances(scaler.transform(data.bags.instances))


def test_inductive_accuracy_is_that_of_new_bags():
    unit = units("table2-inductive", "orlr")[3]
    data = unit.load()
    folds = KFold(10, shuffle=True, random_state=unit.shared_seed).split(data.label_sets)
    train, test = list(folds)[3]
    bags = standardised(data, train)
    model = ORedLogisticRegression().fit(bags[train], data.label_sets[train])
    chosen = np.isin(bags.bag_index, test)
    right = model.predict_instances(bags)[chosen] == data.instance_labels[chosen]
    assert PROTOCOLS["annotate_folds"](unit)["accuracy"] == pytest.approx(right.mean())


def test_supervised_bounds_learn_from_true_labels_of_other_bags():
    unit = units("table2-inductive", "s-lr")[0]
    data = unit.load()
    folds = KFold(10, shuffle=True, random_state=unit.shared_seed).split(data.label_sets)
    train, test = next(folds)
    bags = standardised(data, train)
    chosen = np.isin(bags.bag_index, test)
    model = LogisticRegression(max_iter=2000)
    model.fit(bags.instances[~chosen], data.instance_labels[~chosen])
    score = model.score(bags.instances[chosen], data.instance_labels[chosen])
    assert PROTOCOLS["annotate_folds"](unit)["accuracy"] == pytest.approx(score)
    (unit,) = units("table2-transductive", "s-lr")
    assert 0.5 < PROTOCOLS["annotate_all"](unit)["accuracy"] < 0.9


def test_transductive_accuracy_and_reliability():
    (unit,) = units("table2-transductive", "orlr")
    data = unit.load()
    bags = standardised(data, np.arange(len(data.bags)))
    model = ORedLogisticRegression().fit(bags, data.label_sets)
    right = model.annotate(bags, data.label_sets) == data.instance_labels
    assert PROTOCOLS["annotate_all"](unit)["accuracy"] == pytest.approx(right.mean())
    result = PROTOCOLS["reliability"](unit)
    assert result["counts"].sum() == len(right)
    assert result["hits"].sum() == right.sum()
    assert 0 <= result["calibration_error"] < 0.1


@each("method", ["orlr-least-certain", "orlr-random"])
def test_corrections_are_of_instances_that_then_count_as_right(method):
    paper = load_paper("orlr")
    chosen = paper.experiment("corrections").shortened().narrowed(["carroll", method])
    plan = make_plan(paper, chosen).units
    data = replace(plan[0], value=None).load()
    seed = replace(plan[0], value=None).shared_seed
    train, _ = next(KFold(10, shuffle=True, random_state=seed).split(data.label_sets))
    n_train = data.bags.sizes[train].sum()
    found = [PROTOCOLS["correct_some"](unit) for unit in plan]
    bags = standardised(data, train)
    model = ORedLogisticRegression().fit(bags[train], data.label_sets[train])
    inside = np.isin(bags.bag_index, train)
    right = model.annotate(bags, data.label_sets) == data.instance_labels
    assert found[0]["untouched"] == found[0]["training"] == pytest.approx(right[inside].mean())
    new = model.predict_instances(bags) == data.instance_labels
    assert found[0]["inductive"] == pytest.approx(new[~inside].mean())
    for unit, result in zip(plan, found, strict=True):
        n_corrected = round(unit.value * n_train)
        n_right = result["untouched"] * (n_train - n_corrected) + n_corrected
        assert result["training"] == pytest.approx(n_right / n_train)
    assert found[-1]["training"] > found[0]["training"]


@each("error", ["clean", "spurious", "missing"])
def test_errors_are_planted_in_a_share_of_the_label_sets(error):
    sets = units("table2-transductive", "orlr")[0].load().label_sets
    wrong = _with_errors(sets, error, 0.3, seed=0)
    change = wrong.astype(int) - sets
    n_changed = np.count_nonzero(change.any(axis=1))
    assert n_changed == np.abs(change).sum() == (0 if error == "clean" else round(0.3 * len(sets)))
    assert set(np.unique(change)) <= {0, {"clean": 0, "spurious": 1, "missing": -1}[error]}
    assert wrong.any(axis=1).all()


def test_an_oracle_sees_only_the_bags_whose_set_is_right():
    paper = load_paper("orlr")
    chosen = paper.experiment("wrong-sets").shortened().narrowed(["orlr-right-sets"])
    unit = make_plan(paper, chosen).units[0]
    linear = {**unit.settings, "model": {"class": "bagwise.annotation:ORedLogisticRegression"}}
    unit = replace(unit, settings=linear)
    data, seed = unit.load(), unit.shared_seed
    train, test = next(KFold(10, shuffle=True, random_state=seed).split(data.label_sets))
    wrong = _with_errors(data.label_sets, "missing", 0.3, seed)
    train = train[(wrong == data.label_sets)[train].all(axis=1)]
    bags = standardised(data, train)
    model = ORedLogisticRegression().fit(bags[train], data.label_sets[train])
    chosen = np.isin(bags.bag_index, test)
    right = model.predict_instances(bags)[chosen] == data.instance_labels[chosen]
    assert PROTOCOLS["annotate_wrong_sets"](unit)["missing"] == pytest.approx(right.mean())
