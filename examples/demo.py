"""A demonstration on shipped data: `make demo`, or `python examples/demo.py FOLDER`.

Each section (a function listed in SECTIONS) fits models, and returns tables and plots. The tables
are printed; a page with all sections (demo.html) and the report of a model (report.html) are
written to FOLDER, with the data, the model and its predictions. Nothing is downloaded; it takes
about a minute and needs `bagwise[all]`.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from joblib import Parallel, cpu_count, delayed
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise import __version__
from bagwise.annotation import ORedLogisticRegression
from bagwise.assumptions import check_assumptions
from bagwise.auto import AutoBagClassifier
from bagwise.auto._members import metric_citation_knn
from bagwise.auto._methods import METHODS, audited_model, make_model
from bagwise.bags import Bags
from bagwise.classification import CitationKNN, PrimalDualMISVM, SetKernelSVM
from bagwise.cli.output import print_table
from bagwise.cluster import BagConstrainedSpectralClustering
from bagwise.datasets import load_letter_carroll, load_musk1, make_digit_bags
from bagwise.displays import ComparisonDisplay, InstanceScoreDisplay, KeyInstanceDisplay
from bagwise.evaluate import compare
from bagwise.evaluate._baselines import baselines, single_instance_svm
from bagwise.io import write_bags
from bagwise.metric_learning import MIMLCA, MultiInstanceKMeans
from bagwise.metrics import class_purity
from bagwise.persistence import load_model, save_model
from bagwise.predictions import Predictions
from bagwise.preprocessing import InstanceTransformer
from bagwise.preprocessing._bag_pipeline import prepared
from bagwise.report._page import Figure, Section, Table, render_page
from bagwise.report._sections import LEADERBOARD_CAPTION, leaderboard_columns
from bagwise.semi_supervised import WellSVMClassifier

Answer = tuple[float, float, float]  # score of the method, score of the baseline, seconds

N_FOLDS = 3
COMPARED = (
    "auto", "pooled-trees", "mind", "nsk", "pdmisvm", "misvm-bag", "wellsvm", "milboost", "miles",
    "citation-knn",
)  # fmt: skip
AUDITED = ("wellsvm", "sil", "pdmisvm", "miles", "nsk", "pooled-trees")


def musk_accuracy(folder: Path) -> Section:
    """Compare the methods on Musk1."""
    data = load_musk1()
    models = {name: make_model(METHODS[name], {}, scale=True, sparse=False) for name in COMPARED}
    majority = baselines(["majority"])
    models |= {f"baseline: {name}": model for name, model in majority.items()}
    evaluations = compare(models, data.bags, data.y, cv=N_FOLDS)
    accuracy = {evaluation.name: evaluation.scores["accuracy"] for evaluation in evaluations}
    ax = _axes(6.4, 0.9 + 0.36 * len(models))
    ComparisonDisplay.from_scores(accuracy, ax=ax)
    means = ", ".join(f"{name} {np.mean(values):.2f}" for name, values in accuracy.items())
    caption = f"Musk1, {N_FOLDS}-fold cross-validation: mean ± standard deviation"
    return Section(
        "Which molecules smell of musk?",
        "A molecule can take many shapes (conformers), and smells of musk if one of them fits. "
        "Only the molecule has a label: the molecule is a bag, and its shapes are the instances. "
        f"Musk1 has {len(data.bags)} molecules and {data.bags.n_instances} shapes.",
        Table(evaluations.table(), caption),
        Figure(
            ax.figure,
            alt=f"Accuracy of each method on Musk1: {means}.",
            caption="Accuracy on held-out molecules.",
        ),
    )


def key_shapes(folder: Path) -> Section:
    """Fit, save and load a model, and predict held-out molecules."""
    data = load_musk1()
    labels = np.where(data.y == 1, "yes", "no")
    ids = np.array([f"molecule {i}" for i in range(len(data.bags))])
    bags = Bags(data.bags.instances, data.bags.offsets, ids, feature_names=data.feature_names)
    write_bags(folder / "musk1.csv", bags, y=labels, force=True)
    train, test = train_test_split(
        np.arange(len(bags)), test_size=12, stratify=labels, random_state=0
    )
    fitted = AutoBagClassifier(random_state=0).fit(bags[train], labels[train])
    facts = {"method": "auto", "columns": {"bag": "bag", "label": "label"}}
    save_model(fitted, folder / "model.skops", metadata=facts, force=True)

    model, _ = load_model(folder / "model.skops")
    found = Predictions(model, bags[test])
    predictions, instances = found.bag_table(), found.instance_table()
    pq.write_table(pa.table(predictions), folder / "predictions.parquet")
    pq.write_table(pa.table(instances), folder / "predictions.instances.parquet")
    same = np.array_equal(predictions["score"], fitted.decision_function(bags[test]))
    table = {
        "molecule": predictions["bag"],
        "musk": labels[test],
        "predicted": predictions["predicted"],
        "score": predictions["score"],
        "shapes": bags[test].sizes,
        "key row": predictions["key_instance"],
        "its score": predictions["key_score"],
    }
    ax = _axes(6.4, 1.1 + 0.27 * len(test))
    InstanceScoreDisplay.from_estimator(model, bags[test], ax=ax)
    return Section(
        "The key instance: which shape explains the prediction?",
        f"AutoBagClassifier cross-validated several methods on {len(train)} molecules and "
        "combined them by their weights.",
        Table(leaderboard_columns(fitted.leaderboard_), LEADERBOARD_CAPTION),
        f"Saved to model.skops, loaded again and applied to {len(test)} other molecules, it gives "
        + ("the same scores as before it was saved." if same else "other scores: a bug!"),
        Table(table, "Held-out molecules, and the row of the key instance (from 0)"),
        Figure(
            ax.figure,
            alt="Scores of the shapes of each molecule in a row of dots, the key shape marked "
            "by a diamond; the numbers are in predictions.instances.parquet.",
            caption="Each row is a molecule, each dot one of its shapes, scored by the methods "
            "that score instances. The score of the molecule depends on the others too.",
        ),
    )


def letters(folder: Path) -> Section:
    """Label the letters of words whose label sets are known."""
    data = load_letter_carroll(random_state=0)
    train, test = train_test_split(np.arange(len(data.bags)), test_size=0.25, random_state=0)
    model = prepared(ORedLogisticRegression(kernel="rbf", random_state=0))
    model.fit(data.bags[train], data.label_sets[train])
    words, sets = data.bags[test], data.label_sets[test]
    truth = _instance_values(data.bags, data.instance_labels, test)
    alone, known = model.predict_instances(words), model.annotate(words, sets)
    chance = float(np.mean(1 / sets.sum(axis=1)[words.bag_index]))
    shown = slice(0, 8)
    columns = {
        "word": _spelled(data, words, truth)[shown],
        "named, letters of the word known": _spelled(data, words, known)[shown],
        "named, nothing known": _spelled(data, words, alone)[shown],
    }
    return Section(
        "Which letter is which?",
        "The words of Lewis Carroll's Jabberwocky are bags of letters, each letter described by "
        "16 numbers. The label set lists the letters of a word, but not which is which. ORed "
        f"logistic regression learned from {len(train)} words; of the letters of {len(test)} "
        f"other words it labels {np.mean(known == truth):.0%} correctly where their label sets "
        f"are known (by chance {chance:.0%}), and {np.mean(alone == truth):.0%} where they are "
        f"not (by chance {1 / len(data.classes):.0%}).",
        Table(columns, "Held-out words, letter by letter"),
    )


def digits(folder: Path) -> Section:
    """Find the digit that makes a bag positive."""
    data = make_digit_bags(n_bags=200, random_state=0)
    ids = np.array([f"bag {i}" for i in range(len(data.bags))])
    bags = Bags(data.bags.instances, data.bags.offsets, ids)
    labels = np.where(data.y == 1, "yes", "no")
    train, test = train_test_split(
        np.arange(len(bags)), test_size=50, stratify=labels, random_state=0
    )
    model = prepared(SetKernelSVM(C=10)).fit(bags[train], labels[train])
    predicted = model.predict(bags[test])
    with_nine = test[labels[test] == "yes"]
    keys = Predictions(model, bags[with_nine]).key_instance_table()["key_instance"]
    is_nine = _instance_values(bags, data.instance_labels, with_nine)
    hits = is_nine[bags[with_nine].offsets[:-1] + keys] == 1
    shown = test[(labels[test] == "yes") & (predicted == "yes")][:6]
    ax = _figure(7.6, 3.9).subplots()
    display = KeyInstanceDisplay.from_estimator(model, bags[shown], image_shape=(8, 8), ax=ax)
    facts: dict[str, list[Any]] = {
        "question": ["bags classified right", "key instance of a bag with a 9 is a 9"],
        "right": [int((predicted == labels[test]).sum()), int(hits.sum())],
        "of": [len(test), len(hits)],
    }
    return Section(
        "Is there a 9, and where?",
        f"These are bags of handwritten digits. For {len(train)} of them it is known whether they "
        "contain a 9; no digit has a label. The model (nsk, C = 10) learns from the labels of "
        "the bags alone.",
        Table(facts, "Held-out bags"),
        Figure(
            display.figure_,
            alt=f"The digits of {len(shown)} bags that contain a 9, one bag per row, with a frame "
            "around the key instance.",
            caption="Bags correctly predicted to contain a 9; the key instance is framed.",
        ),
    )


def five_systems(folder: Path) -> Section:
    """Run the five systems."""
    rows = [
        ("Which molecules are musk?", "pdMISVM", "accuracy", "SIL", _molecules()),
        ("Which letter of a word is which?", "ORLR", "accuracy", "chance", _letters()),
        ("Which letters belong together?", "CSP, posterior", "purity", "k-means", _clusters()),
        ("Which letter is which, by distance?", "MIMLCA", "accuracy", "Euclidean", _assignment()),
        ("Which letters has an unseen word?", "MIMLCA", "precision", "Euclidean", _ranking()),
        ("3 or 8, from ten labelled digits?", "WellSVM", "accuracy", "SVM", _few_labels()),
    ]
    questions, systems, measured, plain_names, answers = zip(*rows, strict=True)
    ours, plain, seconds = zip(*answers, strict=True)
    columns = {
        "question": questions,
        "system": systems,
        "measured": measured,
        "ours": ours,
        "plain": plain,
        "plain is": plain_names,
        "seconds": [f"{each:.1f}" for each in seconds],
    }
    return Section(
        "Five systems",
        "Each method uses its default settings and is compared with a simple baseline. Molecules "
        "and unseen words: five-fold cross-validation on Musk1 and Letter-Carroll. Letters: "
        "labelled, clustered or assigned in the training words, whose label sets are known; the "
        "baselines are a random letter of the word, k-means with as many clusters, and the same "
        "method in the Euclidean distance. Digits: the mean of ten draws of ten labels; the SVM "
        "uses only the labelled digits. Precision is average precision.",
        Table(columns, "The five systems on shipped data"),
    )


def assumptions(folder: Path) -> Section:
    """Test which methods keep the standard assumption."""
    rows = {
        name: check_assumptions(
            audited_model(METHODS[name], {}), seeds=1, n_train=80, n_test=100
        ).worst("single concept")
        for name in AUDITED
    }
    trained = np.array([row.as_trained[0] for row in rows.values()])
    moved = np.array([row.moved[0] for row in rows.values()])
    ax, places = _axes(6.4, 0.9 + 0.36 * len(rows)), np.arange(len(rows))
    ax.hlines(places, moved, trained, color="0.7")
    ax.plot(trained, places, "o", color="C0", label="as trained")
    ax.plot(moved, places, "D", color="C1", label="after the decoy moved")
    ax.set(xlabel="AUC", xlim=(-0.03, 1.03), yticks=places, yticklabels=list(rows))
    ax.invert_yaxis()
    ax.legend(loc="center left")
    said = "; ".join(
        f"{name} {a:.2f}, then {b:.2f}" for name, a, b in zip(rows, trained, moved, strict=True)
    )
    return Section(
        "The audit: which methods keep the standard assumption?",
        "In these synthetic bags one concept instance makes a bag positive. The negative "
        "training bags also contain a decoy; in the test bags the decoy is in the positive bags. "
        "Under the standard assumption it does not matter: a bag with the concept is positive, "
        "whatever else it contains. `bagwise audit` runs all tests.",
        Figure(
            ax.figure,
            alt=f"AUC as trained and after the decoy moved: {said}.",
            caption="WellSVM keeps the standard assumption; SIL is too simple for the concept. "
            "For the others the decoy is evidence of the negative class.",
        ),
    )


def next_steps(folder: Path) -> Section:
    """List commands to try next."""
    return Section(
        "Your turn",
        "The molecules are in musk1.csv: one row per shape, a column for the molecule and one "
        "for its label. Your own table should look the same.",
        f"bagwise info {folder}/musk1.csv",
        f"bagwise evaluate {folder}/musk1.csv --method mind",
        f"bagwise fit {folder}/musk1.csv --method nsk --set C=10 -o my-model.skops",
        f"bagwise predict my-model.skops {folder}/musk1.csv -o my-predictions.csv",
        f"bagwise report my-model.skops {folder}/musk1.csv --folds 5 -o my-report.html",
    )


def _instance_values(bags: Bags, values: Any, chosen: Any) -> Any:
    """Values of the instances of the chosen bags, in their order."""
    parts = bags.split(values)
    return np.concatenate([parts[i] for i in chosen])


def _spelled(data: Any, words: Bags, codes: Any) -> list[str]:
    """Convert codes of letters to words."""
    return ["".join(data.classes[word]) for word in words.split(codes)]


def _figure(width: float, height: float) -> Any:
    return matplotlib.figure.Figure(figsize=(width, height), layout="constrained")


def _axes(width: float, height: float) -> Any:
    return _figure(width, height).subplots()


def _molecules() -> Answer:
    data = load_musk1()
    models = {"ours": PrimalDualMISVM(random_state=0), "plain": single_instance_svm()}
    return _compared(models, data.bags, data.y, "accuracy")


def _ranking() -> Answer:
    data = load_letter_carroll(random_state=0)
    models = {"ours": metric_citation_knn(), "plain": CitationKNN()}
    return _compared(models, data.bags, data.label_sets, "average precision")


def _compared(models: dict[str, Any], bags: Any, y: Any, measure: str) -> Answer:
    scaled = {name: prepared(model) for name, model in models.items()}
    ours, plain = compare(scaled, bags, y, cv=5)
    means = [float(np.mean(result.scores[measure])) for result in (ours, plain)]
    return means[0], means[1], sum(ours.seconds)


def _words() -> tuple[Any, Any, Any]:
    """Return bags, label sets and, for evaluation, the label of each letter."""
    data = load_letter_carroll(random_state=0)
    bags = InstanceTransformer(StandardScaler()).fit_transform(data.bags)
    return bags, data.label_sets, data.instance_labels


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Call a function; return its result and the seconds it took."""
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def _letters() -> Answer:
    bags, sets, truth = _words()
    named, seconds = _timed(lambda: ORedLogisticRegression().fit(bags, sets).annotate(bags, sets))
    chance = float(np.mean(1 / sets.sum(axis=1)[bags.bag_index]))
    return float(np.mean(truth == named)), chance, seconds


def _clusters() -> Answer:
    bags, sets, truth = _words()
    n_clusters = sets.shape[1]
    clustering = BagConstrainedSpectralClustering(
        n_clusters, constraints="posterior", random_state=0
    )
    model, seconds = _timed(lambda: clustering.fit(bags, sets))
    plain = KMeans(n_clusters, n_init=10, random_state=0).fit_predict(bags.instances)
    return class_purity(truth, model.labels_), class_purity(truth, plain), seconds


def _assignment() -> Answer:
    bags, sets, truth = _words()
    ours, seconds = _timed(lambda: MIMLCA().fit(bags, sets).assignments_)
    plain = MultiInstanceKMeans().fit(bags, sets).assignments_
    shares = [float(np.mean(truth[a >= 0] == a[a >= 0])) for a in (ours, plain)]
    return shares[0], shares[1], seconds


def _few_labels() -> Answer:
    X, digits = load_digits(return_X_y=True)
    chosen = np.isin(digits, (3, 8))
    X, digits = X[chosen] / 16, digits[chosen]
    ours, plain, seconds = [], [], 0.0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        labelled = [rng.choice(np.flatnonzero(digits == d), 5, replace=False) for d in (3, 8)]
        known = np.isin(np.arange(len(X)), labelled)
        start = time.perf_counter()
        model = WellSVMClassifier().fit(X, np.where(known, digits, -1))
        ours.append(model.score(X[~known], digits[~known]))
        seconds += time.perf_counter() - start
        alone = SVC(kernel="linear").fit(X[known], digits[known])
        plain.append(alone.score(X[~known], digits[~known]))
    return float(np.mean(ours)), float(np.mean(plain)), seconds


SECTIONS: tuple[Callable[[Path], Section], ...] = (
    musk_accuracy, key_shapes, letters, digits, five_systems, assumptions, next_steps,
)  # fmt: skip


def main(folder: Path, sections: tuple[Callable[[Path], Section], ...] = SECTIONS) -> None:
    """Run the sections, print their tables, and write the two pages."""
    if folder.exists() and not (folder / "demo.html").exists():
        sys.exit(f"{folder} exists already, and is not the folder of an earlier demo.")
    start = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    # Two processes: most of the first demo is compilation, which uses one core.
    parallel = Parallel(n_jobs=min(2, cpu_count()), return_as="generator")
    shown = []
    for section in parallel(delayed(build)(folder) for build in sections):
        shown.append(section)
        for part in section.parts:
            if isinstance(part, Table):
                print_table(part.columns, title=part.caption)
    text = render_page(
        "bagwise: a demonstration",
        shown,
        lead="Multiple-instance learning: bags are labelled, the instances in them are not. The "
        "data are shipped with the package, and every number was computed by this run.",
        footer=f"Made by bagwise {__version__} with `make demo`.",
    )
    page, report = folder / "demo.html", folder / "report.html"
    page.write_text(text, encoding="utf-8")
    words = ["report", folder / "model.skops", folder / "musk1.csv", "-o", report, "--force"]
    words += ["--folds", "3", "--title", "Musk1: which molecules, and which shapes?"]
    subprocess.run([sys.executable, "-m", "bagwise", *words], check=True, capture_output=True)
    print(f"Done in {time.perf_counter() - start:.0f} s.")
    print(f"All tables and plots on one page: {page.resolve()}")
    print("Open the report in a browser to inspect each molecule:")
    print(report.resolve())


if __name__ == "__main__":
    main(Path(*sys.argv[1:2] or ["bagwise-demo"]))
