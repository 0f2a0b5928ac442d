"""Texts that a spreadsheet would evaluate are written with an apostrophe, and read without it."""

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bagwise import Bags
from bagwise.io import read_bags, write_bags
from bagwise.io._files import escaped, unescaped
from bagwise.io._table import read_written
from bagwise.io._write_table import write_columns

FORMULAS = [
    "=1+1",
    "+cmd",
    "-2+3",
    "@SUM(A1)",
    "\tx",
    "\r=1",
    "\n=4",
    "-",
    "\uff1d1",
    "'=1",
    "''@x",
]
HARMLESS = ["a", "", "-1", "+2.5", "-1e-3", "'", "'a", "a=b", " =5", "1=", "'-1", "ä"]
texts = st.text(st.sampled_from("='+-@\t1.e a\"\n;"), max_size=6) | st.text(max_size=6)


@given(text=texts)
def test_what_is_written_is_read(text):
    assert unescaped(escaped(text)) == text


def test_formulas_and_only_these_are_escaped():
    assert [escaped(text) for text in FORMULAS] == [f"'{text}" for text in FORMULAS]
    assert [escaped(text) for text in HARMLESS] == HARMLESS


@pytest.mark.parametrize("name", ["bags.csv", "bags.csv.gz", "bags.tsv"])
def test_bags_come_back_unchanged(tmp_path, name):
    ids = [*FORMULAS, *filter(str.strip, HARMLESS)]
    rng = np.random.default_rng(0)
    bags = Bags(rng.normal(size=(len(ids), 2)), np.arange(len(ids) + 1), ids)
    bags = bags.with_instances(bags.instances, feature_names=["-log10(p)", "=x"])
    labels = [f"={i % 2}" for i in range(len(ids))]
    write_bags(tmp_path / name, bags, y=labels, label_sets=[{"@a", "b"}] * len(ids))
    data = read_bags(tmp_path / name)
    assert data.bags.ids.tolist() == ids
    assert data.y.tolist() == labels
    assert data.classes.tolist() == ["@a", "b"]
    assert data.feature_names == ["-log10(p)", "=x"]
    np.testing.assert_array_equal(data.bags.instances, bags.instances)
    assert read_bags(tmp_path / name, features="=x").bags.n_features == 1


def test_no_cell_of_a_file_is_a_formula(tmp_path):
    bags = Bags(-np.ones((2, 1)), [0, 1, 2], ["=a", "+b"], feature_names=["=x"])
    write_bags(tmp_path / "bags.csv", bags, y=["@yes", "-no"])
    write_columns(
        tmp_path / "out.csv",
        {"bag": bags.ids, "=score": np.array([-1.5, 2]), "label": np.array(["@yes", "-no"])},
        force=False,
    )
    for name in ("bags.csv", "out.csv"):
        with open(tmp_path / name, newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        formulas = [c for c in cells if c[0] in "=+@" or (c[0] == "-" and c[1].isalpha())]
        assert formulas == []
        assert any(float(c) < 0 for c in cells if c.startswith("-"))
    table = read_written(tmp_path / "out.csv", ["bag", "=score"])
    assert table == {"bag": ["=a", "+b"], "=score": ["-1.5", "2.0"]}
