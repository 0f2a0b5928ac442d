"""`bagwise fit` and `evaluate` without a method: the automatic choice."""

import json

import pytest

pytest.importorskip("pyarrow")

FEW = ["--set", "candidates=['nsk','mind']", "--set", "cv=2"]


@pytest.fixture
def table(run, tmp_path):
    path = tmp_path / "musk1.csv"
    run.ok("datasets", "export", "musk1", "-o", str(path))
    return str(path)


def test_fit_shows_what_each_method_is_worth(run, table, tmp_path):
    pytest.importorskip("skops")
    model = str(tmp_path / "model.skops")
    result = run.ok("fit", table, "-o", model, *FEW)
    assert "weight" in result.stdout
    assert {"ensemble", "nsk", "mind"} <= set(result.stdout.split())
    assert "auto learned from 92 bags" in result.stderr
    out = str(tmp_path / "predicted.csv")
    run.ok("predict", model, table, "-o", out)


@pytest.mark.filterwarnings("ignore:AutoBagClassifier learned nothing")
def test_groups_change_the_folds_of_a_fit(run, tmp_path):
    pytest.importorskip("skops")
    rows = ["bag,label,patient,x,y"]
    for i in range(24):
        rows += [f"b{i},{i % 2},p{i // 3},{i % 5 + i % 2},{k}" for k in range(2)]
    table = tmp_path / "slides.csv"
    table.write_text("\n".join(rows))
    scores = []
    for k, words in enumerate([[], ["--group", "patient"]]):
        model = str(tmp_path / f"{k}.skops")
        columns = ["--bag", "bag", "--label", "label", "--features", "x,y"]
        result = run.ok("fit", table, *columns, "-o", model, "--json", *FEW, *words)
        scores.append(json.loads(result.stdout)["leaderboard"]["log_loss"])
    assert scores[0] != scores[1]
