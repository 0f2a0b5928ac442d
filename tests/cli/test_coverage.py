"""``predict --coverage``: sets of classes and intervals of numbers."""

import numpy as np
import pandas as pd
import pytest

from bagwise import fit
from bagwise.datasets import make_bags
from bagwise.io import read_bags
from bagwise.persistence import load_model

pytest.importorskip("skops")
CLASSES = ("healthy", "tumour")  # coded: the names are not in the order of the scores


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    data = make_bags(60, 3, separation=2.0, random_state=0)
    frame = pd.DataFrame(data.bags.instances, columns=["a", "b", "c"])
    frame["bag"] = data.bags.bag_index
    frame["label"] = np.array(CLASSES)[data.y][frame.bag]
    means = frame.groupby("bag")[["a", "b"]].mean()
    frame["size"], frame["mass"] = means.a[frame.bag].values, means.b[frame.bag].values + 9
    folder = tmp_path_factory.mktemp("table")
    frame.to_csv(folder / "all.csv", index=False)
    frame.drop(columns=["label", "size", "mass"]).to_csv(folder / "new.csv", index=False)
    return folder


def fitted(run, table, out, label, candidate, *more):
    others = [name for name in ("label", "size", "mass") if name not in label]
    words = [
        "--label",
        label,
        "--exclude",
        ",".join(others),
        "--set",
        f"candidates=['{candidate}']",
    ]
    run.ok("fit", table / "all.csv", *words, *more, "-o", out, "-f")
    return ["predict", out, table / "new.csv", "-o", out.with_suffix(".csv")]


def test_sets_have_the_names_of_the_classes(table, run, tmp_path):
    words = fitted(run, table, tmp_path / "m.skops", "label", "nsk", "--pos-label", "healthy")
    run.ok(*words, "--coverage", "0.95")
    found = pd.read_csv(tmp_path / "m.csv", keep_default_na=False)
    model, facts = load_model(tmp_path / "m.skops")
    bags = read_bags(table / "new.csv").bags
    expected = model.predict_set(bags, 0.95)
    names = np.array(facts["classes"])
    assert names.tolist() == ["tumour", "healthy"]
    assert found["set"].tolist() == [";".join(names[row]) or "{}" for row in expected]
    assert 60 < expected.sum() < 120
    truth = pd.read_csv(table / "all.csv").groupby("bag").label.first()
    assert np.mean([own in cell for own, cell in zip(truth, found["set"], strict=True)]) > 0.9
    done = run.ok(*words, "--coverage", "0.3", "-f")
    few = pd.read_csv(tmp_path / "m.csv")  # {} is a value, an empty cell would be missing
    empty = ~model.predict_set(bags, 0.3).any(axis=1)
    assert empty.any()
    assert (few["set"] == "{}").tolist() == empty.tolist()
    assert f"{empty.sum()} sets are {{}}: no class is plausible" in done.stderr
    by_class = model.predict_set(bags, 0.95, by="class")
    own = model[-1].predict_set(model[:-1].transform(bags), 0.95, "class")
    np.testing.assert_array_equal(by_class, own)
    assert "less than or equal to 1" in run.fails(*words, "--coverage", "90", "-f").stderr
    message = run.fails(*words, "--coverage", "1", "-f").stderr
    assert "coverage=1.0: expected a number between" in message


def test_intervals_have_two_columns_for_each_number(table, run, tmp_path):
    one = fitted(run, table, tmp_path / "one.skops", "size", "pooled-ridge")
    assert "No file of instances" not in run.ok(*one, "--coverage", "0.8").stderr
    found = pd.read_csv(tmp_path / "one.csv")
    model, _ = load_model(tmp_path / "one.skops")
    bags = read_bags(table / "new.csv").bags
    np.testing.assert_allclose(found[["lower", "upper"]], model.predict_interval(bags, 0.8))
    np.testing.assert_allclose((found.lower + found.upper) / 2, found.predicted)
    message = run.fails(*one, "--coverage", "0.999", "-f").stderr
    assert "coverage=0.9" in message
    assert "choose at most 0.9836" in message
    both = fitted(run, table, tmp_path / "two.skops", "size,mass", "pooled-ridge")
    assert "No file of instances, because a model of several numbers" in run.ok(*both).stderr
    run.ok(*both, "--coverage", "0.8", "-f")
    found = pd.read_csv(tmp_path / "two.csv")
    for name in ("size", "mass"):
        middle = (found[f"lower_{name}"] + found[f"upper_{name}"]) / 2
        np.testing.assert_allclose(middle, found[f"predicted_{name}"])


def test_frames_have_sets_too(table):
    frame = pd.read_csv(table / "all.csv")
    how = {"exclude": ["size", "mass"], "verbose": False}
    found = fit(frame, parameters={"candidates": ["nsk"]}, **how)
    sets = found.predict(frame, coverage=0.9)["set"]
    expected = found.model.predict_set(found.data.bags, 0.9).sum(axis=1)
    assert [len(cell.split(";")) if cell else 0 for cell in sets] == expected.tolist()
    assert {"healthy", "tumour"} <= {*sets}
    assert "set" not in found.predict(frame)


def test_other_models_are_refused(table, run, tmp_path):
    words = ["--exclude", "size,mass", "-m", "pooled-trees", "-o", tmp_path / "m.skops"]
    run.ok("fit", table / "all.csv", *words)
    words = ["predict", tmp_path / "m.skops", table / "new.csv", "-o", tmp_path / "out.csv"]
    message = run.fails(*words, "--coverage", "0.9").stderr
    assert "coverage=0.9" in message
    assert "bagwise fit without -m" in message
    assert not (tmp_path / "out.csv").exists()
    assert "No file of instances, because" in run.ok(*words).stderr
