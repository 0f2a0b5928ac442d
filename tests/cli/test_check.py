"""``--check``: the threshold of background, from a few labelled instances."""

import numpy as np
import pandas as pd
import pytest

from bagwise.io import read_bags
from bagwise.persistence import load_model
from bagwise.predictions._predictions import (
    check_background,
    fit_temperature,
    likeliest,
    tempered,
)


def test_the_threshold_with_the_most_right_labels_is_found():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 80)  # two labels, and background
    proba = rng.dirichlet([1, 1, 4], 80)
    proba[np.arange(80), truth] += 0.7
    proba /= proba.sum(axis=1, keepdims=True)
    limit, table = check_background(proba, 2, np.eye(3, dtype=bool)[truth])
    every = [np.mean(likeliest(proba, 2, t) == truth) for t in np.linspace(0, 1, 2001)]
    assert np.mean(likeliest(proba, 2, limit) == truth) == max(every) == table["accuracy"].max()
    codes = likeliest(proba, 2, table["background above"][0])
    counts = [np.sum((codes < 2) & (codes == truth)), np.sum((codes < 2) & (codes != truth))]
    counts.append(np.sum((truth < 2) & (codes != truth)))
    assert [table[name][0] for name in ("right", "false", "missed")] == counts


def test_a_clip_with_several_species_is_right_by_any_of_them():
    proba = np.array([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]])
    truth = np.array([[True, True, False], [True, False, False], [False, False, True]])
    limit, table = check_background(proba, 2, truth)
    at = table["background above"].tolist().index(round(limit, 6))
    assert [table[name][at] for name in ("right", "false", "missed")] == [1, 1, 1]


def test_the_temperature_is_that_of_the_largest_posterior_probability():
    rng = np.random.default_rng(2)
    honest = rng.dirichlet([1, 1, 1], 200)
    truth = np.array([rng.multinomial(1, p) for p in honest], dtype=bool)
    proba = tempered(honest, 0.4)  # too sure: the remedy is 1 / 0.4
    grid = np.exp(np.linspace(-2.9, 2.9, 2001))
    logs = [np.log((tempered(proba, t) * truth).sum(axis=1)).sum() for t in grid]
    best = grid[np.argmax(np.array(logs) - np.log(grid) ** 2 / 2)]
    found = fit_temperature(proba, truth)
    assert abs(np.log(found / best)) < 0.01
    assert 1.9 < found < 3.2


def test_tempered_probabilities_keep_zeros_order_and_sum():
    rng = np.random.default_rng(3)
    proba = rng.dirichlet([0.3] * 5, 50)
    proba[:, 2] = 0
    proba /= proba.sum(axis=1, keepdims=True)
    for t in (0.05, 0.5, 1.0, 3.0, 20.0):
        found = tempered(proba, t)
        np.testing.assert_allclose(found.sum(axis=1), 1)
        assert (found[:, 2] == 0).all()
        assert (found.argmax(axis=1) == proba.argmax(axis=1)).all()
    np.testing.assert_allclose(tempered(proba, 1.0), proba)
    excluded = np.zeros((50, 5), dtype=bool)
    excluded[:, 2] = True  # the model rules out what was heard: nothing to learn
    assert abs(fit_temperature(proba, excluded) - 1) < 1e-3


@pytest.fixture
def clips(tmp_path):
    """Recordings of two species; 60 % of the clips are background."""
    rng = np.random.default_rng(1)
    bags = np.repeat([f"r{i:02}" for i in range(40)], 8)
    labels = rng.choice(3, 320, p=[0.2, 0.2, 0.6])
    rows = pd.DataFrame(rng.normal(size=(320, 3)), columns=["a", "b", "c"])
    rows.loc[labels == 0, "a"] += 5
    rows.loc[labels == 1, "b"] += 5
    names = np.array(["owl", "wren", "background"])
    own = {bag: set(names[labels[bags == bag]]) - {"background"} for bag in bags}
    rows["bag"], rows["label_set"] = bags, [";".join(sorted(own[bag])) or ";" for bag in bags]
    rows.to_csv(tmp_path / "clips.csv", index=False)
    row = np.tile(np.arange(8), 40)
    truth = pd.DataFrame({"bag": bags, "row": row, "label": names[labels]})
    truth[:100].to_csv(tmp_path / "checked.csv", index=False)
    return tmp_path, truth


def test_annotate_uses_the_threshold(clips, run):
    folder, truth = clips
    words = [folder / "clips.csv", "--background", "--check", folder / "checked.csv"]
    done = run.ok("annotate", *words, "-o", folder / "out.csv")
    assert "100 checked instances, by the threshold of background" in done.stdout
    assert "is right most often, and is used" in done.stderr
    assert "chosen on these instances; either of several labels counts as right" in done.stderr
    assert "of the most probable labels are right; their mean probability was" in done.stderr
    found = pd.read_csv(folder / "out.csv")
    assert (found.label == truth.label).mean() > 0.9


def test_fit_writes_the_threshold_into_the_model(clips, run):
    pytest.importorskip("skops")
    folder, truth = clips
    words = [folder / "clips.csv", "-m", "orlr", "--background", "--check", folder / "checked.csv"]
    run.ok("fit", *words, "-o", folder / "m.skops")
    model, facts = load_model(folder / "m.skops")
    limit, temperature = facts["background_above"], facts["temperature"]
    predict = ["predict", folder / "m.skops", folder / "clips.csv", "-o"]
    run.ok(*predict, folder / "p.csv")
    run.ok(*predict, folder / "q.csv", "--background-above", limit)
    found = pd.read_csv(folder / "p.instances.csv")
    assert found.equals(pd.read_csv(folder / "q.instances.csv"))
    assert (found.predicted == truth.label).mean() > 0.9
    bags = read_bags(folder / "clips.csv", features=["a", "b", "c"]).bags
    expected = tempered(model.predict_proba_instances(bags), temperature)
    heads = [f"probability_{name}" for name in ("owl", "wren", "background")]
    np.testing.assert_allclose(found[heads], expected, atol=1e-9)
    words[2:4] = ["orlr"]
    assert "add -m orlr --background" in run.fails("fit", *words, "-o", folder / "n.skops").stderr
    words = [folder / "clips.csv", "--background", "--check", folder / "checked.csv"]
    for table, message in {
        "bag,row,label\nr00,0,none\n": "has the labels 'none': expected 'owl', 'wren',",
        "file,label\n": "no column 'bag' in checked.csv, which needs bag, row, label",
        "file,start,label\nr00,0,owl\n": "need the columns file, start and end",
    }.items():
        (folder / "checked.csv").write_text(table)
        assert message in run.fails("annotate", *words, "-o", folder / "o.csv").stderr
    (folder / "checked.csv").write_text("bag,row,label\nother,0,owl\n")
    assert "no label of an instance" in run.fails("annotate", *words, "-o", folder / "o.csv").stderr


def test_checked_instances_without_background_are_told(clips, run):
    """Boxes of Raven are around calls: by them alone every instance has one."""
    folder, truth = clips
    truth[:100][truth.label[:100] != "background"].to_csv(folder / "calls.csv", index=False)
    words = ["annotate", folder / "clips.csv", "--background", "--check"]
    done = run.ok(*words, folder / "calls.csv", "-o", folder / "a.csv")
    assert "Warning: calls.csv has no instance of background" in done.stderr
    done = run.ok(*words, folder / "checked.csv", "-o", folder / "b.csv")
    assert "Warning" not in done.stderr


def test_clips_are_checked_by_file_and_start(clips, run):
    """The same labels as rows of a bag, and as clips of a recording, with and without their end."""
    folder, truth = clips
    rows = pd.read_csv(folder / "clips.csv").rename(columns={"bag": "file"})
    rows["start"], rows["end"] = 3.0 * truth.row, 3.0 * truth.row + 4  # clips overlap
    rows["file"] = "night/" + rows.file + ".wav"
    rows.to_csv(folder / "clips.csv", index=False)
    words = [folder / "clips.csv", "--bag", "file", "--background", "--check"]
    byrow = truth[:100].assign(bag=rows.file)
    byrow.to_csv(folder / "checked.csv", index=False)
    expected = run.ok("annotate", *words, folder / "checked.csv", "-o", folder / "a.csv")
    byclip = pd.DataFrame({"file_path": truth.bag[:100], "start": rows.start[:100]})
    byclip["end"], byclip["species"] = rows.end[:100], truth.label[:100]
    other = pd.DataFrame({"file_path": ["r99"], "start": [0.0], "end": [4.0], "species": ["owl"]})
    byclip = pd.concat([byclip, other])
    for table in (byclip, byclip.drop(columns="end")):
        table.to_csv(folder / "clipped.csv", index=False)
        done = run.ok("annotate", *words, folder / "clipped.csv", "-o", folder / "b.csv", "-f")
        assert done.stdout == expected.stdout
        assert "Not used: 1 label of other recordings" in done.stderr
        assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()
    for start, message in {
        "1.5": "labels 'owl' from 1.5 s, where",
        "x": "has the start 'x'",
    }.items():
        (folder / "clipped.csv").write_text(f"file,start,label\nr00,{start},owl\n")
        done = run.fails("annotate", *words, folder / "clipped.csv", "-o", folder / "c.csv")
        assert message in done.stderr
