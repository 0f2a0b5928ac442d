import json
import re

import numpy as np
import pytest
from cli.tables import COLUMNS, slide_rows, write_rows

from bagwise.io import read_bags
from bagwise.report._media import png

for needed in ("jinja2", "skops", "pyarrow"):
    pytest.importorskip(needed)


def payload(path):
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="explorer-data">(.*?)</script>', text)
    return json.loads(found[1])


@pytest.fixture
def model(run, slides):
    path = slides.parent / "model.skops"
    run.ok("fit", slides, *COLUMNS, "-m", "sil", "-o", path)
    return path


@pytest.fixture
def page(tmp_path):
    return tmp_path / "report.html"


def test_the_page_is_written_and_named(run, slides, model, page):
    result = run.ok("report", model, slides, "-o", page)
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
    run.ok("fit", part, *COLUMNS, "-m", "sil", "-o", model)
    run.ok("report", model, slides, "--group", "patient", "-o", page)
    text = page.read_text(encoding="utf-8")
    assert "on the 4 labelled bags that the model was not fitted on; 20 others are" in text
    assert "In 0 of them the model was fitted on some bags, not on all" in text


def test_folds_give_the_figures(run, slides, model, page):
    words = ("report", model, slides, "--group", "patient", "-o", page)
    run.ok(*words, "--folds", 4)
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
    run.ok("report", model, new, "-o", page)
    assert payload(page)["bags"]["truth"] is None
    page.unlink()
    result = run.fails("report", model, new, "--folds", 3, "-o", page)
    assert "--folds needs labels" in result.stderr
    known = [[f"s{i}", "yes" if i % 2 else "no"] for i in range(24)]
    labels = write_rows(slides.parent / "labels.csv", [["slide", "ill"], *known])
    words = ("--labels", labels, "--bag", "slide", "--label", "ill")
    run.ok("report", model, new, *words, "-o", page)
    assert payload(page)["bags"]["truth"] == ["no", "yes"] * 12


def test_a_positive_label_and_label_sets(run, slides, page):
    other = slides.parent / "positive.skops"
    run("fit", slides, *COLUMNS, "--positive", "no", "-m", "sil", "-o", other)
    run.ok("report", other, slides, "--folds", 3, "-o", page)
    data = payload(page)
    assert data["bags"]["truth"] == ["no", "yes"] * 12
    assert data["heads"]["bagScore"] == "score for “no”"
    sets = slides.parent / "sets.skops"
    words = ("--bag", "slide", "--label-set", "tumour", "--features", "red,green,blue")
    run.ok("fit", slides, *words, "-m", "orlr", "-o", sets)
    run.ok("report", sets, slides, "--folds", 3, "-o", page, "--force")
    assert "one-error" in page.read_text(encoding="utf-8")


def test_media_come_from_the_folder_of_the_table(run, slides, model, page):
    folder = slides.parent / "tiles"
    folder.mkdir()
    head, *rows = slide_rows()
    for i, row in enumerate(rows):
        (folder / f"{i}.png").write_bytes(png(np.full((4, 4), i / len(rows))))
        row += [f"tiles/{i}.png" if i else "", f"note {i}"]
    order = np.random.default_rng(0).permutation(len(rows))  # rows of a bag need not be together
    sorted_rows = [[*head, "tile", "remark"], *(rows[i] for i in order)]
    table = write_rows(slides.parent / "media.csv", sorted_rows)
    run.ok("report", model, table, "--image", "tile", "--text", "remark", "-o", page)
    data = payload(page)
    bags = read_bags(table, bag="slide", label="tumour", features=["red", "green", "blue"]).bags
    place = {tuple(row[3:6]): (row[6] != "", row[7]) for row in rows}
    for i in range(len(bags)):
        for j in range(*data["offsets"][i : i + 2]):
            instance = bags[i][data["instances"]["row"][j]]
            found = data["instances"]["image"]["place"][j] >= 0, data["instances"]["text"][j]
            assert found == place[tuple(instance.tolist())]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--image", "nothing"), "no column 'nothing'"),
        (("--image", "patient"), "'p0' is not a file that a page can show as image"),
        (("--group", "nothing"), "no column 'nothing'"),
        (("--label", "nothing"), "no column 'nothing'"),
        (("--folds", 30), "30 folds"),
    ],
)
def test_bad_words_are_one_line(run, slides, model, page, words, told):
    result = run.fails("report", model, slides, *words, "-o", page)
    assert told in result.stderr.splitlines()[-1]
    assert not page.exists()


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
    run.ok("fit", table, *words)
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
        run.ok("report", model, table, "--folds", 3, "-o", page, "--force")
        found.append((figures(page)[0], payload(page)["bags"]["heldOut"]))
        if of_file == "abc":
            found[-1] += (figures(page)[1],)
    assert found[0] == found[1]


def test_coordinates_make_heat_maps(run, slides, model, page):
    head, *rows = slide_rows()
    named = write_rows(
        slides.parent / "placed.csv",
        [[*head, "px", "py"], *([*r, i, 0] for i, r in enumerate(rows))],
    )
    run.ok("report", model, named, "--coords", "px,py", "-o", page)
    data = payload(page)
    assert len(data["maps"]["picture"]) == len(data["bags"]["id"])
    assert (
        "expected the names of 2 columns"
        in run("report", model, named, "--coords", "px", "-o", "x").stderr
    )
