import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from cli.tables import COLUMNS, slide_rows, write_rows

from bagwise.cluster import BagConstrainedSpectralClustering
from bagwise.io import read_bags
from bagwise.persistence import save_model
from bagwise.report._media import png
from bagwise.semi_supervised import WellSVMClassifier

for needed in ("jinja2", "skops", "pyarrow"):
    pytest.importorskip(needed)


def payload(path):
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="explorer-data">(.*?)</script>', text)
    return json.loads(found[1])


@pytest.fixture
def model(run, slides):
    path = slides.parent / "model.skops"
    result = run("fit", slides, *COLUMNS, "-m", "sil", "-o", path)
    assert result.exit_code == 0, result.stderr
    return path


@pytest.fixture
def page(tmp_path):
    return tmp_path / "report.html"


def test_the_page_is_written_and_named(run, slides, model, page):
    result = run("report", model, slides, "-o", page)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.strip() == str(page.resolve())
    data = payload(page)
    assert data["bags"]["id"] == [f"s{i}" for i in range(24)]
    assert data["bags"]["truth"] == ["no", "yes"] * 12
    assert "sil on slides.csv" in page.read_text(encoding="utf-8")
    told = run("report", model, slides, "-o", page, "--force", "--json")
    assert json.loads(told.stdout)["bytes"] == page.stat().st_size
    assert "fitted on these bags, so these metrics are optimistic" in page.read_text(
        encoding="utf-8"
    )


def test_the_page_knows_which_bags_the_model_was_fitted_on(run, slides, page):
    head, *rows = slide_rows()
    few = [row for row in rows if int(row[0][1:]) < 20]
    part = write_rows(slides.parent / "part.csv", [head, *few])
    model = slides.parent / "part.skops"
    assert run("fit", part, *COLUMNS, "-m", "sil", "-o", model).exit_code == 0
    assert run("report", model, slides, "--group", "patient", "-o", page).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "on the 4 labelled bags that the model was not fitted on; 20 others are" in text
    assert "0 contain bags the model was fitted on, and other bags" in text


def test_folds_give_the_figures(run, slides, model, page):
    words = ("report", model, slides, "--group", "patient", "-o", page)
    result = run(*words, "--cv", 4)
    assert result.exit_code == 0, result.stderr
    text = page.read_text(encoding="utf-8")
    assert "4-fold cross-validation, groups whole" in text
    assert "baseline: majority" in text
    assert "baseline: pooled trees" in text
    assert "12 groups. 12 of them contain bags with different labels" in text
    evaluated = run(
        *("evaluate", slides, *COLUMNS, "--group", "patient", "-m", "sil", "--folds", 4, "--json")
    )
    accuracy = json.loads(evaluated.stdout)["methods"][0]["accuracy"]["mean"]
    shown = re.search(r'this model</th>\s*<td class="number short">([\d.]+)</td>', text)[1]
    assert float(shown) == pytest.approx(accuracy, abs=0.02)  # folds are not all of one size


def test_bags_need_no_labels(run, slides, model, page):
    rows = [row[:2] + row[3:] for row in slide_rows()]
    new = write_rows(slides.parent / "new.csv", rows)
    assert run("report", model, new, "-o", page).exit_code == 0
    assert payload(page)["bags"]["truth"] is None
    page.unlink()
    result = run("report", model, new, "--cv", 3, "-o", page)
    assert result.exit_code == 2
    assert "--folds needs labels" in result.stderr
    known = [[f"s{i}", "yes" if i % 2 else "no"] for i in range(24)]
    labels = write_rows(slides.parent / "labels.csv", [["slide", "ill"], *known])
    words = ("--labels", labels, "--bag", "slide", "--label", "ill")
    result = run("report", model, new, *words, "-o", page)
    assert result.exit_code == 0, result.stderr
    assert payload(page)["bags"]["truth"] == ["no", "yes"] * 12


def test_labels_kept_elsewhere_are_called_as_in_the_fit(run, slides, model, page):
    new = write_rows(slides.parent / "new.csv", [row[:2] + row[3:] for row in slide_rows()])
    known = [[f"s{i}", "yes" if i % 2 else "no"] for i in range(24)]
    labels = write_rows(slides.parent / "labels.csv", [["slide", "tumour"], *known])
    result = run("report", model, new, "--labels", labels, "-o", page)
    assert result.exit_code == 0, result.stderr
    assert payload(page)["bags"]["truth"] == ["no", "yes"] * 12


def test_labels_of_sets_may_be_separated_otherwise_than_in_the_fit(run, slides, page):
    head, *rows = slide_rows()
    files = {}
    for name, separator in (("then", ";"), ("now", "/")):
        seen = [[*row[:2], f"cell{separator}{row[2]}", *row[3:]] for row in rows]
        files[name] = write_rows(slides.parent / f"{name}.csv", [head, *seen])
    model = slides.parent / "sets.skops"
    words = (
        "--bag",
        "slide",
        "--label-set",
        "tumour",
        "--exclude",
        "patient",
        "-m",
        "citation-knn",
    )
    result = run("fit", files["then"], *words, "-o", model)
    assert result.exit_code == 0, result.stderr
    result = run("report", model, files["now"], "--separator", "/", "-o", page)
    assert result.exit_code == 0, result.stderr
    assert set(payload(page)["bags"]["truth"]) == {"cell; no", "cell; yes"}


def test_a_positive_label_and_label_sets(run, slides, page):
    other = slides.parent / "positive.skops"
    run("fit", slides, *COLUMNS, "--positive", "no", "-m", "sil", "-o", other)
    result = run("report", other, slides, "--cv", 3, "-o", page)
    assert result.exit_code == 0, result.stderr
    data = payload(page)
    assert data["bags"]["truth"] == ["no", "yes"] * 12
    assert data["heads"]["bagScore"] == "score for “no”"
    sets = slides.parent / "sets.skops"
    words = ("--bag", "slide", "--label-set", "tumour", "--features", "red,green,blue")
    assert run("fit", slides, *words, "-m", "orlr", "-o", sets).exit_code == 0
    result = run("report", sets, slides, "--cv", 3, "-o", page, "--force")
    assert result.exit_code == 0, result.stderr
    assert "one-error" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [(), ("--cv", 3)], ids=["fitted", "held out"])
def test_a_positive_label_that_is_the_number_0(run, slides, page, words):
    head, *rows = slide_rows()
    numbered = [[slide, patient, int(ill == "yes"), *x] for slide, patient, ill, *x in rows]
    write_rows(slides, [head, *numbered])
    model = slides.parent / "positive.skops"
    assert run("fit", slides, *COLUMNS, "--positive", "0", "-m", "nsk", "-o", model).exit_code == 0
    result = run("report", model, slides, *words, "-o", page)
    assert result.exit_code == 0, result.stderr
    bags = payload(page)["bags"]
    assert bags["truth"] == ["0", "1"] * 12
    assert sum(bags["wrong"]) < 6  # the labels are not exchanged


def test_media_come_from_the_folder_of_the_table(run, slides, model, page):
    folder = slides.parent / "tiles"
    folder.mkdir()
    head, *rows = slide_rows()
    for i, row in enumerate(rows):
        (folder / f"{i}.png").write_bytes(png(np.full((4, 4), i / len(rows))))
        row += [f"tiles/{i}.png" if i else "", f"note {i}", f"tiles/{i}.png", 1, 2, 3, 4]
    head += ["tile", "remark", "slide_image", "x", "y", "w", "h"]
    order = np.random.default_rng(0).permutation(len(rows))  # rows of a bag need not be together
    table = write_rows(slides.parent / "media.csv", [head, *(rows[i] for i in order)])
    words = ("--image", "tile", "--text", "remark", "--source", "slide_image", "--box", "x,y,w,h")
    result = run("report", model, table, *words, "--per-bag", 1, "-o", page)
    assert result.exit_code == 0, result.stderr
    data = payload(page)
    bags = read_bags(table, bag="slide", label="tumour", features=["red", "green", "blue"]).bags
    place = {tuple(row[3:6]): f"note {i}" for i, row in enumerate(rows)}
    for i in range(len(bags)):
        start, stop = data["offsets"][i : i + 2]
        for j in range(start, stop):
            instance = bags[i][data["instances"]["row"][j]]
            assert data["instances"]["text"][j] == place[tuple(instance.tolist())]
            assert data["instances"]["box"][j] == [1, 2, 3, 4]
            assert data["instances"]["source"]["place"][j] >= 0
        assert data["instances"]["image"]["place"][start + 1 : stop] == [-1] * (stop - start - 1)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--image", "nothing"), "there is no column 'nothing'"),
        (("--image", "patient"), "'p0' is not a file that a page can show as image"),
        (("--box", "x,y"), "expected four columns"),
        (("--group", "nothing"), "no column 'nothing'"),
        (("--label", "nothing"), "no column 'nothing'"),
        (("--cv", 30), "30 folds"),
        (("--budget", "much"), "much"),
    ],
)
def test_bad_words_are_one_line(run, slides, model, page, words, told):
    result = run("report", model, slides, *words, "-o", page)
    assert result.exit_code == 2
    assert told in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not page.exists()


def test_nothing_is_overwritten(run, slides, model, page):
    page.write_text("mine")
    result = run("report", model, slides, "-o", page)
    assert (result.exit_code, page.read_text()) == (2, "mine")
    for read in (model, slides):
        before = read.read_bytes()
        result = run("report", model, slides, "-o", read, "--force")
        assert result.exit_code == 2
        assert "is an input file" in result.stderr
        assert read.read_bytes() == before
    assert run("report", model, slides, "-o", page, "--force").exit_code == 0


def test_missing_files(run, slides, model, page):
    for words in ((model, "no.csv"), ("no.skops", slides), (slides, slides)):
        result = run("report", *words, "-o", page)
        assert result.exit_code == 2
        assert len(result.stderr.strip().splitlines()) == 1


def test_models_that_do_not_classify_bags(run, slides, page):
    data = read_bags(slides, bag="slide", label="tumour", features=["red", "green", "blue"])
    path = slides.parent / "clusters.skops"
    clusters = BagConstrainedSpectralClustering(2, random_state=0).fit(data.bags, data.y)
    facts = {"columns": {"bag": "slide", "label": "tumour"}}
    save_model(clusters, path, metadata=facts)
    result = run("report", path, slides, "-o", page)
    assert result.exit_code == 0, result.stderr
    assert "Clusters" in page.read_text(encoding="utf-8")
    result = run("report", path, slides, "--cv", 3, "-o", page, "--force")
    assert "--folds is for models that predict the label of a bag" in result.stderr
    rows = data.bags.instances
    partly = np.where(np.arange(len(rows)) % 3 == 0, (rows[:, 0] > 2).astype(int), -1)
    path = slides.parent / "rows.skops"
    save_model(WellSVMClassifier().fit(rows, partly), path, metadata=facts)
    result = run("report", path, slides, "--exclude", "patient", "-o", page, "--force")
    assert "bags of one instance each" in result.stderr


def test_arrays_in_a_file(run, tmp_path, page):
    exported = tmp_path / "musk1.npz"
    assert run("datasets", "export", "musk1", "-o", exported).exit_code == 0
    model = tmp_path / "model.skops"
    assert run("fit", exported, "-m", "sil", "-o", model).exit_code == 0
    result = run("report", model, exported, "-o", page)
    assert result.exit_code == 0, result.stderr
    assert len(payload(page)["bags"]["id"]) == 92
    result = run("report", model, exported, "--image", "X", "-o", page, "--force")
    assert "read from CSV, TSV and Parquet tables" in result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such locale")
def test_reports_and_tables_in_an_ascii_locale(run, slides, model, page):
    """Files are UTF-8 whatever the locale says."""
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = [sys.executable, "-X", "warn_default_encoding", "-m", "bagwise"]
    words += ["report", model, slides, "--title", "Gewebe", "-o", page]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "bagwise" not in "".join(
        line for line in done.stderr.splitlines() if "EncodingWarning" in line
    )
    assert payload(page)["bags"]["id"] == [f"s{i}" for i in range(24)]


@pytest.mark.parametrize("limit", [0, 10_000])
def test_a_full_disk_leaves_the_old_page(run, slides, model, page, limit):
    resource = pytest.importorskip("resource")
    page.write_text("old", encoding="utf-8")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))  # no file may grow beyond
    try:
        result = run("report", model, slides, "-o", page, "--force")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert result.exit_code == 2
    assert "File too large" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert page.read_text(encoding="utf-8") == "old"
    assert not list(page.parent.glob(".*"))


def three_labels(path, labels="abc", groups=None):
    """36 bags of up to three labels, the instances of each around a corner of its own."""
    rng = np.random.default_rng(0)
    rows = [["bag", "patient", "label", "x", "y", "z"]]
    for i in range(36):
        label = "abc"[i % 3]
        patient = f"p{i // 3}" if label not in (groups or {}) else groups[label]
        for _ in range(2):
            point = rng.normal(size=3) + 2 * np.eye(3)[i % 3]
            if label in labels:
                rows.append([f"s{i}", patient, label, *point.tolist()])
    return write_rows(path, rows)


def fitted(run, table):
    model = table.with_suffix(".skops")
    words = ("--exclude", "patient", "-m", "sil", "-o", model)
    result = run("fit", table, *words)
    assert result.exit_code == 0, result.stderr
    return model


def figures(page):
    """The first row of figures, and the rows of labels, in any order."""
    text = page.read_text(encoding="utf-8").split("Evaluation", 2)[-1].split("All bags")[0]
    rows = [re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row) for row in text.split("</tr>")]
    rows = [row for row in rows if row]
    first = next(row for row in rows if row[0] == "this model")
    start = next(i for i, row in enumerate(rows) if row[:2] == ["label", "bags"])
    return first, sorted(rows[start + 1 :])


@pytest.mark.parametrize(("of_model", "of_file"), [("ac", "abc"), ("ab", "abc"), ("abc", "ac")])
def test_figures_of_folds_do_not_depend_on_the_labels_of_the_model(
    run, tmp_path, page, of_model, of_file
):
    """Folds are fitted anew: a model of other labels gives the same figures."""
    table = three_labels(tmp_path / "table.csv", of_file)
    other = fitted(run, three_labels(tmp_path / "other.csv", of_model))
    found = []
    for model in (fitted(run, table), other):
        result = run("report", model, table, "--cv", 3, "-o", page, "--force")
        assert result.exit_code == 0, result.stderr
        found.append((figures(page)[0], payload(page)["bags"]["heldOut"]))
        if of_file == "abc":
            found[-1] += (figures(page)[1],)
    assert found[0] == found[1]


@pytest.mark.filterwarnings("always::bagwise.exceptions.DataWarning")
def test_a_label_that_is_in_one_group(run, tmp_path, page):
    """All its bags are in one fold, whose model has not seen it: a warning, and no AUC of it."""
    table = three_labels(tmp_path / "table.csv", groups={"b": "alone"})
    words = (table, "--group", "patient", "--json")
    result = run("report", fitted(run, table), *words, "--cv", 3, "-o", page)
    assert "Warning: all bags with the label b are in groups of one fold" in result.stderr
    assert result.exit_code == 0, result.stderr
    _, labels = figures(page)
    assert [row[-1] == "" for row in labels] == [False, True, False]  # AUC of a, b, c
    assert "b" not in {
        predicted
        for predicted, truth in zip(
            payload(page)["bags"]["heldOut"], payload(page)["bags"]["truth"], strict=True
        )
        if truth == "b"
    }
    result = run("evaluate", *words, "--folds", 3, "-m", "sil")
    assert result.exit_code == 0, result.stderr
    assert None not in json.loads(result.stdout)["methods"][0]["AUC"]["folds"]  # that of a and c


def test_folds_of_a_model_with_a_positive_label_and_a_further_one(run, tmp_path, page):
    """The model knows its labels as 0 and 1; the further one is text."""
    two = three_labels(tmp_path / "two.csv", "ac")
    model = tmp_path / "positive.skops"
    words = ("--positive", "a", "--exclude", "patient", "-m", "sil", "-o", model)
    assert run("fit", two, *words).exit_code == 0
    table = three_labels(tmp_path / "table.csv")
    found = []
    for file in (model, fitted(run, table)):
        result = run("report", file, table, "--cv", 3, "-o", page, "--force")
        assert result.exit_code == 0, result.stderr
        found.append(payload(page)["bags"]["heldOut"])
    assert found[0] == found[1]


def test_coordinates_make_heat_maps(run, slides, model, page):
    head, *rows = slide_rows()
    named = write_rows(
        slides.parent / "placed.csv",
        [[*head, "px", "py"], *([*r, i, 0] for i, r in enumerate(rows))],
    )
    result = run("report", model, named, "--coords", "px,py", "-o", page)
    assert result.exit_code == 0, result.stderr
    data = payload(page)
    assert len(data["maps"]["picture"]) == len(data["bags"]["id"])
    assert "expected two columns" in run("report", model, named, "--coords", "px", "-o", "x").stderr
