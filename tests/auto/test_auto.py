"""AutoBagClassifier against loops over its candidates; invariants."""

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from bagwise import Bags
from bagwise.auto import AutoBagClassifier, _ensemble, _members
from bagwise.auto._classifier import REG, label_score
from bagwise.auto._ensemble import mean_and_error
from bagwise.auto._members import column_scores, default_members, keeping
from bagwise.base import in_canonical_order
from bagwise.classification import BagMarginSVM, SetKernelSVM
from bagwise.datasets import load_letter_carroll, make_bags, make_digit_bags
from bagwise.embedding import BagStatistics
from bagwise.evaluate._evaluation import make_folds
from bagwise.exceptions import DataWarning, InputError, LabelError, NotEnoughMemoryError
from bagwise.persistence import load_model, save_model
from bagwise.preprocessing import make_bag_pipeline
from bagwise.regression import SetKernelRegressor
from bagwise.solvers.stacking import fit_stack
from bagwise.validation import check_bag_labels

FAST = ["nsk", "mind", "fisher-vectors"]


def example(n_bags=40, n_classes=2, seed=0):
    data = make_bags(n_bags=n_bags, n_classes=n_classes, n_features=5, random_state=seed)
    return data.bags, data.y


def auto(**options):
    return AutoBagClassifier(**({"candidates": FAST, "random_state": 0} | options))


def sets_of(y, n_classes):
    """The label of each bag, and for some bags the next one too."""
    sets = np.eye(n_classes, dtype=int)[y]
    sets[::3] |= np.roll(sets, 1, axis=1)[::3]
    return sets


class Clock:
    """The time of a race that only `Sleeper` spends."""

    now = 0.0

    def perf_counter(self):
        return self.now


class Sleeper(ClassifierMixin, BaseEstimator):
    """Takes a while per bag to fit, by the clock of the test."""

    clock = Clock()

    def __init__(self, seconds_per_bag=0.0):
        self.seconds_per_bag = seconds_per_bag

    def fit(self, X, y):
        self.clock.now += self.seconds_per_bag * len(X)
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return np.arange(len(X)) % 7.0


class Refusing(Sleeper):
    def fit(self, X, y):
        raise InputError("these bags are too strange")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_scores_are_the_weighted_log_odds_of_the_members(n_classes):
    bags, y = example(n_classes=n_classes)
    model = auto().fit(bags, y)
    seen = model.scaler_.transform(bags)
    expected = np.tile(model.intercept_, (len(bags), 1))
    for m, estimator in enumerate(model.estimators_):
        scores = estimator.decision_function(seen).reshape(len(bags), -1)
        log_odds = model.slopes_[m] * scores + model.offsets_[m]
        expected += model.weights_[m] * np.clip(log_odds, -model.limit_, model.limit_)
    found = model.decision_function(bags).reshape(len(bags), -1)
    np.testing.assert_allclose(found, expected, atol=1e-8)
    proba = model.predict_proba(bags)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(bags), model.classes_[proba.argmax(axis=1)])


def test_out_of_fold_scores_are_those_of_plain_fits():
    """The set kernel is computed once for all folds; a fit per fold gives the same scores."""
    bags, y = example()
    member = {m.name: m for m in default_members("single")}["nsk"]
    rows = member.represent(bags)
    gamma = member.embedding.gamma_
    train, test = np.arange(30), np.arange(30, 40)
    found = member.fold_scores(*member.fold_rows(rows, train, test), y[train], 1)[:, 0]
    plain = SetKernelSVM(C=10, gamma=gamma).fit(bags[train], y[train])
    np.testing.assert_allclose(found, plain.decision_function(bags[test]), atol=1e-3)


def test_the_leaderboard_holds_scores_of_bags_that_calibration_has_not_seen():
    bags, y = example()
    model = auto(candidates={"kernel": SetKernelSVM(C=10)}).fit(bags, y)
    targets, folds, scores = rerun(model, bags, y)
    logits = np.empty(scores.shape[:2])
    for train, test in folds:
        part = fit_stack(scores[train], targets[train], exclusive=False, reg=REG)
        logits[test] = part.log_odds(scores[test])[:, :, 0]
    tests = [test for _, test in folds]
    expected = mean_and_error(
        [label_score("log_loss", logits[f], targets[f], exclusive=False) for f in tests]
    )
    at = model.leaderboard_["method"].index("kernel")
    assert model.leaderboard_["log_loss"][at] == pytest.approx(expected[0])
    assert model.leaderboard_["standard error"][at] == pytest.approx(expected[1])


def rerun(model, bags, y):
    """Folds and out-of-fold scores of the only candidate, as the model drew them."""
    bags, labels = in_canonical_order(bags, check_bag_labels(y, bags))
    seed = np.random.RandomState(model.random_state).randint(2**31)
    folds = make_folds(labels.codes, n_folds=model.cv, seed=int(seed))
    (estimator,) = model.candidates.values()
    seen = model.scaler_.transform(bags)
    scores = np.empty((len(bags), 1, 1))
    for train, test in folds:
        fitted = clone(estimator).fit(seen[train], labels.codes[train])
        scores[test] = column_scores(fitted, seen[test], "single", 1)[:, :, None]
    return labels.codes[:, None], folds, scores


def test_seed_and_jobs():
    bags, y = example(30)
    first, second, third = (auto(n_jobs=n).fit(bags, y) for n in (None, 1, 2))
    for other in (second, third):
        np.testing.assert_array_equal(other.weights_, first.weights_)
        for column in ("method", "log_loss", "weight", "skipped"):
            assert other.leaderboard_[column] == first.leaderboard_[column]
        np.testing.assert_array_equal(other.predict_proba(bags), first.predict_proba(bags))


def test_the_output_setting_of_scikit_learn_changes_nothing():
    pytest.importorskip("pandas")
    bags, y = example(30)
    options = {"candidates": ["pooled-trees", "mind", "fisher-vectors"], "cv": 2}
    plain = auto(**options).fit(bags, y)
    with sklearn.config_context(transform_output="pandas"), warnings.catch_warnings():
        warnings.simplefilter("error")
        model = auto(**options).fit(bags, y)
        np.testing.assert_array_equal(plain.predict_proba(bags), model.predict_proba(bags))
        plain.best_estimator_.predict(bags)
    np.testing.assert_array_equal(model.predict_proba(bags), plain.predict_proba(bags))


def test_the_order_of_bags_does_not_matter(rng):
    bags, y = example(30)
    order = rng.permutation(30)
    first, second = auto().fit(bags, y), auto().fit(bags[order], y[order])
    np.testing.assert_allclose(second.weights_, first.weights_, atol=1e-6)
    np.testing.assert_allclose(second.predict_proba(bags), first.predict_proba(bags), atol=1e-6)


@pytest.mark.parametrize("kind", ["trees", "all"])
def test_label_sets(kind):
    bags, y = example(36, n_classes=3)
    sets = sets_of(y, 3)
    names = [m.name for m in default_members("sets", 3)]
    model = auto(candidates=names[:1] if kind == "trees" else names[1:4]).fit(bags, sets)
    assert model.label_kind_ == "sets"
    proba = model.predict_proba(bags)
    assert proba.shape == (36, 3)
    np.testing.assert_array_equal(model.predict(bags), (proba > 0.5).astype(int))
    assert np.mean(model.predict(bags) == sets) > 0.6
    with pytest.raises(InputError, match="average_precision"):
        auto(metric="accuracy").fit(bags, sets)


@pytest.mark.filterwarnings("ignore:AutoBagClassifier learned nothing")  # random labels
def test_a_rare_class_makes_fewer_folds():
    bags, _ = example(30)
    model = auto(candidates=["nsk"]).fit(bags, np.where(np.arange(30) < 2, 1, 0))
    assert model.predict_proba(bags)[:, 1].mean() < 0.5


def test_sparse_bags_are_not_centred():
    bags, y = example(30)
    found = auto(candidates=["nsk", "mind"]).fit(
        bags.with_instances(sparse.csr_array(bags.instances)), y
    )
    assert not found.scaler_.transformer_.with_mean
    assert np.isfinite(found.decision_function(bags)).all()


def test_groups_stay_together_and_are_routed():
    bags, y = example(40)
    groups = np.arange(40) // 4
    few = [auto(candidates=["nsk"], cv=n).fit(bags, y, groups=groups // 4) for n in (3, 5)]
    assert few[0].held_out_loss_ == few[1].held_out_loss_  # of three groups
    model = auto(candidates=["nsk"]).fit(bags, y, groups=groups)
    assert not np.array_equal(model.slopes_, auto(candidates=["nsk"]).fit(bags, y).slopes_)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_bag_pipeline(auto(candidates=["nsk"]).set_fit_request(groups=True))
        routed.fit(bags, y, groups=groups)
    np.testing.assert_array_equal(routed[-1].slopes_, model.slopes_)


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        (lambda y: np.where(np.arange(30) == 0, 2, y), {}, LabelError, "has one bag"),
        (lambda y: y, {"metric": "rmse"}, InputError, "use log_loss"),
        (lambda y: y, {"candidates": ["nks"]}, InputError, "Did you mean nsk"),
        (lambda y: y, {"assumption": "standard"}, InputError, "no candidate that keeps"),
        (lambda y: 0 * y, {}, LabelError, "class"),
        (lambda y: y, {"candidates": {"a": Refusing()}}, InputError, "a: these bags are too"),
        (lambda y: y, {"candidates": {"a": "nsk"}}, InputError, "expected a classifier"),
        (lambda y: y, {"candidates": {"a": SetKernelRegressor()}}, InputError, "a classifier"),
    ],
)
def test_bad_input_is_refused(change, options, error, message):
    bags, y = example(30)
    with pytest.raises(error, match=message):
        auto(**options).fit(bags, change(y))


def test_wrappers_and_pipelines_of_scikit_learn_are_candidates():
    bags, y = example(30)
    pooled = make_pipeline(BagStatistics(), SVC())
    own = {"search": GridSearchCV(pooled, {}, cv=2), "ovr": OneVsRestClassifier(SetKernelSVM())}
    model = auto(candidates=own, cv=2).fit(bags, y)
    assert not any(model.leaderboard_["skipped"])


def test_a_candidate_that_refuses_is_listed():
    bags, y = example(30)
    model = auto(candidates={"strange": Refusing(), "kernel": SetKernelSVM()}).fit(bags, y)
    at = model.leaderboard_["method"].index("strange")
    assert model.leaderboard_["skipped"][at] == "these bags are too strange"
    assert model.names_ == ["kernel"]


def test_the_budget_of_time(monkeypatch):
    """The slow one would take .05 x (4 x 40 + 40) = 10 s; a trial on one fold of 8 bags, .4 s."""
    monkeypatch.setattr(_ensemble, "time", Sleeper.clock)
    bags, y = example(40)
    candidates = {"a": Sleeper(0.001), "slow": Sleeper(0.05), "b": Sleeper(0.001)}
    start = Sleeper.clock.now
    model = AutoBagClassifier(1.5, candidates=candidates, random_state=0).fit(bags, y)
    assert 0.4 < Sleeper.clock.now - start < 1.5
    skipped = dict(zip(model.leaderboard_["method"], model.leaderboard_["skipped"], strict=True))
    assert skipped["slow"] == "would take about 10 s of the 1 s left"
    assert skipped["a"] == skipped["b"] == ""


def test_a_budget_that_is_too_small_for_some_or_all(monkeypatch):
    monkeypatch.setattr(_ensemble, "time", Sleeper.clock)
    bags, y = example(40)
    slow = {"first": Sleeper(0.05), "quick": Sleeper(0.001)}
    model = AutoBagClassifier(1.5, candidates=slow, random_state=0).fit(bags, y)
    assert model.names_ == ["quick"]
    none = {"a": Sleeper(0.02), "quickest": Sleeper(0.01), "c": Sleeper(0.05)}
    model = AutoBagClassifier(1.4, candidates=none, random_state=0).fit(bags, y)
    assert model.names_ == ["quickest"]
    skipped = dict(zip(model.leaderboard_["method"], model.leaderboard_["skipped"], strict=True))
    assert skipped["quickest"] == ""
    assert "would take" in skipped["a"]


@pytest.mark.parametrize(
    ("candidates", "fitted"),
    [
        ("default", "pooled-trees"),
        (["nsk", "pooled-trees"], "pooled-trees"),  # nsk compares all pairs
        ({"strange": Refusing(), "second": SetKernelSVM()}, "second"),
    ],
)
def test_the_smallest_budget_still_fits_a_candidate(candidates, fitted):
    bags, y = example(40)
    model = AutoBagClassifier(1e-9, candidates=candidates, random_state=0).fit(bags, y)
    assert model.names_ == [fitted]


def large(name, *, sets=False, assumption=None):
    """The member that replaces a default candidate on 5,000 bags of 100,000 instances."""
    members = default_members("sets" if sets else "single", 3 if sets else 1)
    members = members if assumption is None else keeping(members, assumption)
    member = {member.name: member for member in members}[name]
    suited = [m for m in (member, *member.replacements) if m.suits(5_000, 100_000)]
    return suited[0] if suited else None


def test_methods_that_compare_all_pairs_are_replaced_on_large_data():
    names = [large(name).name for name in ("nsk", "mind", "minimax", "miles", "milboost")]
    assert names[:2] == ["nsk (random Fourier)", "mind (200 prototypes)"]
    assert names[2:] == ["minimax (linear)", "miles (500 prototypes)", "milboost"]
    assert large("citation-knn") is None
    assert all(member.suits(100, 500) for member in default_members("single"))


class Hungry(BagMarginSVM):
    """A model whose arrays do not fit into the memory."""

    def fit(self, X, y):
        raise NotEnoughMemoryError("needs 80 GB of memory")


def test_a_method_that_needs_too_much_memory_is_replaced_or_skipped():
    bags, y = example(20)
    race = _ensemble.Race(bags, y, 1, [(np.arange(10), np.arange(10, 20))])
    other = _members.Member("other", SetKernelSVM())
    assert race.run(replace(other, name="hungry", model=Hungry())).skipped.startswith("needs 80 GB")
    hungry = _members.Member("hungry", Hungry(), replacements=(other,))
    assert race.run(hungry).member.name == "other"


def test_large_data_keep_the_standard_assumption():
    member = large("misvm-bag", assumption="standard")
    assert member.name == "pdmisvm (standard, Nystroem)"
    bags, y = example(160)
    model = auto(candidates={"large": member.model}, assumption="standard", cv=2).fit(bags, y)
    grown = Bags.from_arrays([np.vstack([bag, np.full((1, 5), -9.0)]) for bag in bags])
    fall = model.decision_function(bags) - model.decision_function(grown)
    assert fall.max() < 1e-9


@pytest.mark.filterwarnings("ignore:AutoBagClassifier learned nothing")  # random labels
@pytest.mark.parametrize("sets", [False, True])
def test_attention_trains_for_a_few_epochs_on_large_data(sets):
    """It replaces Citation-kNN for label sets, where it is no candidate itself."""
    pytest.importorskip("torch", reason="AttentionMIL is trained with torch")
    data = make_bags(n_bags=24, n_classes=3 if sets else 2, random_state=0)
    y = np.eye(3, dtype=int)[data.y] if sets else data.y
    member = large("citation-knn" if sets else "attention", sets=sets)
    assert member.name == "attention (30 epochs)"
    model = auto(candidates={"attention": member.model}, cv=2).fit(data.bags, y)
    assert model.names_ == ["attention"]


@pytest.mark.parametrize("available", [False, True])
def test_without_torch_the_noisy_or_stands_in_for_attention(monkeypatch, available):
    stub = SimpleNamespace(available=available)
    monkeypatch.setattr(_members, "METHODS", {"attention": stub})
    names = [member.name for member in default_members("single")]
    assert names[-1] == ("attention" if available else "noisy-or")


class HoldsOut(BagMarginSVM):
    """A candidate that holds out bags itself, and stores the groups it was given."""

    given: ClassVar[list] = []

    def fit(self, X, y, groups=None):
        self.given.append(list(groups))
        return super().fit(X, y)


def test_groups_reach_a_candidate_that_holds_out_bags():
    bags, y = example(40)
    groups = np.arange(40) // 2
    auto(candidates={"holds out": HoldsOut(max_iter=2)}, cv=2).fit(bags, y, groups=groups)
    *folds, everything = HoldsOut.given
    assert sorted(everything) == sorted(groups)
    assert sorted(folds[0] + folds[1]) == sorted(groups)
    assert not set(folds[0]) & set(folds[1])


def test_the_best_alone():
    bags, y = example(40)
    model = auto(ensemble="best").fit(bags, y)
    assert sorted(model.weights_)[:-1] == [0] * (len(model.weights_) - 1)
    assert "ensemble" not in model.leaderboard_["method"]
    alone = model.best_estimator_.decision_function(bags)
    together = model.decision_function(bags)
    assert (np.diff(together[np.argsort(alone)]) >= 0).all()


def test_instances():
    bags, y = example(40)
    model = auto(candidates=["nsk", "milboost", "mind"]).fit(bags, y)
    assert model.score_instances(bags).shape == (bags.n_instances,)
    keys = model.key_instances(bags)
    scores = bags.split(model.score_instances(bags))
    assert [int(np.argmax(s)) for s in scores] == keys.tolist()
    without = auto(candidates=["mind"]).fit(bags, y)
    assert not hasattr(without, "score_instances")


def test_instance_scores_ignore_a_method_whose_own_are_noise():
    """A method may predict bags well from instance scores that mean nothing, such as MILES."""

    class Noise(SetKernelSVM):
        def score_instances(self, X):
            return 100 * np.random.RandomState(0).normal(size=X.n_instances)

    data = make_digit_bags(60, random_state=0)
    bags, truth = data.bags, data.instance_labels == 1
    models = {"nsk": SetKernelSVM(C=10.0), "noise": Noise(C=10.0)}
    model = auto(candidates=models, random_state=0).fit(bags, data.y)
    assert (model.weights_ > 0.2).all()  # equally good for bags
    alone = auto(candidates={"nsk": models["nsk"]}, random_state=0).fit(bags, data.y)
    area, best = (roc_auc_score(truth, each.score_instances(bags)) for each in (model, alone))
    assert area > best - 0.02


def test_instance_scores_of_several_classes_are_on_one_scale():
    """With one method they are its scores, up to a factor: the best class is the same."""
    bags, y = example(45, n_classes=3)
    model = auto(candidates=["nsk"]).fit(bags, y)
    own = model.estimators_[0].score_instances(model.scaler_.transform(bags))
    found = model.score_instances(bags)
    np.testing.assert_allclose(found, own * (found[0, 0] / own[0, 0]))


def test_instance_scores_of_a_method_with_one_score_per_class():
    bags, y = example(40)
    model = auto(candidates=["pdmisvm"]).fit(bags, y)
    own = model.estimators_[0].score_instances(model.scaler_.transform(bags))
    order = np.argsort(own[:, 1] - own[:, 0])
    assert (np.diff(model.score_instances(bags)[order]) >= 0).all()


def collective(n_bags=40, spread=1.0, seed=0):
    """Bags whose instances all move a little with the label: no single one decides."""
    rng = np.random.RandomState(seed)
    y = np.arange(n_bags) % 2
    return [0.5 * label + spread * rng.normal(size=(30, 3)) for label in y], y


@pytest.mark.parametrize(
    ("assumption", "data", "message"),
    [
        ("standard", collective(), "that of pooled-trees, which use the whole bag"),
        ("standard", collective(spread=1e3), "better than that of the majority"),
        ("collective", collective(spread=1e3), "better than that of the majority"),
        ("collective", collective(), None),
        (None, collective(spread=1e3), None),
        ("standard", example(60), None),
    ],
)
def test_an_assumption_that_predicts_held_out_bags_badly_is_reported(assumption, data, message):
    names = {"standard": ["misvm-bag"], "collective": ["nsk"], None: ["nsk"]}[assumption]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        auto(candidates=names, assumption=assumption).fit(*data)
    found = [str(each.message) for each in caught if each.category is DataWarning]
    assert len(found) == (message is not None)
    assert all(message in text for text in found)


@pytest.mark.parametrize("sets", [False, True])
def test_saved_models(tmp_path, sets):
    pytest.importorskip("skops")
    bags, y = example(30)
    names = ["pooled-trees", "mind", "fisher-vectors", "orlr" if sets else "nsk"]
    if sets:
        y = np.column_stack([sets_of(y, 2), np.zeros(30, int)])  # no bag carries the last
    model = auto(candidates=names).fit(bags, y)
    save_model(model, tmp_path / "model.skops")
    loaded, _ = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict_proba(bags), model.predict_proba(bags))
    assert loaded.leaderboard_ == model.leaderboard_


def test_every_default_is_fitted_and_described():
    bags, y = example(24)
    model = AutoBagClassifier(cv=2, random_state=0).fit(bags, y)
    names = [m.name for m in default_members("single")]
    assert sorted(model.leaderboard_["method"]) == sorted([*names, "ensemble"])
    assert not any(model.leaderboard_["skipped"])
    told = dict(zip(model.leaderboard_["method"], model.leaderboard_["parameters"], strict=True))
    assert all(told[name] for name in names)


@pytest.mark.filterwarnings("ignore:AutoBagClassifier learned nothing")  # random labels
def test_sparse_bags_have_the_same_folds_and_scores_in_both_precisions(rng):
    table = rng.integers(-2, 3, size=(160, 6)) * (rng.random((160, 6)) < 0.5)
    scores = []
    for dtype in (np.float32, np.float64):
        bags = Bags(sparse.csr_array(table.astype(dtype)), np.arange(0, 161, 4))
        model = auto(candidates=["nsk", "mind"]).fit(bags, np.arange(40) % 2)
        scores.append([*model.leaderboard_["log_loss"], *model.decision_function(bags)])
    np.testing.assert_allclose(*scores, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore:AutoBagClassifier learned nothing")  # random labels
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("pos_label", [None, 0])
def test_class_weights_multiply_the_odds(n_classes, pos_label):
    data = make_bags(n_bags=60, n_classes=n_classes, separation=2, random_state=0)
    if n_classes > 2 and pos_label is not None:
        return
    y, weights = data.y, {k: 2.0**k for k in range(n_classes)}
    settings = {"candidates": ["nsk"], "cv": 2, "random_state": 0, "pos_label": pos_label}
    plain = AutoBagClassifier(**settings).fit(data.bags, y)
    weighted = AutoBagClassifier(**settings, class_weight=weights).fit(data.bags, y)
    expected = plain.predict_proba(data.bags) * list(weights.values())
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(weighted.predict_proba(data.bags), expected)
    assert weighted.leaderboard_["log_loss"] == plain.leaderboard_["log_loss"]
    rare = np.flatnonzero((y != 1) | (np.arange(60) % 6 < 2))
    bags, y = data.bags[rare], y[rare]
    found = [
        AutoBagClassifier(**settings, class_weight=w).fit(bags, y).held_out_scores_
        for w in (None, "balanced")
    ]
    counts = np.bincount(y)
    shift = np.log(len(y) / n_classes / counts)
    if n_classes == 2:
        k = 1 if pos_label is None else 0
        shift = shift[k] - shift[1 - k]
    np.testing.assert_allclose(found[1] - found[0], np.broadcast_to(shift, found[0].shape))


@pytest.mark.filterwarnings("ignore:AutoBagClassifier learned nothing")  # random labels
def test_class_weights_of_label_sets_are_weights_of_labels():
    data = load_letter_carroll(random_state=0)
    bags, sets = data.bags[:40], data.label_sets[:40]
    settings = {"candidates": ["citation-knn"], "cv": 2, "random_state": 0}
    plain = AutoBagClassifier(**settings).fit(bags, sets).predict_proba(bags)
    weighted = AutoBagClassifier(**settings, class_weight={3: 4.0}).fit(bags, sets)
    odds = plain[:, 3] / (1 - plain[:, 3]) * 4
    np.testing.assert_allclose(weighted.predict_proba(bags)[:, 3], odds / (1 + odds))
    np.testing.assert_allclose(weighted.predict_proba(bags)[:, 5], plain[:, 5])
    with pytest.raises(InputError, match="expected positive weights"):
        AutoBagClassifier(**settings, class_weight={99: 4.0}).fit(bags, sets)
