import importlib.metadata
import json
import re

import pytest
from cli.tables import write_rows


def test_the_versions_of_the_installation(run):
    result = run.ok("info", "--versions")
    names = {line.split()[0] for line in result.stdout.splitlines() if line.strip()}
    assert names >= {"bagwise", "numpy", "torch", "cores", "data"}


def test_a_checkout_that_is_not_installed_has_versions_too(run, monkeypatch):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.requires", absent)
    shown = run.ok("info", "--versions").stdout
    for name in ("numpy", "scikit-learn", "pyarrow", "scikit-survival"):
        assert re.search(rf"^{name} +\S", shown, flags=re.MULTILINE), name


def test_facts_are_those_of_the_file(run, tmp_path, slides):
    rows = [
        ["bag", "label", "x", "same"],
        ["a", "no", "1.5", "2"],
        ["a", "no", "", "2"],
        ["b", "yes", "0.5", "2"],
        ["b", "yes", "3", "2"],
        ["b", "yes", "4", "2"],
        ["c", "no", "4", "2"],
    ]
    result = run("info", write_rows(tmp_path / "t.csv", rows), "--json")
    facts = json.loads(result.stdout)
    assert facts["bags"] == 3
    assert facts["instances"] == 6
    assert facts["features"] == 2
    assert (facts["smallest_bag"], facts["median_bag"], facts["largest_bag"]) == (1, 2.0, 3)
    assert facts["missing_values"] == 1
    assert facts["constant_features"] == ["same"]
    assert facts["labels"] == {"no": 2, "yes": 1}


def test_markup_in_a_label_is_shown_as_it_is(run, tmp_path):
    pytest.importorskip("pyarrow")
    rows = [["bag", "label", "x"], ["a", "[red]", "1"], ["b", ":smile:", "2"]]
    result = run("info", write_rows(tmp_path / "t.csv", rows))
    assert "[red]" in result.stdout
    assert ":smile:" in result.stdout


def test_unknown_and_empty_label_sets_are_counted_apart(run, tmp_path):
    pytest.importorskip("pyarrow")
    path = write_rows(tmp_path / "t.csv", [["bag", "x"], *([f"b{i}", i / 2] for i in range(6))])
    table = tmp_path / "heard.csv"
    table.write_text('bag,label_set\nb0,wren\nb1,wren;owl\nb2,""\nb3,\nb4,\n')
    facts = json.loads(run("info", path, "--labels", table, "--json").stdout)
    assert facts["bags_without_a_label"] == 3
    assert facts["of_them_not_in_the_table"] == 1
    assert facts["empty_label_sets"] == 1
    assert facts["labels"] == {"wren": 2, "owl": 1}
    table.write_text("bag,label\nb0,1\nb1,0\nb2,\n")
    facts = json.loads(run("info", path, "--labels", table, "--json").stdout)
    assert facts["bags_without_a_label"] == 4
    assert facts["labels"] == {"0": 1, "1": 1}


@pytest.mark.filterwarnings("always::bagwise.exceptions.DataWarning")
def test_spaces_around_a_label_are_seen(run, tmp_path):
    path = tmp_path / "bags.csv"
    path.write_text("bag,label,x\na,active,1\nb,active ,2\nc,inactive,3\n")
    lines = [line.split() for line in run("info", path).stdout.splitlines()]
    assert ["'active", "'", "1"] in lines
    assert ["active", "1"] in lines
