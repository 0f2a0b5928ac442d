"""Folders of slides: a table of labels, patients, coordinates."""

import json

import pytest
from cli.tables import read_rows, slide_folder

h5py = pytest.importorskip("h5py")
for needed in ("skops", "pyarrow"):
    pytest.importorskip(needed)


@pytest.fixture
def slides(tmp_path):
    """A folder of slides, the words that name its labels, and the tumour patches."""
    table, tumours = slide_folder(tmp_path / "slides")
    return tmp_path / "slides", ("--labels", table, "--id-column", "slide_id"), tumours


def fitted(run, slides, *words):
    folder, labels, _ = slides
    path = folder.parent / "model.skops"
    run.ok("fit", folder, *labels, "-m", "sil", *words, "-o", path)
    return path


def test_instances_keep_their_coordinates(run, slides):
    folder, _, tumours = slides
    model = fitted(run, slides)
    run.ok("predict", model, folder, "-o", folder.parent / "out.csv")
    rows = read_rows(folder.parent / "out.instances.csv")
    assert list(rows[0])[:4] == ["bag", "row", "x", "y"]
    best = {r["bag"]: r for r in sorted(rows, key=lambda row: float(row["score"]))}
    for slide, place in tumours.items():
        assert (int(best[slide]["x"]), int(best[slide]["y"])) == place


def test_a_patient_that_is_no_group_is_named(run, slides):
    folder, labels, _ = slides
    words = ("evaluate", folder, *labels, "-m", "sil", "--folds", "2")
    expected = "If bags share a 'patient_id', keep them in one fold: --group patient_id."
    assert expected in run.ok(*words).stderr
    for option in ("--group", "--merge"):
        assert "If bags share" not in run.ok(*words, option, "patient_id").stderr


def test_a_patient_is_a_bag(run, slides):
    folder, labels, _ = slides
    model = fitted(run, slides, "--merge", "patient_id")
    out = folder.parent / "out.csv"
    run.ok("predict", model, folder, *labels, "-o", out)  # merged as in the fit
    assert [row["bag"] for row in read_rows(out)] == [f"p{i}" for i in range(6)]
    rows = read_rows(folder.parent / "out.instances.csv")
    assert list(rows[0])[:5] == ["bag", "row", "slide", "x", "y"]
    assert {(row["bag"], row["slide"]) for row in rows} == {
        (f"p{i % 6}", f"s{i:02d}") for i in range(12)
    }
    alone = run("predict", model, folder, "-o", out, "--force")
    assert "fitted on bags merged by 'patient_id', and these are not merged" in alone.stderr
    assert len(read_rows(out)) == 12
    info = run("info", folder, *labels, "--merge", "patient_id", "--json")
    assert json.loads(info.stdout)["bags"] == 6


def test_slides_without_patches_are_left_out(run, slides):
    folder, labels, _ = slides
    with h5py.File(folder / "s03.h5", "r+") as file:
        for name in ("features", "coords"):
            rows = file[name][:0]
            del file[name]
            file[name] = rows
    said = "1 of 12 bags have no instances and are left out, such as s03."
    words = (*labels, "-m", "sil", "--folds", 2, "--no-baseline", "--json")
    done = run("evaluate", folder, *words)
    assert json.loads(done.stdout)["bags"] == 11
    assert said in done.stderr
    model, out = fitted(run, slides), folder.parent / "out.csv"
    assert said in run("predict", model, folder, "-o", out).stderr
    assert len(read_rows(out)) == 11


def test_slides_without_a_label_need_no_patient(run, slides):
    folder, labels, _ = slides
    few = folder.parent / "few.csv"
    few.write_text("".join(labels[1].read_text().splitlines(keepends=True)[:-2]))
    words = ("--labels", few, *labels[2:], "--group", "patient_id", "-m", "sil", "--folds", 2)
    done = run.ok("evaluate", folder, *words, "--json")
    assert json.loads(done.stdout)["bags"] == 10
    assert "Left out, because not in few.csv: 2 bags, such as " in done.stderr
