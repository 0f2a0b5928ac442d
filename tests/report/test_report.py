import json
import re
from html import unescape

import numpy as np
import pytest
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import Ridge
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    f1_score,
    mean_absolute_error,
    precision_score,
    r2_score,
    recall_score,
    roc_auc_score,
)
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise import Bags
from bagwise.annotation import ORedLogisticRegression
from bagwise.auto import AutoBagClassifier
from bagwise.classification import (
    CitationKNN,
    PrimalDualMISVM,
    SetKernelSVM,
    SingleInstanceClassifier,
    WellMISVM,
)
from bagwise.cluster import BagConstrainedSpectralClustering, WellSVMClustering
from bagwise.datasets import make_bags
from bagwise.displays import HeatMapDisplay
from bagwise.displays._heat_maps import colour_limits
from bagwise.embedding import BagDissimilarity, BagStatistics
from bagwise.evaluate import HeldOut, held_out_predictions
from bagwise.evaluate._held_out import predictions_of_models
from bagwise.exceptions import DataNotFoundError, InputError, LabelError, OutputExistsError
from bagwise.labels import Intervals, LabelCounts, Labels
from bagwise.metric_learning import MIMLCA
from bagwise.metrics import average_precision, coverage, one_error
from bagwise.predictions import Predictions, instance_attributions
from bagwise.preprocessing import InstanceTransformer
from bagwise.regression import SetKernelRegressor
from bagwise.report import Media, Report
from bagwise.report._page import data_url
from bagwise.report._report import MAP_DPI, heat_maps
from bagwise.semi_supervised import WellSVMClassifier
from bagwise.survival import SetKernelCox

pytest.importorskip("jinja2")

EVIL = "</script><script>alert('bag')</script>"


def headings(html):
    return re.findall(r"<h2[^>]*>([^<]*)</h2>", html)


def payload(html):
    found = re.search(r'<script type="application/json" id="explorer-data">(.*?)</script>', html)
    return json.loads(found[1])


def text_of(html):
    """What a reader sees of the page outside the list of bags."""
    bare = re.sub(r"<(script|style)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", bare)).split())


@pytest.fixture
def bags(rng):
    """Twelve bags; those of the class "yes" have one instance far away, the last of each."""
    parts = []
    for i in range(12):
        rows = rng.normal(size=(2 + i % 3, 3))
        if i % 2:
            rows[-1] += 6
        parts.append(rows)
    return Bags.from_arrays(parts, ids=[f"slide {i}" for i in range(12)])


@pytest.fixture
def y():
    return np.array(["no", "yes"] * 6)


@pytest.fixture
def words(rng):
    """Bags of label sets: an instance of the class k lies near 5 e_k."""
    sets, parts = [], []
    for i in range(20):
        labels = [i % 3] if i % 4 == 0 else [i % 3, (i + 1) % 3]
        parts.append(np.array([5 * np.eye(3)[k] + rng.normal(scale=0.6, size=3) for k in labels]))
        sets.append({"abc"[k] for k in labels})
    return Bags.from_arrays(parts), sets


def test_the_instances_are_in_the_order_of_their_scores_and_the_key_is_marked(bags, y):
    model = make_pipeline(InstanceTransformer(StandardScaler()), SingleInstanceClassifier())
    model.fit(bags, y)
    data = payload(Report(model, bags, y).to_html())
    scaled = model[0].transform(bags)
    scores = bags.split(model[1].score_instances(scaled))
    keys = model[1].key_instances(scaled)
    marked = dict(data["instances"]["keys"])
    for i in range(len(bags)):
        start, stop = data["offsets"][i : i + 2]
        rows = data["instances"]["row"][start:stop]
        assert rows == np.argsort(-scores[i], kind="stable").tolist()
        np.testing.assert_allclose(
            data["instances"]["score"][start:stop], scores[i][rows], rtol=1e-3
        )
        assert [j - start for j in range(start, stop) if j in marked] == [rows.index(keys[i])]
    assert data["bags"]["id"] == [f"slide {i}" for i in range(12)]
    assert data["bags"]["predicted"] == model.predict(bags).tolist()


def test_figures_are_those_of_scikit_learn(bags, y):
    model = SingleInstanceClassifier().fit(bags, y)
    truth = y.copy()
    truth[:3] = ["yes", "no", "yes"]  # three labels the model gets wrong
    html = Report(model, bags, truth).to_html()
    text = text_of(html)
    accuracy = np.mean(model.predict(bags) == truth)
    assert f"this model {accuracy:.3f}" in text
    assert "most common label 0.583 0.500" in text  # 7 of 12 are "yes"
    wrong = (model.predict(bags) != truth).astype(int).tolist()
    assert payload(html)["bags"]["wrong"] == wrong
    assert "metrics are optimistic" in text  # asked about the bags it may have been fitted on


def test_held_out_answers_make_the_figures(bags, y):
    model = SingleInstanceClassifier().fit(bags, y)
    flipped = np.where(y == "yes", "no", "yes")
    baselines = {"sil": HeldOut(y)}
    held_out = HeldOut(flipped, how="5-fold cross-validation", baselines=baselines)
    html = Report(model, bags, y, held_out=held_out).to_html()
    assert payload(html)["bags"]["heldOut"] == flipped.tolist()
    assert payload(html)["bags"]["predicted"] == model.predict(bags).tolist()
    assert payload(html)["bags"]["wrong"] == [1] * 12
    text = text_of(html)
    assert "this model 0.000" in text
    assert "baseline: sil 1.000" in text
    assert "not better than the baseline sil: accuracy 0.000 against 1.000." in text
    assert "5-fold cross-validation" in text
    assert "metrics are optimistic" not in text
    good, bad = np.arange(12.0) + 20 * (y == "yes"), np.arange(12.0)
    for scores, other, told in ((bad, good, True), (good, bad, False), (good, good, True)):
        baselines = {"pooled trees": HeldOut(y, other)}
        html = Report(model, bags, y, held_out=HeldOut(y, scores, baselines=baselines)).to_html()
        assert ("not better than the baseline pooled trees: AUC" in text_of(html)) is told
    with pytest.raises(InputError, match="2 held-out predictions for 12 bags"):
        Report(model, bags, y, held_out=HeldOut(flipped[:2])).to_html()


def label_rows(html):
    """The table label by label: the cells of each row by its label."""
    table = html.split("Metrics of each label", 1)[1].split("</table>")[0]
    rows = [re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row) for row in table.split("</tr>")]
    return {cells[0]: cells[1:] for cells in rows if cells}


@pytest.mark.parametrize("own", [["a", "c"], ["a", "b", "c"], ["b", "c"]])
def test_held_out_scores_belong_to_their_labels(bags, rng, own):
    """Whatever labels the model was fitted on, and in whatever order the scores are."""
    truth = np.array(["a", "b", "c"] * 4)
    model = SingleInstanceClassifier().fit(bags, np.resize(own, 12))
    classes = np.array(["c", "a", "b"])
    scores, proba = rng.normal(size=(12, 3)), rng.dirichlet(np.ones(3), size=12)
    predicted = classes[scores.argmax(axis=1)]
    for column, values in (("scores", scores), ("probabilities", proba)):
        held_out = HeldOut(predicted, **{column: values}, classes=classes)
        html = Report(model, bags, truth, held_out=held_out).to_html()
        rows = label_rows(html)
        areas = [roc_auc_score(truth == label, values[:, k]) for k, label in enumerate(classes)]
        for label, area in zip(classes, areas, strict=True):
            assert rows[label][-1] == f"{area:.3f}"
        assert payload(html)["bags"]["heldOut"] == predicted.tolist()
        accuracy = np.mean(predicted == truth)
        assert f"this model {accuracy:.3f} {accuracy:.3f} {np.mean(areas):.3f}" in text_of(html)
    right = classes[proba.argmax(axis=1)] == truth
    brier = brier_score_loss(right.astype(int), proba.max(axis=1))
    assert f"Brier score {brier:.3f}" in text_of(html)


def test_one_held_out_score_is_that_of_the_second_label(bags, y, rng):
    """The model knows a label between the two of the bags."""
    model = SingleInstanceClassifier().fit(bags, np.array(["no", "or", "yes"] * 4))
    scores = rng.normal(size=12)
    held_out = HeldOut(np.where(scores > 0, "yes", "no"), scores, classes=["no", "yes"])
    text = text_of(Report(model, bags, y, held_out=held_out).to_html())
    area = roc_auc_score(y == "yes", scores)
    assert f"ROC curve of “yes”. Area {area:.3f}" in text


def test_a_label_that_a_fold_had_not_seen_has_no_ranking(bags, rng):
    truth = np.array(["a", "b", "c"] * 4)
    model = SingleInstanceClassifier().fit(bags, truth)
    scores = rng.normal(size=(12, 3))
    scores[:6, 1] = -np.inf
    held_out = HeldOut(truth, scores, classes=["a", "b", "c"])
    html = Report(model, bags, truth, held_out=held_out).to_html()
    areas = [roc_auc_score(truth == label, scores[:, k]) for label, k in (("a", 0), ("c", 2))]
    assert label_rows(html)["b"][-1] == ""
    assert f"this model 1.000 1.000 {np.mean(areas):.3f}" in text_of(html)


COMMON = ["The data", "All bags", "The model"]
WITH_FIGURES = ["The data", "Evaluation", "All bags", "The model"]


@pytest.mark.parametrize(
    "model", [PrimalDualMISVM(random_state=0), WellMISVM(), SetKernelSVM(), CitationKNN()]
)
def test_sections_of_classifiers(model, bags, y):
    model.fit(bags, y)
    assert headings(Report(model, bags, y).to_html()) == WITH_FIGURES
    assert headings(Report(model, bags).to_html()) == COMMON


def test_sections_of_annotators(words):
    bags, sets = words
    model = ORedLogisticRegression().fit(bags, sets)
    html = Report(model, bags, sets).to_html()
    assert headings(html) == WITH_FIGURES
    data, posterior = payload(html), model.annotate_proba(bags, sets)
    shown = bags.offsets[bags.bag_index] + data["instances"]["row"]
    np.testing.assert_allclose(
        data["instances"]["probability"], posterior.max(axis=1)[shown], rtol=1e-3
    )
    named = [data["labels"][k] for k in data["instances"]["label"]]
    assert named == model.annotate(bags, sets)[shown].tolist()
    assert all(label in text_of(html) for label in ("one-error", "coverage", "average precision"))
    assert headings(Report(model, bags).to_html()) == COMMON


def test_a_bag_is_assessed_on_what_is_known_of_it(words):
    """Metrics, tables and curves leave out the cells that are unknown."""
    bags, sets = words
    model = ORedLogisticRegression(reg=100).fit(bags, sets)
    rng = np.random.default_rng(0)
    truth = np.array([[label in each for label in "abc"] for each in sets]).astype(int)
    truth ^= rng.random(truth.shape) < 0.2  # the model is wrong about some
    truth[rng.random(truth.shape) < 0.3] = -1
    truth[0] = -1
    html = Report(
        model, bags, LabelCounts(truth == 1, np.where(truth == 0, 0, -1), "abc")
    ).to_html()
    scores, said, text = model.decision_function(bags), model.predict(bags), text_of(html)
    measures = [f"{f(truth, scores):.3f}" for f in (one_error, coverage, average_precision)]
    assert f"this model {' '.join(measures)}" in text
    assert "labels that are unknown are left out" in text
    wrong = [int(((a != b) & (a >= 0)).any()) for a, b in zip(truth, said, strict=True)]
    assert payload(html)["bags"]["wrong"] == [None, *wrong[1:]]
    for k, label in enumerate("abc"):
        known = truth[:, k] >= 0
        own, found, score = truth[known, k], said[known, k], scores[known, k]
        row = [precision_score(own, found), recall_score(own, found), f1_score(own, found)]
        row += [roc_auc_score(own, score), average_precision_score(own, score)]
        assert f"{label} {own.sum()} {' '.join(f'{v:.3f}' for v in row)}" in text
        assert f"{label} {own.sum()} {own.mean():.0%}" in text  # a share of the known ones


def test_refitted_models_learn_from_counts(words):
    bags, sets = words
    known = LabelCounts.from_strings([["=1" if c in s else "0" for c in "abc"] for s in sets])
    model = ORedLogisticRegression()
    expected = held_out_predictions(model, bags, known, cv=KFold(3, shuffle=True, random_state=0))
    labels = Labels.from_counts(known, bags.sizes)
    how = {"n_folds": 3, "seed": 0, "after_fold": lambda: None}
    (found,) = predictions_of_models([model], bags, labels, classes=known.classes, **how)
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_instances_are_labelled_by_all_that_is_known(words):
    """An unknown label is possible; a label has as many instances as are counted."""
    bags, sets = words
    model = ORedLogisticRegression().fit(bags, sets)
    cells = [[["0", "=1"][label in s] for label in "abc"] for s in sets]
    for i, row in enumerate(cells):
        row[i % 3] = ""
    known = LabelCounts.from_strings(cells, list("abc"))
    data = payload(Report(model, bags, known).to_html())
    shown = bags.offsets[bags.bag_index] + data["instances"]["row"]
    named = [data["labels"][k] for k in data["instances"]["label"]]
    assert named == model.annotate(bags, known)[shown].tolist()


@pytest.mark.parametrize("known", [True, False])
def test_background_is_named_where_it_is_most_probable(words, known):
    """As `bagwise annotate` and `predict` do."""
    bags, sets = words
    noise = np.random.default_rng(0).normal(-5, 0.6, size=(len(bags), 4, 3))
    bags = Bags.from_arrays([np.vstack(pair) for pair in zip(bags, noise, strict=True)])
    model = ORedLogisticRegression(background=True).fit(bags, sets)
    html = Report(model, bags, sets if known else None).to_html()
    data = payload(html)
    proba = model.annotate_proba(bags, sets) if known else model.predict_proba_instances(bags)
    shown = bags.offsets[bags.bag_index] + data["instances"]["row"]
    names = [*model.classes_.tolist(), "background"]
    named = [data["labels"][k] for k in data["instances"]["label"]]
    assert named == [names[k] for k in proba.argmax(axis=1)[shown]]
    assert "background" in named
    np.testing.assert_allclose(
        data["instances"]["probability"], proba.max(axis=1)[shown], rtol=1e-3
    )


def test_sections_of_clusterers(words):
    bags, sets = words
    model = BagConstrainedSpectralClustering(3, random_state=0).fit(bags, sets)
    html = Report(model, bags, sets).to_html()
    assert headings(html) == ["The data", "All bags", "Clusters", "The model"]
    data = payload(html)
    shown = bags.offsets[bags.bag_index] + data["instances"]["row"]
    assert data["instances"]["label"] == model.labels_[shown].tolist()
    assert html.count('tabindex="-1"><title>') == bags.n_instances  # the map
    rows = bags.instances
    model = WellSVMClustering(2, random_state=0).fit(rows)
    html = Report(model, rows, ["far" if row[0] > 2 else "near" for row in rows]).to_html()
    assert headings(html) == ["The data", "All rows", "Clusters", "The model"]
    assert "most common label" in text_of(html)


def test_new_instances_of_a_clustering_are_predicted(words):
    bags, sets = words
    model = BagConstrainedSpectralClustering(3, random_state=0).fit(bags, sets)
    moved = bags.with_instances(bags.instances[::-1].copy())
    data = payload(Report(model, moved).to_html())
    shown = bags.offsets[bags.bag_index] + data["instances"]["row"]
    assert data["instances"]["label"] == model.predict_instances(moved)[shown].tolist()


def test_sections_of_metric_learners(words):
    bags, sets = words
    model = MIMLCA().fit(bags, sets)
    html = Report(model, bags, sets).to_html()
    assert headings(html) == COMMON
    data = payload(html)
    assert data["heads"]["label"] == "assigned label"
    shown = bags.offsets[bags.bag_index] + data["instances"]["row"]
    assert data["instances"]["label"] == model.assignments_[shown].tolist()
    new = payload(Report(model, bags[::-1], sets[::-1]).to_html())
    assert new["heads"]["label"] == "nearest label"  # other bags: nothing is assigned
    pipeline = make_pipeline(MIMLCA(), CitationKNN()).fit(bags, sets)
    assert headings(Report(pipeline, bags, sets).to_html()) == WITH_FIGURES


def test_sections_of_semi_supervised_models(rng):
    X = np.r_[rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 4]
    y = np.array([0] * 20 + [1] * 20)
    partly = np.where(np.arange(40) % 5 == 0, y, -1)
    model = WellSVMClassifier().fit(X, partly)
    html = Report(model, X, partly).to_html()
    assert headings(html) == ["The data", "Evaluation", "All rows", "The model"]
    assert payload(html)["bags"]["truth"][:6] == ["0", None, None, None, None, "0"]
    np.testing.assert_allclose(
        payload(html)["bags"]["score"], model.decision_function(X), rtol=1e-3
    )
    scaled = make_pipeline(StandardScaler(), WellSVMClassifier()).fit(X, partly)
    said = payload(Report(scaled, X).to_html())["bags"]["predicted"]
    assert said == [str(label) for label in scaled.predict(X)]
    with pytest.raises(InputError, match="bags of one instance each"):
        Report(model, [X[:2], X[2:]]).to_html()


def test_instances_of_a_model_without_scores_have_contributions(bags, y):
    model = make_pipeline(BagDissimilarity(), SVC(kernel="linear")).fit(bags, y)
    html = Report(model, bags, y).to_html()
    data, options = payload(html), {"n_samples": 50, "random_state": 0}
    found = bags.split(instance_attributions(model, bags, method="sampled", **options))
    marked = dict(data["instances"]["keys"])
    for i in range(len(bags)):
        start, stop = data["offsets"][i : i + 2]
        rows = data["instances"]["row"][start:stop]
        np.testing.assert_allclose(
            data["instances"]["score"][start:stop], found[i][rows], rtol=1e-3, atol=1e-9
        )
        assert [j for j in range(start, stop) if j in marked] == [start]  # the first
    assert "contribution to “yes”: its weight in a linear" in text_of(html)
    assert data["heads"]["score"] == "contribution to “yes”"
    assert data["bags"]["predicted"] == model.predict(bags).tolist()


def test_many_instances_are_scored_alone(bags, y, monkeypatch):
    model = make_pipeline(BagDissimilarity(), SVC(kernel="linear")).fit(bags, y)
    monkeypatch.setattr("bagwise.predictions._predictions.MOST_SCORED", 10)
    html = Report(model, bags, y).to_html()
    assert "the score of a bag with this instance alone (attribution method “single”)" in text_of(
        html
    )
    found = instance_attributions(model, bags, method="single")
    assert max(payload(html)["instances"]["score"]) == pytest.approx(found.max(), rel=1e-3)


def test_labels_may_be_missing(bags, y):
    model = SingleInstanceClassifier().fit(bags, y)
    partly = [None, None, *y[2:]]
    html = Report(model, bags, partly).to_html()
    assert payload(html)["bags"]["truth"][:3] == [None, None, "no"]
    assert payload(html)["bags"]["wrong"][:2] == [None, None]
    assert "10 labelled bags" in text_of(html)
    named = Report(model, bags, np.where(y == "yes", "bad", "good"), classes=["good", "bad"])
    assert payload(named.to_html())["bags"]["truth"] == np.where(y == "yes", "bad", "good").tolist()
    with pytest.raises(LabelError, match="y has label sets"):
        Report(model, bags, [{label} for label in y]).to_html()
    assert headings(Report(model, bags, [None] * 12).to_html()) == COMMON


def test_sparse_instances(bags, y):
    thin = bags.with_instances(sparse.csr_array(np.maximum(bags.instances, 0)))
    model = SingleInstanceClassifier().fit(thin, y)
    full = thin.with_instances(thin.instances.toarray())
    assert payload(Report(model, thin, y).to_html()) == payload(Report(model, full, y).to_html())


def test_sizes_are_one_number_if_they_are_equal(bags, y):
    model = SingleInstanceClassifier().fit(bags, y)
    assert "in a bag 2 to 4 features" in text_of(Report(model, bags, y).to_html())
    equal = Bags.from_arrays([bag[:2] for bag in bags])
    assert "in a bag 2 features" in text_of(Report(model, equal, y).to_html())


def test_copies_and_groups_are_told(bags, y):
    rows = bags.instances.copy()
    rows[bags.offsets[3]] = rows[bags.offsets[0]]
    model = SingleInstanceClassifier().fit(bags, y)
    groups = ["p1"] * 2 + ["p2"] * 10
    text = text_of(Report(model, bags.with_instances(rows), y, groups=groups).to_html())
    assert "Possible leak: 2 of 36 instances have copies in a bag of another group" in text
    assert "2 groups. 2 of them contain bags with different labels" in text
    with pytest.raises(InputError, match=r"groups has shape \(1,\) for 12 bags"):
        Report(model, bags, groups=["p1"]).to_html()


def test_media_of_the_best_instances_are_in_the_page(bags, y):
    model = SingleInstanceClassifier().fit(bags, y)
    images = [np.full((4, 4), i / bags.n_instances) for i in range(bags.n_instances)]
    report = Report(model, bags, y, media=Media(images=images, per_bag=1))
    data = payload(report.to_html())
    places = data["instances"]["image"]["place"]
    assert [place >= 0 for place in places] == [
        j == start
        for start, stop in zip(data["offsets"][:-1], data["offsets"][1:], strict=True)
        for j in range(start, stop)
    ]
    assert all(uri.startswith("data:image/png;base64,") for uri in data["media"])


def test_media_keep_to_their_budget_and_best_instances_go_first(bags, y, tmp_path):
    files = []
    for i in range(bags.n_instances):
        files.append(tmp_path / f"{i}.wav")
        files[-1].write_bytes(bytes([i % 256]) * 100)
    model = SingleInstanceClassifier().fit(bags, y)
    html = Report(model, bags, y, media=Media(audio=files, budget=1500)).to_html()
    data = payload(html)
    assert len(data["media"]) == 15  # 12 bags, and three more
    starts = data["offsets"][:-1]
    assert all(data["instances"]["audio"]["place"][start] >= 0 for start in starts)
    assert "exceed the size limit of the page" in text_of(html)
    assert set(data["instances"]["audio"]["name"]) == {file.name for file in files}


def test_bad_media_are_told(bags, y, tmp_path):
    model = SingleInstanceClassifier().fit(bags, y)

    def page(**media):
        return Report(model, bags, media=Media(**media)).to_html()

    with pytest.raises(InputError, match=r"media.images has 1 entries for \d+ instances"):
        page(images=["a.png"])
    with pytest.raises(
        InputError, match=r"'a.txt' is not a file that a page can show as image: expected .avif"
    ):
        page(images=[tmp_path / "a.txt"] * bags.n_instances)
    with pytest.raises(DataNotFoundError, match="no file"):
        page(images=[tmp_path / "a.png"] * bags.n_instances)
    with pytest.raises(InputError, match="an image of shape"):
        page(images=[np.zeros(3)] * bags.n_instances)
    (tmp_path / "b.png").write_bytes(b"x")
    some = [tmp_path / "b.png", *[tmp_path / "a.png"] * (bags.n_instances - 1)]
    with pytest.warns(UserWarning, match="a.png. was not found"):
        page(images=some)


def test_a_file_is_not_overwritten(bags, y, tmp_path):
    report = Report(SingleInstanceClassifier().fit(bags, y), bags)
    path = report.save(tmp_path / "report.html")
    written = path.read_text(encoding="utf-8")
    assert written.startswith("<!doctype html>")
    with pytest.raises(OutputExistsError):
        report.save(path)
    assert report.save(path, force=True).read_text(encoding="utf-8") == written


def test_calibration_of_a_search_over_calibrated_models(bags, y):
    search = GridSearchCV(CalibratedClassifierCV(SetKernelSVM(), cv=2), {"method": ["sigmoid"]})
    search.fit(bags, y)
    text = text_of(Report(search, bags, y).to_html())
    brier = brier_score_loss(y == "yes", search.predict_proba(bags)[:, 1])
    assert f"Brier score {brier:.3f}" in text
    assert "GridSearchCV chose {'method': 'sigmoid'}" in text


def test_figures_are_of_bags_the_model_has_not_seen(bags, y):
    model = SingleInstanceClassifier().fit(bags, y)
    truth = y.copy()
    truth[6:] = np.where(model.predict(bags)[6:] == "yes", "no", "yes")  # wrong where unseen
    seen, groups = np.arange(12) < 6, ["p1"] * 7 + ["p2"] * 5
    text = text_of(Report(model, bags, truth, seen=seen, groups=groups).to_html())
    assert "on the 6 labelled bags that the model was not fitted on; 6 others are" in text
    assert "this model 0.000" in text
    assert "In 1 of them the model was fitted on some bags, not on all" in text
    text = text_of(Report(model, bags, y, seen=np.ones(12)).to_html())
    assert "The model was fitted on these bags, so these metrics are optimistic" in text
    text = text_of(Report(model, bags, y, seen=np.zeros(12)).to_html())
    assert "The model was not fitted on any of these bags." in text
    with pytest.raises(InputError, match="seen has shape"):
        Report(model, bags, seen=[True]).to_html()


def test_an_ensemble_shows_what_its_methods_are_worth():
    data = make_bags(n_bags=24, random_state=0)
    model = AutoBagClassifier(candidates=["nsk", "mind"], cv=2, random_state=0)
    page = Report(model.fit(data.bags, data.y), data.bags, data.y).to_html()
    headings = re.findall(r"<h2.*?>(.*?)</h2>", page)
    assert headings == ["The data", "Evaluation", "Leaderboard", "All bags", "The model"]
    assert all(f">{name}<" in page for name in ("ensemble", "nsk", "mind"))
    # Scores of its instances do not pool to the score of the bag.
    assert payload(page)["heads"]["score"] == "contribution to “1”"


def test_numbers_have_errors_and_are_shown_by_their_instances(bags):
    numbers = np.array([bag[:, 0].mean() for bag in bags])
    model = SetKernelRegressor(C=1.0).fit(bags, numbers)
    html = Report(model, bags, numbers).to_html()
    predicted, text = model.predict(bags), text_of(html)
    assert f"this model {r2_score(numbers, predicted):.3f}" in text
    assert f"{mean_absolute_error(numbers, predicted):.3f}" in text
    assert "baseline: mean" in text
    assert "these metrics are optimistic" in text
    data = payload(html)
    assert data["bags"]["predicted"] == [f"{value:.4g}" for value in predicted]
    np.testing.assert_allclose(data["bags"]["error"], np.abs(numbers - predicted), rtol=2e-3)
    first, scores = data["offsets"][:-1], bags.split(model.score_instances(bags))
    assert {row for row, _ in data["instances"]["keys"]} == set(first)
    assert [data["instances"]["row"][i] for i in first] == [int(own.argmax()) for own in scores]
    some = [None if i < 5 else value for i, value in enumerate(numbers)]
    html = Report(model, bags, some, seen=np.arange(12) < 10).to_html()
    assert "Metrics are computed on the 2 labelled bags that the model was not fitted on" in html
    assert payload(html)["bags"]["truth"][0] is None
    assert headings(Report(model, bags).to_html()) == COMMON
    with pytest.raises(LabelError, match="not numbers"):
        Report(model, bags, ["high"] * 12).to_html()


def test_held_out_numbers_are_compared_with_baselines(bags):
    numbers = np.array([bag[:, 0].mean() for bag in bags])
    model = make_pipeline(BagStatistics(), Ridge()).fit(bags, numbers)
    found = held_out_predictions(model, bags, numbers, cv=4).predicted
    held_out = HeldOut(found, baselines={"mean": HeldOut(np.full(12, numbers.mean()))})
    html = Report(model, bags, numbers, held_out=held_out).to_html()
    assert f"{mean_absolute_error(numbers, found):.3f}" in html
    assert "baseline: mean" in html
    assert "contribution" in html  # ridge scores no instances
    assert payload(html)["bags"]["heldOut"] == [f"{value:.4g}" for value in found]


def comparison_rows(html):
    """The table of metrics: the cells of each model by heading."""
    table = html.split("this model", 1)[0].rsplit("<table", 1)[1] + html.split("this model", 1)[1]
    heads = re.findall(r"<th[^>]*>([^<]+)</th>", table.split("</thead>")[0])
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", html.split("baseline: mean", 1)[1])
    return dict(zip(heads[1:], cells, strict=False))


@pytest.mark.parametrize("kind", ["numbers", "bounds", "times"])
def test_models_of_folds_are_not_ranked_against_each_other(bags, kind):
    """The mean of the other folds is high where the own numbers are low, but it ranks nothing."""
    numbers = np.arange(12.0)
    y = numbers
    if kind == "bounds":
        y = Intervals(np.where(numbers < 2, -np.inf, numbers), numbers)
    if kind == "times":
        y = np.array([(True, 1 + v) for v in numbers], dtype=[("event", bool), ("time", float)])
    model = SetKernelCox() if kind == "times" else make_pipeline(BagStatistics(), Ridge())
    model.fit(bags, y if kind == "times" else numbers)
    fold = np.arange(12) % 3
    means = np.array([numbers[fold != k].mean() for k in fold])
    held_out = HeldOut(numbers, fold=fold, baselines={"mean": HeldOut(means)})
    row = comparison_rows(Report(model, bags, y, held_out=held_out).to_html())
    if kind == "numbers":
        assert row["Spearman"] == ""
        assert row["R2"] == f"{r2_score(numbers, means):.3f}"
    else:
        assert row["C index"] == "0.500"


def test_an_area_is_the_mean_of_those_of_the_folds(bags, y, rng):
    model, fold = SingleInstanceClassifier().fit(bags, y), np.arange(12) // 6
    scores = rng.normal(size=12) + 5 * fold
    areas = [roc_auc_score(y[fold == k] == "yes", scores[fold == k]) for k in (0, 1)]
    constant = HeldOut(y, 1.0 - fold, classes=["no", "yes"])
    held_out = HeldOut(y, scores, classes=["no", "yes"], fold=fold, baselines={"flat": constant})
    text = text_of(Report(model, bags, y, held_out=held_out).to_html())
    assert f"this model 1.000 1.000 {np.mean(areas):.3f}" in text
    assert "baseline: flat 1.000 1.000 0.500" in text


def test_times_have_fields_of_any_name(bags):
    y = np.array([(i % 3 > 0, 1.0 + i) for i in range(12)], dtype=[("dead", bool), ("months", int)])
    model = SetKernelCox().fit(bags, y)
    usual = y.astype([("event", bool), ("time", float)])
    assert Report(model, bags, y).to_html() == Report(model, bags, usual).to_html()
    y["months"][2] = -1
    with pytest.raises(LabelError, match=r"bag 2 \('slide 2'\)"):
        Report(model, bags, y).to_html()


def test_each_bag_has_the_map_that_a_display_draws(bags, y):
    model = SingleInstanceClassifier().fit(bags, y)
    rows = np.arange(bags.n_instances) - bags.offsets[bags.bag_index]
    coords = 1000 + 256 * np.column_stack([rows % 2, rows // 2])
    maps = payload(Report(model, bags, y, coords=coords).to_html())["maps"]
    scores = model.score_instances(bags)
    for i, (own, part) in enumerate(zip(bags.split(scores), bags.split(coords), strict=True)):
        drawn = HeatMapDisplay(
            own, part, 256, value_name="score for “yes”", limits=colour_limits(scores), top=1
        )
        assert maps["picture"][i] == data_url(drawn.png(MAP_DPI), "image/png")
    assert "score for “yes”" in maps["caption"]
    maps, note = heat_maps(Predictions(model, bags), coords, 256, most=4)
    assert len(maps["picture"]) == 4
    assert note == "The last 8 bags have no heat map."
    with pytest.raises(InputError, match="coords"):
        Report(model, bags, y, coords=np.full(coords.shape, np.nan)).to_html()
