"""Times to an event (--event, --time), and several numbers, from the evaluation to the report."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from cli.tables import read_rows, write_rows

from bagwise.apps.heatmap import HeatMaps
from bagwise.survival import SetKernelCox
from bagwise.validation import time_texts
from cases import each
from survival_data import example

pytest.importorskip("skops")
# Without scikit-survival, the baseline is left out and says so.
pytestmark = pytest.mark.filterwarnings("ignore:the baseline pooled trees is left out")

TIMES = ("--event", "dead", "--time", "months")
NSK = ("-m", "nsk", "--folds", "3", "--no-baseline")


def rows_of(n_bags=45, bad=None):
    """A row per instance; the mean of the first feature is the log risk."""
    rng, rows = np.random.default_rng(0), [["bag", "dead", "months", "x", "y"]]
    for i in range(n_bags):
        values = rng.normal(size=(rng.integers(2, 5), 2)) + rng.normal(size=2)
        time, until = rng.exponential(np.exp(-2 * values[:, 0].mean())), rng.exponential(2)
        event = "yes" if time <= until else "no"
        cells = [f"b{i}", event, f"{min(time, until):.4f}"]
        cells = cells if bad is None or i != 7 else [cells[0], *bad]
        rows += [[*cells, *row] for row in values]
    return rows


@pytest.fixture
def timed(tmp_path):
    return write_rows(tmp_path / "timed.csv", rows_of())


def test_evaluate_times(run, timed):
    found = run("evaluate", timed, *TIMES, "-m", "nsk", "--folds", "3")
    for word in ("C index", "Uno's C", "integrated Brier", "baseline: Kaplan-Meier", "events"):
        assert word in found.stdout
    out = timed.with_name("predicted.csv")
    words = (*TIMES, *NSK, "--json", "--predictions", out)
    (method,) = json.loads(run("evaluate", timed, *words).stdout)["methods"]
    assert any(row["label"].endswith("+") for row in read_rows(out))
    assert method["C index"]["mean"] > 0.65
    assert 0 < method["integrated Brier"]["mean"] < 0.25


def test_a_column_named_label_is_not_the_target(run, tmp_path):
    """Slides of one patient may have different labels: they are merged by their times."""
    rows, labels = [["bag", "x"]], [["id", "patient", "label", "dead", "months"]]
    for i in range(44):
        rows += [[f"b{i}", i % 7], [f"b{i}", i % 5]]
        labels += [
            [
                f"b{i}",
                f"p{i // 2}",
                ("ill", "well")[i % 2],
                "yes" if i // 2 % 3 else "no",
                1 + i // 2,
            ]
        ]
    slides = write_rows(tmp_path / "slides.csv", rows)
    words = ("--labels", write_rows(tmp_path / "labels.csv", labels), "--id-column", "id", *TIMES)
    table = tmp_path / "predicted.csv"
    run("evaluate", slides, *words, *NSK, "--merge", "patient", "--predictions", table)
    assert len(read_rows(table)) == 22
    assert "well" not in run("info", slides, *words).stdout


def test_an_event_is_1_or_0(run, tmp_path):
    """R codes events as 2 and censoring as 1."""
    path = write_rows(tmp_path / "timed.csv", rows_of(bad=("2", "3.5")))
    assert "2' in the column dead: expected 1 or 0" in run.fails("info", path, *TIMES).stderr


def test_no_model_needs_the_patches_of_scikit_survival(timed):
    """Importing scikit-survival adds methods to scikit-learn's Pipeline."""
    code = (
        "import sys; from bagwise.__main__ import main; "
        f"sys.argv = ['bagwise', 'evaluate', {str(timed)!r}, *{[*TIMES, *NSK]!r}]; "
        "sys.modules['sksurv'] = None; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "integrated Brier" in done.stdout


def test_the_forest_is_a_baseline(run, timed):
    pytest.importorskip("sksurv")
    found = run("evaluate", timed, *TIMES, "-m", "nsk", "--folds", "3")
    assert "baseline: pooled trees" in found.stdout


def test_fit_predict_and_report_times(run, timed, tmp_path):
    model, out, page = tmp_path / "m.skops", tmp_path / "out.csv", tmp_path / "page.html"
    run.ok("fit", timed, *TIMES, "-m", "nsk", "-o", model)
    run.ok("predict", model, timed, "-o", out)
    rows = read_rows(out)
    risk = np.array([float(row["predicted"]) for row in rows])
    times = [row["median_time"] for row in rows]
    assert min(float(t) for t in times if t) < max(float(t) for t in times if t)
    order = np.argsort(risk)
    assert float(times[order[-1]]) < np.median([float(t or "inf") for t in times])
    inside = read_rows(tmp_path / "out.instances.csv")
    assert {"score", "key"} <= inside[0].keys()
    pytest.importorskip("jinja2")
    run.ok("report", model, timed, "--folds", "3", "-o", page)
    text = page.read_text()
    for word in ("C index", "log-rank", "Kaplan-Meier", "events"):
        assert word in text


def test_fit_times_automatically(run, timed, tmp_path):
    model, out = tmp_path / "m.skops", tmp_path / "out.csv"
    words = ("--set", "candidates=['nsk','nsk-max']", "--folds", "2")
    found = run.ok("fit", timed, *TIMES, *words, "-o", model)
    assert "concordance" in found.stdout
    run.ok("predict", model, timed, "-o", out)
    assert len(read_rows(out)) == 45


def test_info_of_times(run, timed):
    facts = json.loads(run("info", timed, *TIMES, "--json").stdout)
    assert facts["bags_with_a_time"] == 45
    assert 0 < facts["events"] < 45


def test_a_time_may_be_missing_and_in_another_table(run, timed, tmp_path):
    cells = {row[0]: row[:3] for row in rows_of()[1:]}
    table = [["bag", "dead", "months"], *cells.values()]
    table[3][2] = ""
    other = write_rows(tmp_path / "labels.csv", table)
    bags = write_rows(tmp_path / "bags.csv", [[r[0], *r[3:]] for r in rows_of()])
    found = run.ok("fit", bags, "--labels", other, *TIMES, "-m", "nsk", "-o", tmp_path / "m.skops")
    assert "1 of 45 bags have no label" in found.stderr


def test_heat_maps_of_risks(tmp_path):
    pytest.importorskip("jinja2")
    bags, y = example(30)
    model = SetKernelCox().fit(bags, y)
    places = np.arange(2 * bags.n_instances).reshape(-1, 2)
    page = HeatMaps(model, bags[:3], places[: bags[:3].n_instances], y[:3], patch_size=1)
    page.save(tmp_path / "maps")
    tiles = json.loads((tmp_path / "maps" / "b0.geojson").read_text())["features"]
    values = [tile["properties"]["measurements"][0]["value"] for tile in tiles]
    np.testing.assert_allclose(np.mean(values), model.predict(bags[:1])[0])
    assert time_texts(y)[0] in (tmp_path / "maps" / "index.html").read_text()


@each(("bad", "words", "message"), [
    (("maybe", "2"), TIMES, "'b7'.* has 'maybe' in the column dead: expected 1 or 0"),
    (("yes", "soon"), TIMES, "'b7'.* has 'soon' in the column months: expected a number"),
    (("yes", "-2"), TIMES, "'b7'.* times must not be negative"),
    (None, ("--event", "dead"), "belong together"),
    (None, (*TIMES, "--task", "regression"), "leave them out"),
    (None, (*TIMES, "-m", "mind"), "mind does not predict times to an event: use auto, nsk"),
])  # fmt: skip
def test_bad_times_are_refused(run, tmp_path, bad, words, message):
    path = write_rows(tmp_path / "timed.csv", rows_of(bad=bad))
    words = words if "-m" in words else (*words, "-m", "nsk")
    found = run.fails("evaluate", path, *words, "--folds", "3")
    assert re.search(message, " ".join(found.stderr.split()))


def test_several_numbers(run, tmp_path):
    rows = [["bag", "a", "b", "x", "y"]]
    for bag, *_, x, y in rows_of()[1:]:
        rows.append([bag, len(bag), float(bag[1:]) / 10, x, y])
    path = write_rows(tmp_path / "numbers.csv", rows)
    model, out = tmp_path / "m.skops", tmp_path / "out.csv"
    found = run("evaluate", path, "--label", "a,b", *NSK, "--json")
    (method,) = json.loads(found.stdout)["methods"]
    assert "MAE of b" in method
    run.ok("fit", path, "--label", "a,b", "-m", "nsk", "-o", model)
    run.ok("predict", model, path, "-o", out)
    assert {"predicted_a", "predicted_b"} <= read_rows(out)[0].keys()
