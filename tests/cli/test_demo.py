import json
import sys
from functools import partial

import numpy as np
import pytest
from joblib import parallel_config

from bagwise._demo import sections as demo_sections
from bagwise.auto import AutoBagClassifier
from bagwise.io import read_bags
from bagwise.persistence import load_model
from bagwise.report._page import Table

for package in ("matplotlib", "jinja2", "skops", "pyarrow"):
    pytest.importorskip(package)

FILES = [
    "demo.html",
    "model.skops",
    "musk1.csv",
    "predictions.instances.parquet",
    "predictions.parquet",
    "report.html",
]


@pytest.fixture
def quick(monkeypatch):
    """Only the sections that write files, with few candidates, in this process."""
    sections = (demo_sections.key_shapes, demo_sections.next_steps)
    monkeypatch.setattr(demo_sections, "SECTIONS", sections)
    few = partial(AutoBagClassifier, candidates=["nsk", "mind"], cv=2)
    monkeypatch.setattr(demo_sections, "AutoBagClassifier", few)
    with parallel_config("sequential"):
        yield


def test_a_demo_leaves_files_that_can_be_used(run, quick, tmp_path):
    folder = tmp_path / "demo"
    result = run("demo", "-o", folder)
    assert result.exit_code == 0, result.stderr
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert result.stdout.splitlines()[-1] == str(folder / "report.html")
    assert str(folder / "demo.html") in result.stderr
    assert result.stderr.count("in a browser") == 1
    assert "3-fold cross-validation" in (folder / "report.html").read_text()
    page = (folder / "demo.html").read_text()
    assert "it gives the same scores as before it was saved." in page
    assert "<script" not in page
    model, _ = load_model(folder / "model.skops")
    musk = read_bags(folder / "musk1.csv")
    assert (model.predict(musk.bags) == musk.y).mean() > 0.9
    out = tmp_path / "out.csv"
    words = ("predict", folder / "model.skops", folder / "musk1.csv", "-o", out)
    assert run(*words).exit_code == 0


def test_an_existing_folder_is_kept_and_json_names_the_paths(run, quick, tmp_path):
    folder = tmp_path / "demo"
    folder.mkdir()
    (folder / "demo.html").write_text("mine")
    (folder / "notes.txt").write_text("mine")
    assert run("demo", "-o", folder).exit_code == 2
    assert (folder / "demo.html").read_text() == "mine"
    result = run("demo", "-o", folder, "--force", "--json")
    assert result.exit_code == 0, result.stderr
    assert (folder / "demo.html").read_text() != "mine"
    assert (folder / "notes.txt").read_text() == "mine"
    document = json.loads(result.stdout)
    assert document["report"] == str(folder / "report.html")
    leaderboard, predictions = document["tables"].values()
    assert {row["method"] for row in leaderboard} == {"ensemble", "nsk", "mind"}
    assert len(predictions) == 12


def test_a_file_is_no_folder(run, quick, tmp_path):
    (tmp_path / "demo").write_text("mine")
    assert run("demo", "-o", tmp_path / "demo", "--force").exit_code == 2
    assert (tmp_path / "demo").read_text() == "mine"


def test_a_missing_extra_is_told_before_the_work(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    result = run("demo", "-o", tmp_path / "demo")
    assert result.exit_code == 2
    assert 'pip install "bagwise[report]"' in result.stderr
    assert not (tmp_path / "demo").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of default budgets
def test_every_section_shows_what_it_promises(run, tmp_path):
    result = run("demo", "-o", tmp_path / "demo")
    assert result.exit_code == 0, result.stderr
    for word in ("nsk", "AUC", "baseline: majority", "key instance", "purity"):
        assert word in result.stdout
    page = (tmp_path / "demo" / "demo.html").read_text()
    assert page.count("<h2") == len(demo_sections.SECTIONS)
    assert page.count("<img") == 4
    table = result.stdout.index("The five systems on shipped data")
    assert table > result.stdout.index("Held-out bags")  # the last one
    for system in ("pdMISVM", "ORLR", "CSP", "MIMLCA", "WellSVM"):
        assert system in result.stdout[table:]


@pytest.mark.slow
def test_each_of_the_five_systems_beats_the_plain_method():
    (*_, table) = demo_sections.five_systems(None).parts
    rows = table.columns
    systems = {name.split(",")[0] for name in rows["system"]}
    assert systems == {"pdMISVM", "ORLR", "CSP", "MIMLCA", "WellSVM"}
    for ours, plain, question in zip(rows["ours"], rows["plain"], rows["question"], strict=True):
        assert ours > plain, question


def test_the_nine_is_found():
    section = demo_sections.digits(None)
    facts = next(part for part in section.parts if hasattr(part, "columns")).columns
    right = dict(zip(facts["question"], facts["right"], strict=True))
    assert right["key instance of a bag with a 9 is a 9"] >= 20  # of 25


def test_most_letters_of_new_words_are_named(tmp_path):
    section = demo_sections.letters(tmp_path)
    (table,) = (part for part in section.parts if isinstance(part, Table))
    words, known, alone = table.columns.values()
    assert [len(word) for word in words] == [len(word) for word in known]
    assert all(set(named) <= set(word) for word, named in zip(words, known, strict=True))
    right = [
        np.mean([a == b for a, b in zip("".join(words), "".join(named), strict=True)])
        for named in (known, alone)
    ]
    assert right[0] > 0.85
    assert 0.5 < right[1] <= right[0]
