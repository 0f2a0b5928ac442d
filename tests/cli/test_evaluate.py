import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from cli.tables import COLUMNS, read_rows, write_rows
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import (
    StratifiedGroupKFold,
    StratifiedKFold,
    cross_val_score,
)

from bagwise import Bags
from bagwise.classification import CitationKNN, SetKernelSVM
from bagwise.cli.evaluate import _announce, _warning
from bagwise.datasets import load_letter_carroll
from bagwise.evaluate import _baselines, compare
from bagwise.evaluate._baselines import (
    LabelFrequencies,
    OnePerLabel,
    baselines,
    single_instance_svm,
)
from bagwise.evaluate._evaluation import make_folds
from bagwise.io import read_bags
from bagwise.metrics import average_precision, coverage, one_error
from bagwise.preprocessing._bag_pipeline import prepared


@pytest.fixture
def data(slides):
    return read_bags(slides, bag="slide", label="tumour", features=["red", "green", "blue"])


def evaluated(run, *words):
    result = run.ok("evaluate", *words, "--json")
    outcome = json.loads(result.stdout)
    return outcome, {method["name"]: method for method in outcome["methods"]}


def test_scores_are_those_of_scikit_learn(run, slides, data):
    words = (*COLUMNS, "-m", "citation-knn", "--set", "n_citers=2", "--folds", "4", "--seed", "3")
    setting, methods = evaluated(run, slides, *words)
    model = prepared(CitationKNN(n_citers=2))
    folds = StratifiedKFold(4, shuffle=True, random_state=3)
    for name, scoring in {"accuracy": "accuracy", "AUC": "roc_auc"}.items():
        expected = cross_val_score(model, data.bags, data.y, cv=folds, scoring=scoring)
        np.testing.assert_allclose(methods["citation-knn"][name]["folds"], expected)
        assert methods["citation-knn"][name]["mean"] == pytest.approx(expected.mean())
        assert methods["citation-knn"][name]["sd"] == pytest.approx(expected.std())
    expected = cross_val_score(model, data.bags, data.y, cv=folds, scoring="balanced_accuracy")
    np.testing.assert_allclose(methods["citation-knn"]["balanced accuracy"]["folds"], expected)
    assert setting["parameters"] == {"n_citers": 2}


def test_pooled_trees_are_three_lines_of_scikit_learn(data):
    statistics = [
        [*bag.mean(axis=0), *bag.min(axis=0), *bag.max(axis=0), *bag.std(axis=0)]
        for bag in data.bags
    ]
    trees = ExtraTreesClassifier(20, random_state=0).fit(statistics, data.y)
    model = baselines()["pooled trees"].fit(data.bags, data.y)
    np.testing.assert_allclose(model.predict_proba(data.bags), trees.predict_proba(statistics))


def test_several_methods_are_compared_with_the_first(run, slides, data):
    words = ("-m", "nsk", "-m", "sil", "--set", "C=2", "--set", "nsk.C=10", "--repeats", "2")
    setting, methods = evaluated(run, slides, *COLUMNS, *words, "--folds", "3")
    names = ["nsk", "sil", "baseline: majority", "baseline: pooled trees"]
    assert list(methods) == names
    models = {
        "nsk": prepared(SetKernelSVM(C=10)),
        "sil": prepared(single_instance_svm(C=2)),
    } | {f"baseline: {name}": model for name, model in baselines().items()}
    expected = compare(models, data.bags, data.y, cv=3, repeats=2)
    for found in expected:
        assert methods[found.name]["accuracy"]["folds"] == pytest.approx(found.scores["accuracy"])
    differences = setting["differences"]
    assert [found["name"] for found in differences] == names[1:]
    assert {found["reference"] for found in differences} == {"nsk"}
    assert [found["mean"] for found in differences] == pytest.approx(
        [found.mean for found in expected.differences()]
    )
    assert setting["parameters"] == {"C": 2, "nsk.C": 10}


def test_the_warning_is_on_stderr_and_in_the_json_document(run, slides):
    # Labels that the mean decides, and a method whose parameter makes it constant.
    words = (*COLUMNS, "-m", "citation-knn", "--set", "n_references=24", "--folds", "3")
    result = run("evaluate", slides, *words)
    assert "Warning: citation-knn is not significantly better than pooled" in result.stderr
    setting, _ = evaluated(run, slides, *words)
    assert [text.endswith("; try -m auto.") for text in setting["warnings"]] == [True]


@pytest.mark.parametrize("chosen", [["nsk"], ["nsk", "auto"]])
def test_a_method_that_was_compared_is_no_advice(chosen):
    difference = SimpleNamespace(name="nsk", verdict="unclear", mean=-0.1, measure="AUC", size="")
    labels = SimpleNamespace(has_sets=False)
    advised = "try -m auto" in _warning(difference, labels, dict.fromkeys(chosen))
    assert advised == ("auto" not in chosen)


@pytest.mark.filterwarnings("always::bagwise.exceptions.DataWarning")
def test_a_baseline_that_does_not_fit_into_memory_is_left_out(run, slides, monkeypatch):
    monkeypatch.setattr(_baselines, "available_memory", lambda: 1)
    result = run.ok("evaluate", slides, *COLUMNS, "-m", "sil", "--folds", "2", "-q")
    assert "pooled trees" not in result.stdout
    expected = "Warning: the baseline pooled trees is left out: it needs more memory"
    assert result.stderr.splitlines() == [expected]


def test_groups_stay_together(run, slides, data):
    words = (*COLUMNS, "-m", "citation-knn", "--group", "patient", "--folds", "3")
    setting, methods = evaluated(run, slides, *words)
    groups = np.array([f"p{i // 2}" for i in range(24)])
    folds = StratifiedGroupKFold(3, shuffle=True, random_state=0).split(data.bags, data.y, groups)
    expected = cross_val_score(prepared(CitationKNN()), data.bags, data.y, cv=list(folds))
    np.testing.assert_allclose(methods["citation-knn"]["accuracy"]["folds"], expected)
    assert setting["group"] == "patient"


def test_label_sets_are_measured_by_rank(run, tmp_path):
    data = load_letter_carroll(random_state=0)
    bags, sets = data.bags[:60], data.label_sets[:60]
    folds = make_folds(sets, n_folds=2)
    models = {"citation-knn": prepared(CitationKNN())} | baselines(label_sets=True)
    comparison = compare(models, bags, sets, cv=folds)
    outcomes = {o.name: o for o in comparison}
    for (train, test), *measured in zip(
        folds,
        outcomes["citation-knn"].scores["one-error"],
        outcomes["citation-knn"].scores["coverage"],
        outcomes["citation-knn"].scores["average precision"],
        strict=True,
    ):
        model = prepared(CitationKNN()).fit(bags[train], sets[train])
        scores = model.predict_proba(bags[test])
        expected = [f(sets[test], scores) for f in (one_error, coverage, average_precision)]
        assert measured == pytest.approx(expected)
    assert set(comparison.table()) == {
        "method",
        "one-error",
        "coverage",
        "average precision",
        "log loss",
        "time",
    }


def test_frequencies_know_only_how_often(rng):
    sets = (rng.random((10, 3)) < 0.5).astype(int)
    model = LabelFrequencies().fit(np.zeros((10, 1)), sets)
    np.testing.assert_allclose(model.predict_proba(np.zeros((2, 1))), [sets.mean(axis=0)] * 2)
    assert model.predict(np.zeros((1, 1))).tolist() == [(sets.mean(axis=0) > 0.5).tolist()]


def test_one_model_per_label_knows_always_and_never(rng):
    from bagwise.classification import SingleInstanceClassifier

    X = rng.normal(size=(12, 2))
    sets = np.column_stack([np.zeros(12), np.ones(12), X[:, 0] > 0]).astype(int)
    model = OnePerLabel(SingleInstanceClassifier()).fit(X, sets)
    scores = model.decision_function(X)
    np.testing.assert_array_equal(model.predict(X), scores > 0)
    assert np.all(scores[:, 0] == -np.inf)
    assert np.all(scores[:, 1] == np.inf)
    plain = SingleInstanceClassifier().fit(X, sets[:, 2]).decision_function(X)
    np.testing.assert_allclose(scores[:, 2], plain)


def test_one_model_per_label_may_have_probabilities_only(rng):
    X = rng.normal(size=(12, 2))
    sets = np.column_stack([X[:, 0] > 0, X[:, 1] > 0]).astype(int)
    trees = ExtraTreesClassifier(5, random_state=0)
    scores = OnePerLabel(trees).fit(X, sets).decision_function(X)
    for k in range(2):
        alone = clone(trees).fit(X, sets[:, k])
        np.testing.assert_allclose(scores[:, k], alone.predict_proba(X)[:, 1])


def test_scores_are_chosen_by_the_names_of_scikit_learn(run, slides, data):
    words = (*COLUMNS, "-m", "nsk", "--folds", "3", "--no-baseline")
    scoring = ("--scoring", "f1", "--scoring", "AUC", "--scoring", "neg_brier_score")
    document, methods = evaluated(run, slides, *words, "-m", "citation-knn", *scoring[:4])
    assert set(methods) == {"nsk", "citation-knn"}
    for name, model in (("nsk", SetKernelSVM()), ("citation-knn", CitationKNN())):
        folds = StratifiedKFold(3, shuffle=True, random_state=0)
        y = (data.y == "yes").astype(int)
        for measure, scorer in (("f1", "f1"), ("AUC", "roc_auc")):
            expected = cross_val_score(prepared(model), data.bags, y, cv=folds, scoring=scorer)
            np.testing.assert_allclose(methods[name][measure]["folds"], expected)
        assert set(methods[name]) == {"name", "f1", "AUC", "seconds"}
    # The first of the scores decides the differences.
    assert [d["measure"] for d in document["differences"]] == ["f1"]
    refused = run.fails("evaluate", slides, *words, *scoring)
    assert "neg_brier_score cannot be computed for SetKernelSVM" in refused.stderr


def test_the_table_is_written(run, slides, tmp_path):
    out = tmp_path / "scores.csv"
    words = (*COLUMNS, "-m", "sil", "-m", "nsk", "--folds", "3", "--repeats", "2", "-o", out)
    words += ("--no-baseline",)
    document, methods = evaluated(run, slides, *words)
    assert document["written"] == [str(out)]
    rows = {row["method"]: row for row in read_rows(out)}
    assert list(rows) == list(methods)
    for name, row in rows.items():
        for measure in ("accuracy", "AUC"):
            assert float(row[measure]) == methods[name][measure]["mean"]
            assert float(row[f"{measure} sd"]) == methods[name][measure]["sd"]
    assert rows["sil"]["difference"] == ""
    (own,) = (d for d in document["differences"] if d["name"] == "nsk")
    assert float(rows["nsk"]["difference"]) == own["mean"]
    assert float(rows["nsk"]["p_value"]) == own["p_value"]
    run.fails("evaluate", slides, *words)
    run.ok("evaluate", slides, *words, "-f")


def test_a_missing_package_is_named_before_anything_is_read(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    done = run.fails("evaluate", "absent.csv", "-m", "nsk", "-m", "attention")
    assert 'pip install "bagwise[torch]"' in done.stderr


def test_the_time_of_a_large_task_is_estimated_first(capsys):
    bags, y = Bags(np.zeros((5_000, 600)), np.arange(0, 5_001, 100)), np.arange(50) % 2
    _announce({"majority": DummyClassifier()}, bags, y, 15)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "24 MB, 15 folds x 1 method (majority): estimating the time ..."
    assert second.startswith("about ")
    _announce({"majority": DummyClassifier()}, bags[:10], y[:10], 15)
    assert not capsys.readouterr().err


def test_held_out_predictions_intervals_and_parts(run, slides, data, tmp_path):
    out = tmp_path / "held_out.csv"
    words = (*COLUMNS, "-m", "citation-knn", "--folds", "3", "--repeats", "2", "--group", "patient")
    words += ("--no-baseline", "--predictions", out, "--by", "patient")
    document, methods = evaluated(run, slides, *words)
    model, how = prepared(CitationKNN()), {"cv": 3, "repeats": 2}
    groups = np.array([f"p{i // 2}" for i in range(24)])
    expected = compare({"citation-knn": model}, data.bags, data.y, **how, groups=groups)[0]
    found = methods["citation-knn"]
    for measure, ends in expected.intervals().items():
        assert (found[measure]["lower"], found[measure]["upper"]) == pytest.approx(ends)
    parts = document["parts"]["citation-knn"]
    assert parts["part"] == sorted(set(groups))
    assert parts["accuracy"] == pytest.approx(expected.by(groups)["accuracy"])
    assert document["per_class"]["citation-knn"]["label"] == ["no", "yes"]
    rows = read_rows(out)
    names = ["id", "repeat", "fold", "group", "method", "label", "predicted", "score"]
    assert list(rows[0]) == [*names, "probability"]
    assert len(rows) == 24 * 2
    table = expected.predictions()
    assert [float(row["probability"]) for row in rows] == pytest.approx(table["probability"])
    assert [row["label"] for row in rows] == list(table["label"])
    shown = run.ok("evaluate", slides, *words, "-f").stdout
    assert "95% intervals: bootstrap by patient" in shown
    assert "citation-knn: each patient" in shown
    assert "nan" not in shown  # a patient alone has no interval
    with_site = [row | {"site": "NS"[int(row["slide"][1:]) % 3 == 0]} for row in read_rows(slides)]
    write_rows(slides, [[*with_site[0]], *(row.values() for row in with_site)])
    plain = ("-m", "citation-knn", "--folds", "3", "--no-baseline", "--exclude", "patient")
    document, _ = evaluated(run, slides, *COLUMNS, *plain, "--by", "site")  # is not the group
    assert document["parts"]["citation-knn"]["part"] == ["N", "S"]
    assert "each class" not in shown  # of two


def test_one_class_against_the_rest(run, slides, tmp_path):
    rows = read_rows(slides)
    for row in rows:
        row["tumour"] = {"no": "benign", "yes": "tumour"}[row["tumour"]]
        if row["slide"] in ("s0", "s4", "s8", "s12"):
            row["tumour"] = "healthy"
    file = write_rows(tmp_path / "three.csv", [list(rows[0]), *(r.values() for r in rows)])
    words = (*COLUMNS, "-m", "nsk", "--folds", "3", "--no-baseline")
    document, _ = evaluated(run, file, *words)
    assert document["classes"] == ["benign", "healthy", "tumour"]
    document, methods = evaluated(run, file, *words, "--pos-label", "tumour")
    assert document["classes"] == ["not tumour", "tumour"]
    binary = evaluated(run, slides, *words)[1]
    assert methods["nsk"]["AUC"]["mean"] == pytest.approx(binary["nsk"]["AUC"]["mean"])
    model = tmp_path / "model.skops"
    run.ok("fit", file, *COLUMNS, "-m", "nsk", "--pos-label", "tumour", "-o", model)
    run.ok("predict", model, file, "-o", tmp_path / "out.csv")
    assert {row["predicted"] for row in read_rows(tmp_path / "out.csv")} == {"not tumour", "tumour"}
    pytest.importorskip("jinja2")
    run.ok("report", model, file, "-o", tmp_path / "page.html")
    assert "not tumour" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("method", ["nsk", "auto"])
def test_a_threshold_is_chosen_stored_and_applied(run, slides, tmp_path, method, few_candidates):
    model, out = tmp_path / "model.skops", tmp_path / "out.csv"
    words = (*COLUMNS, "-m", method, "--group", "patient", "-o", model)
    document = json.loads(run.ok("fit", slides, *words, "--sensitivity", ".9", "--json").stdout)
    found = document["threshold"]
    assert (found["rate"], found["wanted"], found["n_positive"]) == ("sensitivity", 0.9, 12)
    low, high = found["rates"]["sensitivity"][1:]
    assert low <= found["rates"]["sensitivity"][0] <= high
    run.ok("predict", model, slides, "-o", out)
    for row in read_rows(out):
        assert (row["predicted"] == "yes") == (float(row["score"]) >= found["value"])
    refused = run.fails("fit", slides, *words, "--sensitivity", ".9", "--precision", ".9", "-f")
    assert "exclude each other" in refused.stderr


def test_background_is_evaluated_as_it_is_fitted(run, tmp_path, rng):
    """The same folds and scores as with the parameter of the method."""
    table = tmp_path / "clips.csv"
    lines = ["bag,label_set,a,b"]
    for bag in range(24):
        names = ["owl", "wren"][: 1 + bag % 2]
        points = [[4 * (name == "owl"), 4 * (name == "wren")] for name in names] + [[0, 0]] * 3
        for a, b in points + 0.3 * rng.normal(size=(len(points), 2)):
            lines.append(f"b{bag},{';'.join(names)},{a},{b}")
    table.write_text("\n".join(lines))
    words = ["evaluate", table, "-m", "orlr", "--folds", "2", "--no-baseline", "--json"]
    flagged, named, plain = (
        json.loads(run.ok(*words, *more).stdout)["methods"][0]["log loss"]
        for more in (["--background"], ["--set", "background=true"], [])
    )
    assert flagged == named
    assert flagged != plain
    refused = run.fails("evaluate", table, "-m", "noisy-or", "--background")
    assert "It is for -m orlr" in refused.stderr
