"""NAME@published: the systems of the papers as printed, on the command line."""

import json

import numpy as np
import pytest
from cli.tables import COLUMNS, read_rows, write_rows
from sklearn.preprocessing import StandardScaler

from bagwise import published
from bagwise.auto._methods import PUBLISHED, find_method
from bagwise.exceptions import InputError
from bagwise.io import read_bags

pytestmark = pytest.mark.filterwarnings("ignore:.*did not converge")
OF_BAGS = [name for name, method in PUBLISHED.items() if method.command is None]
SETS = ("--bag", "recording", "--label-set", "species")


@pytest.fixture
def syllables(tmp_path):
    """Twenty recordings of wrens, robins and owls."""
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    birds, means = ["wren", "robin", "owl"], 4 * np.eye(3)
    rows = [["recording", "species", "pitch", "length", "power"]]
    for i in range(20):
        heard = rng.integers(3, size=rng.integers(2, 6))
        labels = ";".join(sorted({birds[k] for k in heard}))
        rows += [[f"r{i}", labels, *(means[k] + rng.normal(size=3)).tolist()] for k in heard]
    return write_rows(tmp_path / "syllables.csv", rows)


def read_scaled(path):
    data = read_bags(path, bag="recording", label_set="species")
    scaled = StandardScaler().fit_transform(data.bags.instances)
    return data.bags.with_instances(scaled), data.label_sets, data.classes


def test_the_names_of_calls_and_of_our_methods_are_understood():
    names = {
        "wellsvm": "wellsvm",
        "wellsvm_mil": "wellsvm",
        "WellMISVM": "wellsvm",
        "ORLR": "orlr",
        "PrimalDualMISVM": "pdmisvm",
        "mimlca": "mimlca",
    }
    for name, found in names.items():
        assert find_method(f"{name}@published").name == f"{found}@published"
    assert find_method("csp@published", "cluster").factory is published.csp
    with pytest.raises(InputError, match=r"Unknown method nsk@published. Choose from pdmisvm@"):
        find_method("nsk@published")
    with pytest.raises(InputError, match="Unknown method 'csp'"):
        find_method("csp@published")


def test_they_are_listed_with_their_parameters(run):
    listed = run.ok("methods").stdout
    for name, method in PUBLISHED.items():
        assert f"\n{name} " in listed
        shown = run.ok("methods", name).stdout
        assert all(f"{parameter}=" in shown for parameter in method.parameters)
    found = json.loads(run.ok("methods", "csp@published", "--json").stdout)
    assert found[0]["parameters"]["variant"] == "csp"


@pytest.mark.parametrize("method", OF_BAGS)
def test_every_classifier_goes_through_a_file(run, slides, method):
    model, out = slides.parent / "m.skops", slides.parent / "out.csv"
    own = ["--set", "n_references=2", "--set", "n_citers=2"] if "mimlca" in method else []
    run.ok("fit", slides, *COLUMNS, "-m", method, *own, "-o", model)
    run.ok("predict", model, slides, "-o", out)
    assert len(read_rows(out)) == 24


def test_evaluate_compares_the_paper_with_our_default(run, slides):
    words = ("-m", "pdmisvm", "-m", "pdmisvm@published", "--folds", 2, "--no-baseline")
    more = ("--set", "pdmisvm@published.solver=inexact", "--json")
    found = json.loads(run.ok("evaluate", slides, *COLUMNS, *words, *more).stdout)
    assert [row["name"] for row in found["methods"]] == ["pdmisvm", "pdmisvm@published"]
    message = run.fails("evaluate", slides, *COLUMNS, *words, "--set", "nu=1").stderr
    assert "has no parameter 'nu'" in message


def test_annotate_is_the_printed_orlr(run, syllables):
    out = syllables.parent / "annotated.csv"
    words = ("-m", "orlr@published", "--set", "max_iter=7")
    run.ok("annotate", syllables, *SETS, *words, "-o", out)
    bags, label_sets, classes = read_scaled(syllables)
    model = published.orlr(7).fit(bags, label_sets)
    proba = model.annotate_proba(bags, label_sets)
    rows = read_rows(out)
    assert [row["label"] for row in rows] == classes[proba.argmax(axis=1)].tolist()
    written = [float(row["probability"]) for row in rows]
    np.testing.assert_allclose(written, proba.max(axis=1), rtol=1e-9)
    message = run.fails("annotate", syllables, *SETS, "-m", "nsk", "-o", out, "--force").stderr
    assert "nsk does not annotate instances: use -m orlr" in message


def test_cluster_is_the_printed_csp(run, syllables):
    out = syllables.parent / "clusters.csv"
    words = ("-k", 3, "--no-report", "--set", "variant=splearn")
    run.ok("cluster", syllables, *SETS, "-m", "csp@published", *words, "-o", out)
    bags, label_sets, _ = read_scaled(syllables)
    model = published.csp(3, variant="splearn", random_state=0).fit(bags, label_sets)
    assert [int(row["cluster"]) for row in read_rows(out)] == model.labels_.tolist()
