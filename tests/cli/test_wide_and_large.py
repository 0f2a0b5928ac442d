"""Options for wide features (--pca) and for large tables (--memory-limit)."""

import json

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

import bagwise._common.tables
from bagwise import Bags
from bagwise.classification import SetKernelSVM
from bagwise.compute import blocks
from bagwise.evaluate import evaluate
from bagwise.io import write_bags
from bagwise.persistence import load_model
from bagwise.preprocessing import InstancePCA, make_bag_pipeline
from bagwise.preprocessing._bag_pipeline import instance_scaler


def wide(n_bags=24, n_features=300):
    """Labelled bags with a signal in one of many directions."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(5, 9, size=n_bags)
    y = np.arange(n_bags) % 2
    hidden = rng.normal(size=(sizes.sum(), 3)) * 3
    hidden[:, 0] += 4 * np.repeat(y, sizes)
    rows = hidden @ rng.normal(size=(3, n_features)) + rng.normal(size=(len(hidden), n_features))
    return Bags.from_arrays(np.split(rows.astype(np.float32), np.cumsum(sizes)[:-1])), y


@pytest.fixture
def file(tmp_path):
    bags, y = wide()
    write_bags(tmp_path / "wide.npz", bags, y=y, compress=False)
    return tmp_path / "wide.npz"


def scores(found):
    assert found.exit_code == 0, found.stderr
    return {each["name"]: each["AUC"]["folds"] for each in json.loads(found.stdout)["methods"]}


def test_components_are_fitted_inside_the_folds(run, file):
    found = run("evaluate", file, "-m", "nsk", "--pca", "3", "--folds", "3", "--json")
    bags, y = wide()
    model = make_bag_pipeline(InstancePCA(3), instance_scaler(sparse=False), SetKernelSVM())
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    expected = evaluate(model, bags, y, cv=list(folds.split(y, y))).scores["AUC"]
    np.testing.assert_allclose(scores(found)["nsk"], expected)


def test_without_scale_components_are_those_of_the_covariance(run, file, tmp_path):
    pytest.importorskip("skops")
    output = tmp_path / "model.skops"
    run.ok("fit", file, "-m", "nsk", "--pca", "auto", "--no-scale", "-o", output)
    model = load_model(output)[0]
    assert [name for name, _ in model.steps] == ["pca", "model"]
    expected = InstancePCA(standardize=False).fit(wide()[0])
    np.testing.assert_allclose(model[0].components_, expected.components_, atol=1e-6)
    run.ok("predict", output, file, "-o", tmp_path / "predicted.csv")


def test_many_features_of_few_bags_lead_to_advice(run, file):
    words = ("evaluate", file, "-m", "nsk", "--folds", "2", "--json")
    assert "300 features are many for 24 bags" in run(*words).stderr
    assert "--pca auto" in run(*words).stderr
    assert "many for" not in run(*words, "--pca", "auto").stderr


@pytest.mark.parametrize("pca", ["0", "-3", "few", "1.5", ""])
def test_a_number_of_components_or_auto(run, file, pca):
    found = run.fails("evaluate", file, "-m", "nsk", f"--pca={pca}")
    assert "expected a number of components, such as 32, or auto" in found.stderr


@pytest.fixture
def all_lazy(monkeypatch):
    """Small tables are treated as large ones; what was mapped is recorded."""
    monkeypatch.setattr(bagwise._common.tables, "COPIED_AT_ONCE", 0)
    monkeypatch.setattr(blocks, "BLOCK", 2000)


@pytest.mark.parametrize("pca", [(), ("--pca", "3")])
def test_scores_do_not_depend_on_the_memory_limit(run, file, all_lazy, pca):
    words = ("evaluate", file, "-m", "pdmisvm", "-m", "nsk", "--folds", "2", "--json", *pca)
    small = scores(run(*words, "--memory-limit", "1KB"))
    for name, expected in scores(run(*words)).items():
        np.testing.assert_allclose(small[name], expected, rtol=1e-6, err_msg=name)
