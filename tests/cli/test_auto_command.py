"""`bagwise fit` and `evaluate` without a method: the automatic choice."""

import json

import pytest

FEW = ["--set", "candidates=['nsk','mind']", "--set", "cv=2"]


@pytest.fixture
def table(run, tmp_path):
    path = tmp_path / "musk1.csv"
    assert run("datasets", "export", "musk1", "-o", str(path)).exit_code == 0
    return str(path)


def test_fit_shows_what_each_method_is_worth(run, table, tmp_path):
    pytest.importorskip("skops")
    model = str(tmp_path / "model.skops")
    result = run("fit", table, "-o", model, *FEW)
    assert result.exit_code == 0, result.stderr
    assert "weight" in result.stdout
    assert {"ensemble", "nsk", "mind"} <= set(result.stdout.split())
    assert "auto learned from 92 bags" in result.stderr
    out = str(tmp_path / "predicted.csv")
    assert run("predict", model, table, "-o", out).exit_code == 0


def test_json_carries_the_leaderboard(run, table, tmp_path):
    pytest.importorskip("skops")
    model = str(tmp_path / "model.skops")
    result = run("fit", table, "-o", model, "--json", *FEW)
    found = json.loads(result.stdout)
    assert found["method"] == "auto"
    assert sorted(found["leaderboard"]["method"]) == ["ensemble", "mind", "nsk"]


def test_evaluate_is_nested(run, table):
    result = run("evaluate", table, "--folds", "2", "--json", *FEW)
    assert result.exit_code == 0, result.stderr
    names = [method["name"] for method in json.loads(result.stdout)["methods"]]
    assert names == ["auto", "baseline: majority", "baseline: pooled trees"]
