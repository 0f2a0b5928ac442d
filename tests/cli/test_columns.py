"""Columns on the command line that are not features, or are copied to the results."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from cli.tables import read_rows, write_rows
from sklearn.impute import SimpleImputer
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise.classification import SetKernelSVM
from bagwise.io import read_bags
from bagwise.persistence import load_model
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline

pytest.importorskip("pyarrow")
pytest.importorskip("skops")
WORDS = ("--bag", "slide", "--label", "tumour")


@pytest.fixture
def patches(tmp_path):
    """Slides with all that a table of patches has beside the features."""
    rng = np.random.default_rng(0)
    rows = [["slide", "tumour", "age", "patch_id", "file", "red", "green"]]
    for i in range(24):
        for j in range(2 + i % 3):
            colour = rng.normal(size=2) + 4 * (i % 2 and j == 0)
            row = [f"s{i}", "yes" if i % 2 else "no", 40 + i, j, f"{i}_{j}.png"]
            rows.append([*row, *colour.tolist()])
    return write_rows(tmp_path / "patches.csv", rows)


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "-m", "sil", "--folds", "2", "--no-baseline"),
        ("fit", "-m", "sil", "-o", "new.skops"),
        ("cluster", "-k", "2", "-o", "new.csv", "--no-report"),
        ("annotate", "--background", "-o", "new.csv"),
    ],
    ids=lambda words: words[0],
)
def test_metadata_is_not_learned_from(run, patches, monkeypatch, command):
    monkeypatch.chdir(patches.parent)
    name, *words = command
    result = run.fails(name, patches, *WORDS, *words, "--exclude", "file")
    line = result.stderr.splitlines()[-1]
    assert "'age': constant within every bag" in line
    assert "--exclude, copy them to the results with --keep, or name" in line
    assert sorted(path.name for path in patches.parent.iterdir()) == ["patches.csv"]
    result = run.ok(name, patches, *WORDS, *words, "--exclude", "file", "--keep", "age")
    assert "Not used as features, judging by their names: patch_id." in result.stderr
    assert "features: 2 (red, green)" in result.stderr


def test_info_names_what_looks_like_metadata(run, patches):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = run("info", patches, *WORDS, "--exclude", "file")
    assert result.exit_code == 0
    assert "Warning: " in result.stderr
    assert "'age': constant within every bag" in result.stderr


def test_kept_columns_travel_from_the_fit_to_the_results(run, patches, tmp_path):
    model, out = tmp_path / "m.skops", tmp_path / "out.csv"
    keep = ("--keep", "age,patch_id", "--keep", "file")
    run.ok("fit", patches, *WORDS, *keep, "-m", "sil", "-o", model)
    assert load_model(model)[1]["columns"]["keep"] == ["age", "patch_id", "file"]
    result = run.ok("predict", model, patches, "-o", out)
    assert "features: 2 (red, green)" in result.stderr
    table = read_rows(patches)
    instances = read_rows(tmp_path / "out.instances.csv")
    for mine, theirs in zip(instances, table, strict=True):
        assert [mine[name] for name in ("age", "patch_id", "file")] == [
            theirs[name] for name in ("age", "patch_id", "file")
        ]
    by_place = {(row["slide"], row["patch_id"]): row for row in table}
    for row in read_rows(out):
        assert list(row)[:5] == ["bag", "age", "key_patch_id", "key_file", "predicted"]
        key = by_place[row["bag"], row["key_instance"]]
        assert (row["age"], row["key_file"]) == (key["age"], key["file"])
        assert row["key_patch_id"] == row["key_instance"]
    # A new table needs none of them, and may have others.
    new = tmp_path / "new.csv"
    write_rows(new, [["slide", "site", "red", "green"], ["a", "X", 1, 2], ["a", "X", 1, 3]])
    run.ok("predict", model, new, "-o", out, "-f", "--keep", "site")
    assert [row["site"] for row in read_rows(out)] == ["X"]


def test_a_kept_column_has_a_name_of_its_own(run, patches, tmp_path):
    table = tmp_path / "named.csv"
    table.write_text(patches.read_text().replace("file", "label", 1))
    words = ("--label-set", "tumour", "--keep", "label,age", "--background")
    result = run.fails("annotate", table, *WORDS[:2], *words, "-o", tmp_path / "out.csv")
    assert "the column 'label' cannot be kept" in result.stderr


@pytest.fixture
def gaps(tmp_path):
    """Slides with gaps in their features, one of them in a feature of few values."""
    rng = np.random.default_rng(1)
    rows = [["slide", "tumour", "red", "green", "blue"]]
    for i in range(30):
        for _ in range(3):
            colour = (rng.normal(size=3) + 3 * (i % 2)).tolist()
            gone = rng.random(3) < 0.2
            values = ["" if g else c for g, c in zip(gone, colour, strict=True)]
            rows.append([f"s{i}", "yes" if i % 2 else "no", *values])
    return write_rows(tmp_path / "gaps.csv", rows)


@pytest.mark.parametrize("how", ["mean", "median"])
def test_gaps_are_filled_inside_the_folds(run, gaps, how):
    words = ("evaluate", gaps, *WORDS, "-m", "nsk", "--folds", "3", "--json")
    refused = run.fails(*words)
    assert "fill the gaps with --impute mean" in refused.stderr
    result = run.ok(*words, "--impute", how)
    document = json.loads(result.stdout)
    assert document["impute"] == how
    data = read_bags(gaps, bag="slide", label="tumour")
    imputer = SimpleImputer(strategy=how)
    model = make_bag_pipeline(
        InstanceTransformer(make_pipeline(imputer, StandardScaler()), clip=10), SetKernelSVM()
    )
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    expected = cross_val_score(model, data.bags, data.y, cv=folds)
    assert document["methods"][0]["accuracy"]["folds"] == pytest.approx(expected.tolist())
    names = [method["name"] for method in document["methods"]]
    assert "baseline: pooled trees" in names
    assert "'mode' is not one of 'mean', 'median'" in run(*words, "--impute", "mode").stderr


def test_a_model_fills_the_gaps_of_new_bags(run, gaps, tmp_path):
    model, out = tmp_path / "m.skops", tmp_path / "out.csv"
    fit = ("fit", gaps, *WORDS, "-m", "sil", "--impute", "median", "-o", model)
    run.ok(*fit)
    fitted, metadata = load_model(model)
    assert metadata["impute"] == "median"
    columns = [
        [float(row[name]) for row in read_rows(gaps) if row[name]]
        for name in ("red", "green", "blue")
    ]
    statistics = fitted.named_steps["impute"].transformer_.statistics_
    np.testing.assert_allclose(statistics, [np.median(column) for column in columns])
    run.ok("predict", model, gaps, "-o", out)
    assert len(read_rows(out)) == 30
    pytest.importorskip("jinja2")
    run.ok("report", model, gaps, "--folds", "3", "-o", tmp_path / "page.html")


def test_annotations_and_clusters_of_bags_with_gaps(run, gaps, tmp_path):
    for command in (("annotate", "--background"), ("cluster", "-k", "2", "--no-report")):
        words = (*command, gaps, *WORDS, "-o", tmp_path / f"{command[0]}.csv")
        assert "--impute mean" in run(*words).stderr
        run.ok(*words, "--impute", "mean")


def test_two_label_columns_are_refused(run, slides):
    for name in ("--label-set", "--label"):
        words = run.fails("fit", slides, name, "a", f"{name}=b", "-o", "m.skops").stderr
        assert f"{name} is given twice, and names one column" in words


def test_columns_of_bags_are_used(run, tmp_path):
    pytest.importorskip("skops")
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(40), 3)
    frame = pd.DataFrame({"bag": bag, "label": bag % 2, "x": rng.normal(size=120)})
    frame["age"] = np.round(60 + 10 * (bag % 2) + 4 * rng.normal(size=40)[bag], 1)
    frame["site"] = np.array(["Bonn", "Ulm"])[rng.integers(2, size=40)[bag]]
    frame.to_csv(tmp_path / "t.csv", index=False)
    own = ("--use-columns", "age,site")
    few = ("--set", "candidates=['columns','nsk']", "--folds", "2")
    model, table = str(tmp_path / "m.skops"), str(tmp_path / "t.csv")
    run.ok("fit", table, "-o", model, *own, *few)
    run.ok("predict", model, table, "-o", str(tmp_path / "p.csv"))
    predicted = pd.read_csv(tmp_path / "p.csv")
    assert (predicted.predicted == np.arange(40) % 2).mean() > 0.75
    failed = run("fit", table, "-o", model, "--force", "-m", "nsk", *own)
    assert "--use-columns does not apply to nsk" in failed.stderr
