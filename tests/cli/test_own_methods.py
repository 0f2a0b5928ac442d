"""``-m module:Class``: estimators of the user in fit, evaluate and the list of candidates."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bagwise.auto import AutoBagClassifier
from bagwise.auto._methods import find_method
from bagwise.datasets import make_bags
from bagwise.evaluate import Comparison, Evaluation
from bagwise.exceptions import InputError

pytest.importorskip("pyarrow")
MODULE = '''
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LogisticRegression, Ridge


def means(bags):
    return np.array([bag.mean(axis=0) for bag in bags])


class MeanLogistic(ClassifierMixin, BaseEstimator):
    def __init__(self, C=1.0):
        self.C = C

    def fit(self, X, y):
        self.model_ = LogisticRegression(C=self.C).fit(means(X), y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(means(X))

    def decision_function(self, X):
        return self.model_.decision_function(means(X))


class Labels(ClassifierMixin, BaseEstimator):
    """Only fit and predict."""

    def __init__(self, label):
        self.label = label

    def fit(self, X, y):
        self.n_bags_ = len(X)
        return self

    def predict(self, X):
        return np.repeat(self.label, len(X))


class MeanRidge(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        self.model_ = Ridge().fit(means(X), y)
        return self

    def predict(self, X):
        return self.model_.predict(means(X))


class Broken(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        return 1 / 0

    predict = None


class PerInstance(MeanLogistic):
    def decision_function(self, X):
        return self.model_.decision_function(np.concatenate(list(X)))


class OneArray(MeanLogistic):
    def fit(self, X, y):
        return super().fit(np.asarray(X), y)


class Signs(MeanLogistic):
    def predict(self, X):
        return 2 * super().predict(X) - 1


def function():
    pass
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with the module of a user and a table, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "bags.py").write_text(MODULE)
    (tmp_path / "alone.py").write_text(MODULE)
    data = make_bags(n_bags=30, n_features=3, random_state=0)
    rows = pd.DataFrame(data.bags.instances, columns=["a", "b", "c"])
    rows = rows.assign(bag=data.bags.bag_index, label=data.y[data.bags.bag_index])
    rows.to_csv("bags.csv", index=False)
    rows.assign(label=rows.groupby("bag")["a"].transform("mean")).to_csv("numbers.csv", index=False)
    yield
    for name in ("mine", "mine.bags", "alone"):
        sys.modules.pop(name, None)


def test_an_estimator_is_evaluated_fitted_and_loaded(own, run):
    name = "mine.bags:MeanLogistic"
    run.ok("evaluate", "bags.csv", "-m", name, "-m", "nsk", "--folds", "3", "-o", "scores.csv")
    scores = pd.read_csv("scores.csv")
    assert scores.method.tolist()[:2] == [name, "nsk"]
    assert scores.AUC.notna().all()
    pytest.importorskip("skops")
    saved = run.ok("fit", "bags.csv", "-m", name, "--set", "C=0.1", "-o", "m.skops")
    assert "--trust mine.bags.MeanLogistic" in saved.stderr
    assert "not trusted" in run.fails("predict", "m.skops", "bags.csv", "-o", "p.csv").stderr
    trust = ["--trust", "mine.bags.MeanLogistic"]
    run.ok("predict", "m.skops", "bags.csv", *trust, "-o", "p.csv")
    assert len(pd.read_csv("p.csv")) == 30


def test_the_smallest_class_and_a_regressor(own, run):
    what = ["--set", "label=1", "--no-baseline", "--folds", "3"]
    run.ok("evaluate", "bags.csv", "-m", "alone:Labels", *what, "-o", "scores.csv")
    assert pd.read_csv("scores.csv").accuracy.between(0.3, 0.7).all()
    run.ok("evaluate", "numbers.csv", "-m", "alone:MeanRidge", "--folds", "3", "-o", "r2.csv")
    assert pd.read_csv("r2.csv").R2[0] > 0.7


def test_two_tables_are_written_as_latex(own, run):
    """The numbers of the JSON document, rounded once."""
    words = ["evaluate", "bags.csv", "-m", "nsk", "-m", "alone:MeanLogistic", "--folds", "3"]
    found = json.loads(run.ok(*words, "-o", "scores.tex", "--json").stdout)
    text = Path("scores.tex").read_text()
    assert text.count("\\begin{table}") == text.count("\\end{table}") == 2
    assert "AUC minus that of nsk, positive if better, with 95\\% intervals: corrected" in text
    rows = [line.removesuffix(" \\\\").split(" & ") for line in text.splitlines() if " & " in line]
    assert rows[0] == ["method", "accuracy", "balanced accuracy", "AUC", "log loss"]
    for row, method in zip(rows[1:5], found["methods"], strict=True):
        assert row[0] == method["name"]
        for shown, measure in zip(row[1:], rows[0][1:], strict=True):
            own = method.get(measure)
            ends = own and f"{own['mean']:.3f} ({own['lower']:.3f} to {own['upper']:.3f})"
            assert shown == (ends or "")
    assert rows[5] == ["method", "difference", "p"]
    for row, test in zip(rows[6:], found["differences"], strict=True):
        ends = f"{test['mean']:.3f} ({test['lower']:.3f} to {test['upper']:.3f})"
        assert row[1].replace("$-$", "-") == ends
        p_value = test["p_value"]
        assert row[2] == ("$<$ 0.001" if p_value < 0.001 else f"{p_value:.3f}")


def test_names_are_escaped_and_undefined_cells_are_empty():
    scores = {"f1_macro": [0.0625, 0.0], "AUC": [np.nan, np.nan]}
    text = Comparison([Evaluation("a & b_c-1", scores, [0.1, 0.1])], 0.5).to_latex("f1_macro")
    assert text.splitlines()[2] == "method & f1\\_macro & AUC \\\\"
    assert text.splitlines()[4] == "a \\& b\\_c-1 & 0.031 &  \\\\"
    assert text.count("\\begin{table}") == 1


def test_the_method_of_the_guide_runs(own, run):
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(from sklearn.base.*?)```", page, flags=re.DOTALL)
    Path("mine_of_guide.py").write_text(block)
    name = "mine_of_guide:MeanLogistic"
    run.ok("evaluate", "bags.csv", "-m", name, "--folds", "3", "-o", "scores.csv")
    assert pd.read_csv("scores.csv").accuracy[0] > 0.6


def test_what_is_wrong_is_said(own, run):
    for name, words in {
        "alone:Missing": "alone has no Missing",
        "alone.Labels": "Did you mean alone:Labels?",
        "alone:function": "expected a classifier or regressor",
        "absent.module:Class": "cannot be imported: ModuleNotFoundError",
        "alone:Labels": "needs label: give --set label=VALUE",
    }.items():
        assert words in run.fails("evaluate", "bags.csv", "-m", name).stderr
    assert (
        "predicts labels" in run.fails("evaluate", "numbers.csv", "-m", "alone:MeanLogistic").stderr
    )
    for name, words in {
        "Broken": "ZeroDivisionError: division by zero. This is an error in alone:Broken.fit (",
        "OneArray": "one array: use bags.instances, or bags[i] for one bag. This is an error",
        "PerInstance": "alone:PerInstance.decision_function returned ",
        "Signs": "alone:Signs.predict returned the label -1: expected one of 0, 1.",
    }.items():
        broken = run("evaluate", "bags.csv", "-m", f"alone:{name}")
        assert broken.exit_code == (1 if "This is an error" in words else 2)
        assert words in broken.stderr
        assert "bug in bagwise" not in broken.stderr
    with pytest.raises(InputError, match="has no parameter 'c'"):
        find_method("alone:MeanLogistic").make({"c": 1})


def test_a_candidate_of_the_automatic_choice(own):
    data = make_bags(n_bags=30, n_features=3, random_state=0)
    names = ["pooled-trees", "alone:MeanLogistic"]
    model = AutoBagClassifier(candidates=names, cv=3, random_state=0).fit(data.bags, data.y)
    assert "alone:MeanLogistic" in model.leaderboard_["method"]
    assert np.isfinite(model.decision_function(data.bags)).all()
