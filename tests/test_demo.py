"""``make demo``: the sections of examples/demo.py, and the files that it leaves."""

import importlib.util
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from joblib import parallel_config

for package in ("matplotlib", "jinja2", "skops", "pyarrow"):
    pytest.importorskip(package)

from bagwise.auto import AutoBagClassifier
from bagwise.io import read_bags
from bagwise.persistence import load_model
from bagwise.report._page import Table

FILES = [
    "demo.html",
    "model.skops",
    "musk1.csv",
    "predictions.instances.parquet",
    "predictions.parquet",
    "report.html",
]


@pytest.fixture(scope="module")
def demo():
    path = Path(__file__).parents[1] / "examples" / "demo.py"
    spec = importlib.util.spec_from_file_location("demo", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_demo_leaves_files_that_can_be_used(demo, tmp_path, monkeypatch, capsys):
    few = partial(AutoBagClassifier, candidates=["nsk", "mind"], cv=2)
    monkeypatch.setattr(demo, "AutoBagClassifier", few)
    folder = tmp_path / "demo"
    folder.mkdir()
    (folder / "demo.html").touch()  # the folder of an earlier demo may be used again
    with parallel_config("sequential"):
        demo.main(folder, (demo.key_shapes, demo.next_steps))
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert capsys.readouterr().out.splitlines()[-1] == str(folder / "report.html")
    assert "3-fold cross-validation" in (folder / "report.html").read_text()
    page = (folder / "demo.html").read_text()
    assert "it gives the same scores as before it was saved." in page
    assert "<script" not in page
    model, _ = load_model(folder / "model.skops")
    musk = read_bags(folder / "musk1.csv")
    assert (model.predict(musk.bags) == musk.y).mean() > 0.9


def test_another_folder_is_refused(demo, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(SystemExit, match="exists already"):
        demo.main(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of default budgets
def test_every_section_shows_what_it_promises(demo, tmp_path, capsys):
    with parallel_config("sequential"):
        demo.main(tmp_path / "demo")
    shown = capsys.readouterr().out
    for word in ("nsk", "AUC", "baseline: majority", "key instance", "purity"):
        assert word in shown
    page = (tmp_path / "demo" / "demo.html").read_text()
    assert page.count("<h2") == len(demo.SECTIONS)
    assert page.count("<img") == 4
    table = shown.index("The five systems on shipped data")
    assert table > shown.index("Held-out bags")  # the last one
    for system in ("pdMISVM", "ORLR", "CSP", "MIMLCA", "WellSVM"):
        assert system in shown[table:]


@pytest.mark.slow
def test_each_of_the_five_systems_beats_the_plain_method(demo):
    (*_, table) = demo.five_systems(None).parts
    rows = table.columns
    systems = {name.split(",")[0] for name in rows["system"]}
    assert systems == {"pdMISVM", "ORLR", "CSP", "MIMLCA", "WellSVM"}
    for ours, plain, question in zip(rows["ours"], rows["plain"], rows["question"], strict=True):
        assert ours > plain, question


def test_the_nine_is_found(demo):
    section = demo.digits(None)
    facts = next(part for part in section.parts if hasattr(part, "columns")).columns
    right = dict(zip(facts["question"], facts["right"], strict=True))
    assert right["key instance of a bag with a 9 is a 9"] >= 20  # of 25


def test_most_letters_of_new_words_are_named(demo, tmp_path):
    section = demo.letters(tmp_path)
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
