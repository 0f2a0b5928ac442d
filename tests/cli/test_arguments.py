"""MODEL and FILE in either order, types trusted by name."""

import pytest
from cli.tables import COLUMNS, read_rows
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from bagwise.embedding import BagStatistics
from bagwise.io import read_bags
from bagwise.persistence import save_model

pytest.importorskip("skops")


@pytest.fixture
def model(run, slides, tmp_path):
    path = tmp_path / "model.skops"
    run.ok("fit", slides, *COLUMNS, "-m", "sil", "-o", path)
    return path


def test_swapped_arguments_are_accepted(run, model, slides, tmp_path):
    outputs = []
    for name, words in {"a": (model, slides), "b": (slides, model)}.items():
        run.ok("predict", *words, "-o", tmp_path / f"{name}.csv")
        outputs.append(read_rows(tmp_path / f"{name}.csv"))
    assert outputs[0] == outputs[1]
    pytest.importorskip("jinja2")
    run.ok("report", slides, model, "-o", tmp_path / "page.html")
    refused = run("predict", slides, model, "-o", slides, "--force")
    assert "is an input file" in refused.stderr


def test_a_file_of_another_kind_is_named(run, model, slides, tmp_path):
    result = run("evaluate", model, "-m", "sil")
    assert "model.skops is a model: expected a file of bags" in result.stderr
    result = run("predict", model, model, "-o", tmp_path / "out.csv")
    assert "is a model: expected a file of bags" in result.stderr


def test_types_are_trusted_by_their_names(run, slides, tmp_path):
    data = read_bags(slides, bag="slide", label="tumour", features=["red", "green", "blue"])
    near = KNeighborsClassifier(algorithm="kd_tree")
    near = make_pipeline(BagStatistics(), near).fit(data.bags, data.y)
    path, tree = tmp_path / "near.skops", "sklearn.neighbors._kd_tree.KDTree"
    types = ["sklearn.metrics._dist_metrics.EuclideanDistance64", tree]
    save_model(near, path, trusted=types, metadata={"columns": {"bag": "slide"}})
    words = ("predict", path, slides, "-o", tmp_path / "out.csv")
    refused = run.fails(*words)
    assert "not trusted: " in refused.stderr
    assert tree in refused.stderr
    assert "pass their names with --trust" in refused.stderr
    run.ok(*words, *(word for name in types for word in ("--trust", name)))
    predicted = [row["predicted"] for row in read_rows(tmp_path / "out.csv")]
    assert predicted == near.predict(data.bags).tolist()
