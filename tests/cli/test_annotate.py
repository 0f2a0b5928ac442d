import json

import numpy as np
import pytest
from cli.tables import read_rows, write_rows
from sklearn.preprocessing import StandardScaler

from bagwise.annotation import ORedLogisticRegression
from bagwise.io import read_bags
from bagwise.predictions import doubted_bags

WORDS = ("--label-set", "species", "--bag", "recording")


@pytest.fixture
def syllables(tmp_path):
    """Twenty recordings of wrens, robins and owls; nothing is known of the last."""
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    birds, means = ["wren", "robin", "owl"], 4 * np.eye(3)
    rows = [["recording", "species", "pitch", "length", "power"]]
    for i in range(20):
        heard = rng.integers(3, size=rng.integers(2, 6))
        labels = ";".join(sorted({birds[k] for k in heard})) if i < 19 else ""
        rows += [[f"r{i}", labels, *(means[k] + rng.normal(size=3)).tolist()] for k in heard]
    return write_rows(tmp_path / "syllables.csv", rows)


def test_every_instance_is_named_as_in_python(run, syllables):
    out = syllables.parent / "annotated.csv"
    result = run.ok("annotate", syllables, *WORDS, "-o", out)
    data = read_bags(syllables, bag="recording", label_set="species")
    bags = data.bags.with_instances(StandardScaler().fit_transform(data.bags.instances))
    model = ORedLogisticRegression().fit(bags, data.label_sets)
    proba = model.annotate_proba(bags, data.label_sets)
    rows = read_rows(out)
    order = np.argsort(-proba, axis=1)
    assert [row["label"] for row in rows] == data.classes[order[:, 0]].tolist()
    ranked = np.sort(proba, axis=1)[:, ::-1]
    for name, column in (("probability", 0), ("runner_up_probability", 1)):
        found = [float(row[name]) for row in rows]
        np.testing.assert_allclose(found, ranked[:, column], rtol=1e-9, atol=1e-12)
    assert [row["bag"] for row in rows] == data.bags.ids[data.bags.bag_index].tolist()
    unsure = [float(row["probability"]) for row in read_rows(out.with_name("annotated.review.csv"))]
    assert unsure == sorted(unsure)
    assert len(unsure) == len(rows)
    assert "10 least certain" in result.stdout


def test_the_probability_of_each_label_is_written_and_not_printed(run, syllables):
    out = syllables.parent / "annotated.csv"
    words = ("annotate", syllables, *WORDS, "--background", "--probabilities", "-o", out)
    result = run.ok(*words)
    names = [f"probability_{name}" for name in ("owl", "robin", "wren", "background")]
    rows = read_rows(out)
    assert all(sum(float(row[name]) for name in names) == pytest.approx(1) for row in rows)
    assert "probability_" not in result.stdout
    (first, *_) = json.loads(run(*words, "--force", "--json").stdout)["least_certain"]
    assert set(names) <= set(first)


def test_sure_background_is_not_least_certain(run, syllables):
    out = syllables.parent / "annotated.csv"
    words = ("annotate", syllables, *WORDS, "--set", "background=noise", "--review", 0, "-o", out)
    run.ok(*words, "--probabilities")
    names = ["probability_noise", "probability_owl", "probability_robin", "probability_wren"]
    for row in read_rows(out):
        shares = {name: float(row[name]) for name in names}
        assert (
            float(row["probability"])
            == max(shares.values())
            == shares[f"probability_{row['label']}"]
        )
        assert float(row["background_probability"]) == shares["probability_noise"]
    first = read_rows(out.with_name("annotated.review.csv"))[0]
    assert float(first["background_probability"]) < 0.6
    for limit, expected in ((0, {"noise"}), (1, {"owl", "robin", "wren"})):
        run.ok(*words, "--force", "--background-above", limit)
        known = [row for row in read_rows(out) if row["bag"] != "r19"]
        named = {row["label"] for row in known if float(row["background_probability"]) > 0}
        assert named == expected
    plain = run("annotate", syllables, *WORDS, "--background-above", 0.5, "-o", out, "--force")
    assert "--background-above needs --background" in plain.stderr


def test_one_label_per_bag_needs_background(run, tmp_path):
    rng = np.random.default_rng(0)
    rows = [["bag", "y", "a", "b"]]
    rows += [[f"b{i // 3}", "yes" if i < 15 else "no", *rng.normal(size=2)] for i in range(30)]
    table, out = write_rows(tmp_path / "bags.csv", rows), tmp_path / "out.csv"
    words = ("annotate", table, "--bag", "bag", "--label", "y", "-o", out)
    result = run(*words)
    assert (result.exit_code, out.exists()) == (2, False)
    for text in ("exactly one label", "--background", "bagwise predict"):
        assert text in " ".join(result.stderr.split())
    run.ok(*words, "--background")
    assert {row["label"] for row in read_rows(out)} <= {"yes", "no", "background"}
    rows += [["b10", "", 0.5, 0.5]]  # of unknown label
    table = write_rows(table, rows)
    run.ok(*words, "--force")


def test_label_sets_in_doubt(run, syllables):
    out = syllables.parent / "annotated.csv"
    words = ("annotate", syllables, *WORDS, "--noisy-sets", "-o", out)
    result = run.ok(*words, "--json", "--review", 3)
    data = read_bags(syllables, bag="recording", label_set="species")
    bags = data.bags.with_instances(StandardScaler().fit_transform(data.bags.instances))
    model = ORedLogisticRegression(missing="learn", spurious="learn", random_state=0)
    model.fit(bags, data.label_sets)
    expected = doubted_bags(model, bags, data.label_sets)
    listed = json.loads(result.stdout)["doubted_sets"]
    assert [row["bag"] for row in listed] == expected["bag"][:3].tolist()
    np.testing.assert_allclose([row["doubt"] for row in listed], expected["doubt"][:3], rtol=1e-6)
    written = {row["bag"]: (float(row["set_doubt"]), row["set_error"]) for row in read_rows(out)}
    assert written["r19"] == (0.0, "")  # nothing is known of it
    assert max(written, key=written.get) == expected["bag"][0]
    error = f"{expected['error'][0]} {data.classes[expected['label'][0]]}"
    assert written[expected["bag"][0]][1] == error
    assert "most doubtful label sets" in run(*words, "--force").stdout


def test_label_sets_in_a_second_table(run, syllables, tmp_path):
    """Bags that the table does not mention, empty fields and empty sets are told apart."""
    rows, sets = read_rows(syllables), {}
    for row in rows:
        sets[row["recording"]] = row.pop("species")
    alone = write_rows(tmp_path / "alone.csv", [list(rows[0]), *(list(r.values()) for r in rows)])
    names = list(sets)
    lines = [f"{name},{sets[name]}" for name in names[:-3]]
    lines += [f'{names[-3]},""', f"{names[-2]},", "elsewhere,wren"]
    table = tmp_path / "heard.csv"
    table.write_text("\n".join(["recording,species", *lines, ""]))
    out = tmp_path / "out.csv"
    words = ("annotate", alone, "--bag", "recording", "--label-set", "species", "-o", out, "-f")
    words += ("--background",)  # which the empty set needs
    result = run.ok(*words, "--labels", table)
    assert "2 of 20 bags have no label" in result.stderr
    assert "1 of 20 bags have the empty label set (the sets of 2 others are" in result.stderr
    assert "Rows of heard.csv about bags that are not in alone.csv: 1, such as " in result.stderr
    assert {row["bag"] for row in read_rows(out)} == set(names)
    result = run(*words, "--labels", table, "--missing", "drop")
    assert "Left out, because not in heard.csv: 1 bag," in result.stderr
    assert {row["bag"] for row in read_rows(out)} == set(names[:-1])
    result = run(*words, "--labels", table, "--missing", "error")
    assert (result.exit_code, "--missing drop" in result.stderr) == (2, True)
    result = run(*words, "--missing", "drop")
    assert "--missing needs --labels: it is for bags that are not in that table" in result.stderr
