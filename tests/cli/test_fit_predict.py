import json

import numpy as np
import pytest
from cli.tables import COLUMNS, read_rows, slide_rows, write_rows
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise.auto._methods import METHODS
from bagwise.classification import SetKernelSVM
from bagwise.io import read_bags, write_bags
from bagwise.preprocessing import InstanceTransformer

pytest.importorskip("skops")
FEATURES = ["red", "green", "blue"]


@pytest.fixture
def fitted(run, slides):
    """A model of slides, by nsk with C = 10."""
    path = slides.parent / "model.skops"
    result = run.ok("fit", slides, *COLUMNS, "-m", "nsk", "--set", "C=10", "-o", path)
    assert result.stdout == ""
    return path


def in_python(slides):
    data = read_bags(slides, bag="slide", label="tumour", features=FEATURES)
    model = make_pipeline(InstanceTransformer(StandardScaler()), SetKernelSVM(C=10))
    return data, model.fit(data.bags, data.y)


def test_predictions_are_those_of_the_same_model_in_python(run, slides, fitted):
    out = slides.parent / "out.csv"
    result = run("predict", fitted, slides, "-o", out)
    assert (result.exit_code, result.stdout) == (0, "")
    data, model = in_python(slides)
    rows = read_rows(out)
    assert [row["bag"] for row in rows] == data.bags.ids.tolist()
    assert [row["predicted"] for row in rows] == model.predict(data.bags).tolist()
    scores = [float(row["score"]) for row in rows]
    np.testing.assert_allclose(scores, model.decision_function(data.bags), rtol=1e-12)
    instances = read_rows(slides.parent / "out.instances.csv")
    assert len(instances) == data.bags.n_instances
    keys = [int(row["key_instance"]) for row in rows]
    marked = [int(row["row"]) for row in instances if row["key"] == "True"]
    seen = model[:-1].transform(data.bags)
    assert keys == marked == model[-1].key_instances(seen).tolist()


def test_features_are_found_by_name(run, slides, fitted):
    header, *rows = slide_rows()
    order = [header.index(name) for name in ("blue", "slide", "green", "red")]
    shuffled = [["blue", "slide", "green", "red"], *([row[j] for j in order] for row in rows)]
    new = write_rows(slides.parent / "new.csv", shuffled)  # and no labels
    run("predict", fitted, slides, "-o", slides.parent / "old.csv")
    run.ok("predict", fitted, new, "-o", slides.parent / "out.csv")
    for name in ("", ".instances"):
        out, old = slides.parent / f"out{name}.csv", slides.parent / f"old{name}.csv"
        assert out.read_text() == old.read_text()


def test_a_missing_feature_is_named(run, slides, fitted):
    new = write_rows(slides.parent / "new.csv", [["slide", "red", "blue"], ["s", 1, 2]])
    result = run.fails("predict", fitted, new, "-o", slides.parent / "out.csv")
    assert "'green'" in result.stderr
    assert not (slides.parent / "out.csv").exists()


def test_npz_features_are_put_in_order(run, slides, fitted):
    data, model = in_python(slides)
    turned = data.bags.with_instances(
        data.bags.instances[:, [2, 0, 1]], feature_names=["blue", "red", "green"]
    )
    write_bags(slides.parent / "new.npz", turned)
    out = slides.parent / "out.csv"
    run.ok("predict", fitted, slides.parent / "new.npz", "-o", out)
    assert [row["predicted"] for row in read_rows(out)] == model.predict(data.bags).tolist()


def test_vectors_in_one_column(run, tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = slide_rows()[1:]
    numbers = np.array([row[3:] for row in rows], dtype=float)
    table = pa.table(
        {
            "slide": [row[0] for row in rows],
            "tumour": [row[2] for row in rows],
            "embedding": pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), 3),
        }
    )
    parquet.write_table(table, tmp_path / "old.parquet")
    parquet.write_table(table.drop_columns(["tumour"]), tmp_path / "new.parquet")
    model, out = tmp_path / "m.skops", tmp_path / "out.csv"
    words = ("--bag", "slide", "--label", "tumour", "-m", "sil", "-o", model)
    run.ok("fit", tmp_path / "old.parquet", *words)
    run.ok("predict", model, tmp_path / "old.parquet", "-o", out)
    expected = out.read_text()
    run.ok("predict", model, tmp_path / "new.parquet", "-o", out, "--force")
    assert out.read_text() == expected


@pytest.mark.parametrize("method", METHODS)
def test_every_method_goes_through_a_file(run, slides, method):
    if not METHODS[method].available:
        pytest.skip(f"{method} needs {METHODS[method].needs}")
    model, out = slides.parent / "m.skops", slides.parent / "out.csv"
    run.ok("fit", slides, *COLUMNS, "-m", method, "-o", model)
    run.ok("predict", model, slides, "-o", out)
    truth = {row[0]: row[2] for row in slide_rows()[1:]}
    right = [row["predicted"] == truth[row["bag"]] for row in read_rows(out)]
    assert np.mean(right) > 0.7  # on its own training bags


def test_a_positive_label_may_come_first_in_order(run, tmp_path):
    rows = slide_rows()
    for row in rows[1:]:
        row[2] = {"yes": "cancer", "no": "normal"}[row[2]]
    slides = write_rows(tmp_path / "slides.csv", rows)
    outputs = {}
    for positive in ("cancer", "normal"):
        model, out = tmp_path / f"{positive}.skops", tmp_path / f"{positive}.csv"
        words = (*COLUMNS, "-m", "sil", "--positive", positive, "-o", model)
        assert f"({positive} is positive)" in run("fit", slides, *words).stderr
        run.ok("predict", model, slides, "-o", out)
        outputs[positive] = read_rows(out)
    # SIL takes the largest score: it points to the patch that shows the tumour, the first.
    ill = [row for row in outputs["cancer"] if row["predicted"] == "cancer"]
    assert len(ill) >= 10
    assert np.mean([row["key_instance"] == "0" for row in ill]) > 0.8
    assert {row["predicted"] for row in outputs["normal"]} <= {"cancer", "normal"}


@pytest.mark.filterwarnings("default:.* as the positive class:UserWarning")
def test_names_of_labels_tell_which_is_positive(run, tmp_path):
    rows = slide_rows()
    for row in rows[1:]:
        row[2] = {"yes": "active", "no": "inactive"}[row[2]]
    slides, model, out = write_rows(tmp_path / "s.csv", rows), tmp_path / "m.skops", tmp_path / "o"
    found = run("fit", slides, *COLUMNS, "-m", "misvm-bag", "-o", model)
    assert "(active is positive)" in found.stderr
    assert "Warning" not in found.stderr
    run.ok("predict", model, slides, "-o", out.with_suffix(".csv"))
    read = read_rows(out.with_suffix(".csv"))
    assert {row["predicted"] for row in read if float(row["score"]) > 0} == {"active"}
    for row in rows[1:]:
        row[2] = {"active": "cat", "inactive": "dog"}[row[2]]
    found = run("evaluate", write_rows(tmp_path / "t.csv", rows), *COLUMNS, "-m", "misvm-bag")
    assert found.stderr.count("--pos-label") == 1


def test_label_sets_keep_their_names(run, tmp_path):
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    rows = [["bag", "label_set", "x", "y"]]
    for i in range(20):
        sets = ["cat", "cat|dog", ""][i % 3]
        rows += [[f"b{i}", sets, *(rng.normal(size=2) + 5 * (i % 3))] for _ in range(3)]
    table = write_rows(tmp_path / "t.csv", rows)
    model, out = tmp_path / "m.skops", tmp_path / "out.csv"
    words = ("-m", "citation-knn", "--separator", "|", "-o", model)
    run.ok("fit", table, *words)
    run.ok("predict", model, table, "-o", out)
    rows = read_rows(out)
    assert {row["predicted"] for row in rows} <= {"cat", "cat|dog", ""}
    assert {"score_cat", "probability_dog", "key_instances"} <= set(rows[0])
    both = next(row for row in rows if row["predicted"] == "cat|dog")
    assert [part.partition(":")[0] for part in both["key_instances"].split("|")] == ["cat", "dog"]
    assert "one label per bag" in run("fit", table, "-m", "nsk", "-o", tmp_path / "x").stderr


def test_what_is_read_is_never_overwritten(run, slides):
    before = slides.read_bytes()
    model = slides.parent / "m.skops"
    result = run.fails("fit", slides, *COLUMNS, "-m", "nsk", "-o", slides, "--force")
    assert "is an input file" in result.stderr
    run.ok("fit", slides, *COLUMNS, "-m", "nsk", "-o", model)
    saved = model.read_bytes()
    for output in (slides, model):
        run.fails("predict", model, slides, "-o", output, "--force")
    assert slides.read_bytes() == before
    assert model.read_bytes() == saved


def test_folds_and_seed_of_a_fit_are_parameters_of_its_method(run, slides, tmp_path):
    model = tmp_path / "m.skops"
    words = ("fit", slides, *COLUMNS, "-o", model)
    result = run.ok(*words, "-m", "misvm-bag", "--seed", "3", "--json")
    assert json.loads(result.stdout)["parameters"] == {"random_state": 3}
    result = run(*words, "-f", "-m", "sil", "--seed", "3")
    assert "--seed does not apply to sil" in result.stderr
    result = run(*words, "-f", "-m", "nsk", "--folds", "3")
    assert "--folds does not apply to nsk" in result.stderr
