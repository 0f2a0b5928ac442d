"""Protocols of annotators measure what they say."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

from bagwise.annotation import ORedLogisticRegression
from bagwise.reproduction import load_paper, make_plan
from bagwise.reproduction._protocols import PROTOCOLS


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
