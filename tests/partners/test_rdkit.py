"""RDKit: from SMILES to key conformers in three commands."""

import csv
import itertools
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from bagwise.cli import app

Chem = pytest.importorskip("rdkit.Chem")
pytest.importorskip("pyarrow")
rms = pytest.importorskip("rdkit.Chem.rdMolAlign").GetBestRMS
MOLECULES = [
    ("aspirin", "CC(=O)Oc1ccccc1C(=O)O", 6.1),
    ("ibuprofen", "CC(C)Cc1ccc(cc1)C(C)C(=O)O", 7.2),
    ("acetate", "CC(=O)[O-].[Na+]", 5.0),
    ("butane", "CCCC", 5.5),
    ("broken", "C1CC", 4.0),
    ("helium", "[He]", 3.5),
    ("phenol", "Oc1ccccc1", 5.2),
]


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)), env={"NO_COLOR": "1"})


def ok(*words):
    done = run(*words)
    assert done.exit_code == 0, done.stderr
    return done


def write(path, rows=MOLECULES, heads=("name", "SMILES", "pKi")):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([heads, *rows])
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The table of conformers, and what the command said."""
    pandas = pytest.importorskip("pandas")
    folder = tmp_path_factory.mktemp("molecules")
    molecules, table = write(folder / "molecules.csv"), folder / "table.parquet"
    done = ok("conformers", molecules, "-o", table, "-n", 12, "--threads", 2)
    return folder, pandas.read_parquet(table), done.stderr


def records(path):
    return list(Chem.SDMolSupplier(str(path), removeHs=False))


def test_the_table_has_a_row_per_conformer_and_the_sdf_its_molecule(made):
    folder, table, said = made
    found = records(folder / "table.sdf")
    places = [(each.GetProp("molecule"), each.GetProp("conformer")) for each in found]
    assert places == list(zip(table.molecule, table.conformer, strict=True))
    assert set(table.molecule) == {"aspirin", "ibuprofen", "acetate", "butane", "phenol"}
    assert dict(zip(table.molecule, table.pKi, strict=True))["butane"] == 5.5
    assert dict(zip(table.molecule, table.scaffold, strict=True))["butane"] == "butane"
    assert {"PMI1", "Asphericity", "usrcat_59"} <= set(table.columns)
    assert "1 salt, such as acetate" in said
    assert "2 of 7 molecules are left out, such as broken: RDKit cannot read the SMILES" in said
    acetate = next(each for each in found if each.GetProp("molecule") == "acetate")
    assert Chem.MolToSmiles(Chem.RemoveHs(acetate)) == "CC(=O)[O-]"


def test_a_molecule_of_two_names_is_found_and_has_the_same_conformers(tmp_path):
    """Other SMILES, and another salt, of one molecule."""
    rows = [("a", "CC(C)Cc1ccc(cc1)C(C)C(=O)[O-].[Na+]", 1), ("b", "CCCC", 2), ("odd", "C1", 3)]
    rows += [("c", "[O-]C(=O)C(C)c1ccc(CC(C)C)cc1", 4), ("wrong", "X", 5)]
    molecules, out = write(tmp_path / "molecules.csv", rows), tmp_path / "table.csv"
    said = ok("conformers", molecules, "-o", out, "-n", 6, "--threads", 1).stderr
    assert "1 of several names: a = c: average or leave out." in said
    assert "odd: RDKit cannot read the SMILES 'C1'; wrong: RDKit cannot" in said
    found = {}
    for row in csv.DictReader(out.read_text().splitlines()):
        found.setdefault(row["molecule"], []).append([row["energy"], row["PMI1"], row["usrcat_9"]])
    assert found["a"] == found["c"]


def test_conformers_are_distinct_and_low_in_energy(made):
    folder, table, _ = made
    assert (table.groupby("molecule").energy.min() == 0).all()
    assert table.energy.between(0, 10).all()
    assert (table.molecule.value_counts() > 1).any()
    by_name = itertools.groupby(
        records(folder / "table.sdf"), lambda each: each.GetProp("molecule")
    )
    for _, own in by_name:
        plain = [Chem.RemoveHs(each) for each in own]
        pairs = itertools.combinations(plain, 2)
        assert all(rms(Chem.Mol(one), other) >= 0.499 for one, other in pairs)


def test_descriptors_are_those_of_the_molecules_in_the_sdf(made):
    folder, table, _ = made
    from rdkit.Chem import Descriptors3D, rdMolDescriptors

    for row, molecule in list(
        zip(table.to_dict("records"), records(folder / "table.sdf"), strict=True)
    )[::3]:
        expected = Descriptors3D.CalcMolDescriptors3D(molecule)
        expected["usrcat_7"] = rdMolDescriptors.GetUSRCAT(molecule)[7]
        for name, value in expected.items():  # the file has four digits of each coordinate
            assert row[name] == pytest.approx(value, rel=1e-2, abs=1e-2)


def test_the_number_of_threads_changes_nothing(made, tmp_path):
    folder, table, _ = made
    again = tmp_path / "again.csv"
    ok("conformers", folder / "molecules.csv", "-o", again, "-n", 12, "--threads", 1)
    rows = list(csv.DictReader(again.read_text().splitlines()))
    assert [row["molecule"] for row in rows] == table.molecule.tolist()
    np.testing.assert_allclose([float(row["PMI1"]) for row in rows], table.PMI1, rtol=1e-6)


def test_evaluate_names_the_group_of_the_table(made):
    table = made[0] / "table.parquet"
    words = ("--label", "pKi", "--task", "regression", "-m", "nsk", "--folds", "2")
    said = ok("evaluate", table, *words).stdout
    assert "each scaffold in one fold" in said
    assert "bootstrap by scaffold" in said


def fit_numbers(folder, method, model):
    words = ("--label", "pKi", "--task", "regression", "-m", method, "-o", model)
    ok("fit", folder / "table.parquet", *words)


@pytest.mark.parametrize(
    ("method", "value"), [("nsk", "key_score"), ("minimax", "key_contribution")]
)
def test_three_commands_from_smiles_to_key_conformers(made, tmp_path, method, value):
    pytest.importorskip("skops")
    folder, _, _ = made
    model, out, keys = (tmp_path / name for name in ("m.skops", "p.csv", "keys.sdf"))
    fit_numbers(folder, method, model)
    ok("predict", model, folder / "table.parquet", "-o", out, "--keys", keys)
    found = records(keys)
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [each.GetProp("molecule") for each in found] == [row["bag"] for row in rows]
    for each, row in zip(found, rows, strict=True):
        assert each.GetProp("conformer") == f"c{row['key_instance']}"
        assert float(each.GetProp("predicted")) == pytest.approx(float(row["predicted"]), rel=1e-4)
        assert float(each.GetProp(value)) == pytest.approx(float(row[value]), rel=1e-4)
        all_own = [r for r in records(folder / "table.sdf") if r.GetProp("molecule") == row["bag"]]
        own = all_own[int(row["key_instance"])]
        positions = [r.GetConformer().GetPositions() for r in (each, own)]
        np.testing.assert_array_equal(*positions)


def test_the_commands_of_the_page_print_what_it_shows(tmp_path, monkeypatch, few_candidates):
    pytest.importorskip("skops")
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "molecules.csv")
    page = (Path(__file__).parents[2] / "docs" / "chemistry.md").read_text(encoding="utf-8")
    part = page.partition("## Make the table with RDKit")[2]
    first, *others = re.findall(r"^\$ bagwise (.*)$", part, flags=re.MULTILINE)
    shown = re.search(r"```text\n(.*?)```", part, re.DOTALL)[1]
    texts = (shown, ok(*shlex.split(first)).stderr)  # other versions may draw a few more or less
    assert len({re.sub(r"\d+ conformers", "some conformers", text) for text in texts}) == 1
    fit, predict = map(shlex.split, others)
    ok(*fit, "--task", "regression", "-m", "nsk")  # auto takes a minute
    ok(*predict)
    assert len(records("keys.sdf")) == 5


def test_what_cannot_be_computed_is_refused(made, tmp_path):
    folder, _, _ = made
    out = tmp_path / "out.parquet"

    def fails(file, *words):
        done = run("conformers", file, "-o", out, *words)
        assert done.exit_code == 2
        return done.stderr

    twice = write(tmp_path / "twice.csv", [("a", "CCO", 1), ("a", "CCC", 2)])
    assert "2 molecules are called 'a'" in fails(twice)
    assert "no molecule has a conformer" in fails(write(tmp_path / "x.csv", [("a", "?", 1)]))
    assert "--smiles names a column" in fails(twice, "--smiles", "structure")
    clash = write(tmp_path / "clash.csv", [("a", "CCO", 1)], ("name", "smiles", "energy"))
    assert "a column 'energy', as the result has" in fails(clash)
    pytest.importorskip("skops")
    model = tmp_path / "m.skops"
    fit_numbers(folder, "nsk", model)
    alone = tmp_path / "alone.parquet"
    alone.write_bytes((folder / "table.parquet").read_bytes())
    done = run("predict", model, alone, "-o", tmp_path / "p.csv", "--keys", tmp_path / "k.sdf")
    assert done.exit_code == 2
    assert "which `bagwise conformers` writes" in done.stderr
