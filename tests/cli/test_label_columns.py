"""Tables in which a column says what is known of one label: all commands, and Python."""

import json

import numpy as np
import pandas as pd
import pytest
from cli.tables import read_rows, write_rows

import bagwise
from bagwise.exceptions import InputError, LabelError
from bagwise.io import read_bags, write_bags
from bagwise.labels import Intervals, LabelCounts, Labels

pytest.importorskip("pyarrow")
BIRDS = ["owl", "robin", "wren"]
BY_LABEL = ("--label-set", ",".join(BIRDS), "--id-column", "recording")


@pytest.fixture
def recordings(tmp_path):
    """Twenty recordings, a table with a column per bird, and one with lists."""
    rng, means = np.random.default_rng(0), 4 * np.eye(3)
    calls = [["recording", "pitch", "length", "power"]]
    wide, lists = [["recording", *BIRDS]], [["recording", "heard", "looked"]]
    for i in range(20):
        sung = rng.integers(3, size=rng.integers(3, 7))
        calls += [[f"r{i}", *(means[k] + rng.normal(size=3)).tolist()] for k in sung]
        n = np.bincount(sung, minlength=3)
        cells = [n[0] and f"{n[0]}+", int(n[1] > 0), "" if i % 3 else f"{max(n[2] - 1, 0)}-{n[2]}"]
        wide.append([f"r{i}", *(str(cell) for cell in cells)])
        looked = "owl;robin" if i % 2 else ""
        heard = ";".join(name for k, name in enumerate(BIRDS) if n[k] and (k < 2 or not i % 2))
        lists.append([f"r{i}", heard or ";", looked])
    write_rows(tmp_path / "wide.csv", wide)
    write_rows(tmp_path / "lists.csv", lists)
    return write_rows(tmp_path / "calls.csv", calls)


def test_cells_of_labels_become_counts_or_sets():
    frame = pd.DataFrame(
        {
            "bag": ["a"] * 5 + ["b"] * 10,
            "owl": ["yes"] * 5 + [None] * 10,
            "wren": ["40%"] * 5 + ["0"] * 10,
            "crow": [2] * 5 + [1] * 10,
            "x": np.arange(15.0),
        }
    )
    counts = read_bags(frame, bag="bag", label_set=["owl", "wren", "crow"]).label_sets
    assert isinstance(counts, LabelCounts)
    assert counts.texts == [["1+", "2", "2"], ["", "0", "1+"]]
    data = read_bags(frame, bag="bag", label_set=["owl"], exclude=["wren", "crow"])
    assert data.label_sets.tolist() == [[1], [-1]]
    assert data.feature_names == ["x"]
    frame.loc[0, "crow"] = 3
    with pytest.raises(LabelError, match="several values in the column 'crow'"):
        read_bags(frame, bag="bag", label_set=["owl", "crow"], exclude=["wren"])
    frame["crow"] = "many"
    with pytest.raises(LabelError, match=r"'crow' of bag 0 \('a'\) is 'many'"):
        read_bags(frame, bag="bag", label_set=["owl", "crow"], exclude=["wren"])


def test_labels_that_nobody_looked_for_are_unknown():
    frame = pd.DataFrame(
        {
            "bag": list("abc"),
            "x": 1.0,
            "heard": ["owl;wren", "", "owl"],
            "looked": ["", "owl", "wren"],
        }
    )
    sets = read_bags(frame, bag="bag", label_set="heard", looked_for="looked").label_sets
    assert sets.tolist() == [[1, 1], [0, -1], [1, 0]]
    with pytest.raises(InputError, match="looked_for= needs"):
        read_bags(frame, bag="bag", looked_for="looked", exclude=["heard"])


def test_counts_of_merged_bags_add_up():
    frame = pd.DataFrame({"bag": list("aabbc"), "x": np.arange(5.0)})
    about = pd.DataFrame(
        {"bag": list("abc"), "site": [1, 1, 2], "owl": ["2", "1", ""], "wren": ["1-2", "0", "0"]}
    )
    from bagwise.io._files import Request
    from bagwise.io._reading import read_contents

    names = ("owl", "wren")
    request = Request(bag="bag", labels=about, label_columns=names, merge="site")
    labels = read_contents(frame, request).label_sets
    assert labels.values.texts == [["3+", "1-2"], ["", "0"]]


def test_commands_read_both_forms(run, recordings):
    folder = recordings.parent
    out, model = folder / "annotated.csv", folder / "model.skops"
    wide = (recordings, "--bag", "recording", "--labels", folder / "wide.csv", *BY_LABEL)
    info = json.loads(run("info", *wide, "--json").stdout)
    known = info["known_of_labels"]
    assert known["unknown"][info["labels"].get("wren") and 2] == 13
    assert "unknown" in run.ok("info", *wide).stdout
    run.ok("annotate", *wide, "-o", out)
    rows = read_rows(out)
    assert {row["label"] for row in rows} == set(BIRDS)
    calls, birds = pd.read_csv(recordings), pd.read_csv(folder / "wide.csv", dtype=str)
    joined = folder / "joined.csv"
    calls.merge(birds, on="recording").to_csv(joined, index=False)
    here = ("--bag", "recording", "--label-set", ",".join(BIRDS))
    run.ok("fit", joined, *here, "-m", "orlr", "-o", model)
    for file in (joined, recordings):  # new bags need no labels
        run.ok("predict", model, file, "-o", out, "-f")
    assert json.loads(run("info", joined, *here, "--json").stdout)["known_of_labels"] == known
    scores = json.loads(run("evaluate", *wide, "-m", "orlr", "--folds", "3", "--json").stdout)
    assert "pooled trees" in json.dumps(scores["methods"])
    lists = (recordings, "--bag", "recording", "--labels", folder / "lists.csv")
    lists = (*lists, "--id-column", "recording", "--label-set", "heard", "--looked-for", "looked")
    result = run.ok("annotate", *lists, "-o", out, "-f")
    assert "have labels that may be present or absent" in result.stderr
    run.ok("evaluate", *lists, "-m", "noisy-or", "--folds", "3", "--no-baseline")
    refused = run("fit", *lists, "-m", "citation-knn", "-o", model, "-f")
    assert refused.exit_code == 2
    assert "ORedLogisticRegression" in refused.stderr


def test_evaluations_and_reports_use_what_is_known(run, recordings):
    folder = recordings.parent
    model, page = folder / "model.skops", folder / "page.html"
    own = ("--bag", "recording", "--id-column", "recording")
    lists = ("--labels", folder / "lists.csv", "--label-set", "heard", "--looked-for", "looked")
    wide = ("--labels", folder / "wide.csv", "--label-set", ",".join(BIRDS))
    for labels, method in ((lists, "noisy-or"), (wide, "orlr")):
        run.ok("annotate", recordings, *own, *labels, "-m", "orlr", "-o", folder / "a.csv", "-f")
        result = run("evaluate", recordings, *own, *labels, "-m", method, "--folds", "2", "--json")
        found = json.loads(result.stdout)
        assert found["per_class"][method]["label"] == BIRDS
        assert "-m auto" not in result.stderr  # which needs whole label sets
        run.ok("fit", recordings, *own, *labels, "-m", method, "-o", model, "-f")
        run.ok("report", model, recordings, *labels, "--folds", "2", "-o", page, "-f")
        assert "labels that are unknown are left out" in page.read_text()


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x/"])
def test_unknown_labels_and_counts_are_written_to_npz_only(name, tmp_path):
    path = tmp_path / name if name != "x/" else f"{tmp_path}/x/"
    for known in (np.array([[1, -1]]), LabelCounts([[2]], [[2]])):
        with pytest.raises(InputError, match=r"counts and unknown labels .* npz"):
            write_bags(path, [np.eye(2)], label_sets=known)
    times = np.array([(True, 3.0)], dtype=[("event", bool), ("time", float)])
    for y in (Intervals([2], [3]), times):
        with pytest.raises(InputError, match="table with a row per bag"):
            write_bags(path, [np.eye(2)], y=y)
        with pytest.raises(InputError, match="table with a row per bag"):
            write_bags(tmp_path / "x.npz", [np.eye(2)], y=y)


def test_unknown_labels_and_counts_are_stored_in_npz(tmp_path):
    sets, path = np.array([[1, -1], [0, 1]]), tmp_path / "x.npz"
    write_bags(path, [np.eye(2)] * 2, label_sets=sets)
    assert read_bags(path).label_sets.tolist() == sets.tolist()
    cells = [["3+", "0", "50%"], ["", "2-5", "=1"]]
    counts = LabelCounts.from_strings(cells, BIRDS)
    write_bags(path, [np.ones((6, 2))] * 2, label_sets=counts, force=True)
    found = read_bags(path).label_sets
    assert found.texts == counts.of_sizes([6, 6]).texts
    assert found.classes.tolist() == BIRDS
    write_bags(path, [np.ones((6, 2))] * 2, label_sets=found, force=True)
    assert read_bags(path).label_sets.texts == found.texts


def test_a_file_with_counts_is_fitted_and_evaluated(run, recordings, tmp_path):
    """The same answers as from the table of which it is made."""
    wide, path = recordings.parent / "wide.csv", tmp_path / "calls.npz"
    data = read_bags(recordings, bag="recording", labels=wide, label_set=BIRDS)
    names = data.bags.feature_names
    write_bags(path, data.bags, label_sets=data.label_sets)
    assert read_bags(path).feature_names == names
    told = ("-m", "orlr", "--folds", "2", "--no-baseline", "--json")
    table = (recordings, "--bag", "recording", "--labels", wide, *BY_LABEL)
    found = [json.loads(run("evaluate", *file, *told).stdout) for file in (table, (path,))]
    both = [each["methods"][0]["log loss"]["mean"] for each in found]
    assert both[0] == pytest.approx(both[1])


def test_labels_with_unknown_cells_and_counts():
    labels = Labels.from_indicator([[1, -1, 0], [-1, -1, -1], [0, 1, 1]], ["a", "b", "c"])
    assert labels.known.tolist() == [True, False, True]
    assert labels.whole.tolist() == [False, True, True]
    assert labels.signs(1).tolist() == [0, 0, 1]
    assert labels.tolist() == [{"a"}, None, {"b", "c"}]
    counts = Labels.from_counts(LabelCounts.from_strings([["3", "", "0"]], ["a", "b", "c"]), [5])
    assert counts.kind == "counts"
    assert counts.indicator.tolist() == [[1, -1, 0]]
    wider = counts.aligned(["c", "d"], ["c", "d"])
    assert wider.classes.tolist() == ["c", "d", "a", "b"]
    assert wider.bounds.tolist() == [[[0, 0], [0, -1], [3, 3], [0, -1]]]
    assert counts.without(np.array([True])).known.tolist() == [False]


def test_wrong_counts_are_refused():
    for error, call in [
        ("bag 0 has 3 to 2", lambda: LabelCounts([[3]], [[2]])),
        ("whole numbers", lambda: LabelCounts([[0.5]], [[2]])),
        ("shapes", lambda: LabelCounts([[1]], [[1, 2]])),
        ("columns for the classes", lambda: LabelCounts([[1, 1]], [[1, 1]], ["a", "a"])),
        ("share 1.2", lambda: LabelCounts.from_shares([[1.2]])),
        ("sum to 1.1", lambda: LabelCounts.from_shares([[0.5, 0.6]])),
        ("'a' of bag 0 is 'some'", lambda: LabelCounts.from_strings([["some"]], ["a"])),
        ("0 to 100 %", lambda: LabelCounts.from_strings([["140%"]])),
    ]:
        with pytest.raises(LabelError, match=error):
            call()


def test_shares_are_rounded_as_the_size_of_the_bag_needs():
    shares = LabelCounts.from_shares([[0.3, 0.7, np.nan]], tolerance=0.1).of_sizes([10])
    assert shares.texts == [["2-4", "6-8", ""]]
    exact = LabelCounts.from_shares([[0.29, 1 / 3, 0.1]])
    assert exact.of_sizes([100]).texts == [["29", "33-34", "10"]]
    assert exact.of_sizes([3]).texts == [["0-1", "=1", "0-1"]]
    assert exact[[0]].of_sizes([100]).texts == exact.of_sizes([100]).texts


def test_a_data_frame_is_fitted_in_one_call(recordings):
    calls = pd.read_csv(recordings)
    birds = pd.read_csv(recordings.parent / "wide.csv", dtype=str)
    settings = {"bag": "recording", "method": "orlr", "verbose": False}
    fitted = bagwise.fit(calls.merge(birds, on="recording"), label_set=BIRDS, **settings)
    assert fitted.model.classes_.tolist() == BIRDS
    listed = pd.read_csv(recordings.parent / "lists.csv", dtype=str)
    table = calls.merge(listed, on="recording")
    fitted = bagwise.fit(table, label_set="heard", looked_for="looked", **settings)
    assert fitted.model.classes_.tolist() == BIRDS
