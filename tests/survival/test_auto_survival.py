"""AutoBagSurvival: its weights are a Cox regression; laws of instances; missing packages."""

import sys

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime, minimize

from bagwise import Bags
from bagwise.exceptions import InputError, LabelError
from bagwise.persistence import load_model, save_model
from bagwise.predictions import instance_attributions
from bagwise.regression import SetKernelRegressor
from bagwise.solvers.stacking import fit_risk_stack
from bagwise.solvers.survival import concordance, cox_loss, cumulative_hazard
from bagwise.survival import AutoBagSurvival, SetKernelCox
from bagwise.survival._rows import KaplanMeier, RowForest
from survival_data import example

KERNELS = ["nsk", "nsk-max"]


def fitted(n=80, **settings):
    bags, y = example(n)
    return AutoBagSurvival(**{"candidates": KERNELS, "random_state": 0} | settings).fit(bags, y)


def test_the_stack_is_cox_regression_with_positive_weights():
    (bags, y), rng = example(80), np.random.default_rng(0)
    truth = np.array([bag[:, 0].mean() for bag in bags])
    risks = np.stack([truth + rng.normal(size=80), truth**3, -truth], axis=1)[:, None]
    stack = fit_risk_stack(risks, y["event"], y["time"], reg=3.0)
    ones = np.ones(80)
    for m in range(3):  # each alone, with a penalty of one event on the standardised column
        z = risks[:, 0, m] / risks[:, 0, m].std()

        def loss(b, z=z):
            return cox_loss(b[0] * z, y["event"], y["time"], ones)[0] + b[0] ** 2 / 2

        slope = minimize(loss, [0.0], bounds=[(0, None)], options={"ftol": 1e-14}).x[0]
        assert stack.slopes[m, 0] * risks[:, 0, m].std() == pytest.approx(slope, abs=1e-4)
    assert stack.slopes[2, 0] == 0  # it ranks the wrong way round
    log_risks = stack.log_odds(risks)[:, 0]

    def loss(w):
        value = cox_loss(log_risks @ w, y["event"], y["time"], ones)[0]
        return value + 1.5 * np.sum((w - 1 / 3) ** 2)

    slopes = approx_fprime(stack.weights, loss, 1e-6)
    assert (stack.weights >= 0).all()
    assert np.abs(slopes[stack.weights > 0]).max() < 1e-3
    assert (slopes[stack.weights == 0] > -1e-3).all()


def test_the_stack_is_the_model_of_scikit_survival():
    linear_model = pytest.importorskip("sksurv.linear_model")
    bags, y = example(80)
    risks = np.array([bag[:, 0].mean() for bag in bags])[:, None, None]
    stack = fit_risk_stack(risks, y["event"], y["time"], reg=0.0)
    z = (risks[:, 0] - risks.mean()) / risks.std()
    cox = linear_model.CoxPHSurvivalAnalysis(alpha=1.0, ties="efron", tol=1e-14).fit(z, y)
    np.testing.assert_allclose(stack.slopes[0] * risks.std(), cox.coef_, rtol=1e-5)
    z = stack.log_odds(risks)[:, 0]
    cox = linear_model.CoxPHSurvivalAnalysis(ties="efron", tol=1e-14).fit(z, y)
    np.testing.assert_allclose(stack.weights, cox.coef_, rtol=1e-5)


def test_auto_ranks_new_bags_and_its_baseline_is_that_of_held_out_risks():
    bags, y = example(140)
    model = AutoBagSurvival(candidates=KERNELS, cv=2, random_state=0).fit(bags[:80], y[:80])
    new = y[80:]
    risk = model.predict(bags[80:])
    assert model.score(bags[80:], new) == concordance(new["event"], new["time"], risk) > 0.65
    of_fit = model.held_out_targets_[:, 0]
    times, hazard = cumulative_hazard(model.held_out_scores_[:, 0], of_fit["event"], of_fit["time"])
    np.testing.assert_array_equal(model.unique_times_, times)
    np.testing.assert_array_equal(model.cumulative_hazard_, hazard)
    curves = model.predict_survival_function(bags[80:], return_array=True)
    np.testing.assert_allclose(curves, np.exp(-np.exp(risk)[:, None] * hazard))
    board = model.leaderboard_
    assert sorted(board["method"]) == ["ensemble", *KERNELS]
    best = model.best_estimator_.predict(bags)  # its own risk, not calibrated
    assert np.corrcoef(best, model.predict(bags))[0, 1] > 0.9


def test_risks_of_instances_have_the_risk_of_the_bag_as_their_mean():
    bags, _ = example(80)
    model = fitted(candidates=["nsk"])
    scores = model.score_instances(bags)
    np.testing.assert_allclose([s.mean() for s in bags.split(scores)], model.predict(bags))
    keys = [s.argmax() for s in bags.split(scores)]
    np.testing.assert_array_equal(model.key_instances(bags), keys)
    both = fitted().score_instances(bags)
    assert np.corrcoef(both, bags.instances[:, 0])[0, 1] > 0.5


def test_scores_of_instances_know_that_rows_were_sorted():
    """As those of all models: pandas refuses them as a column of the unsorted table."""
    bags, _ = example()
    names = np.tile(["a", "b"], 3)
    mixed = Bags.from_groups(bags.instances[:6], names)
    frame = pd.DataFrame({"bag": names})
    with pytest.raises(InputError, match="in_input_order"):
        frame["score"] = fitted().score_instances(mixed)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:AttentionMIL did not converge")
def test_all_default_candidates_predict_times():
    pytest.importorskip("torch")
    pytest.importorskip("sksurv")
    bags, y = example(60)
    for member in AutoBagSurvival()._default_members(1):
        short = (member, *member.replacements)[-1]
        model = short.fit_all(short.represent(bags), bags, y)
        assert concordance(y["event"], y["time"], model.predict(bags)) > 0.6
        curve = model.predict_survival_function(bags[:1])[0] if short.name != "pooled-trees" else 0
        assert curve == 0 or 0 <= curve(2.0) <= 1


def test_rows_are_models_of_scikit_survival():
    ensemble = pytest.importorskip("sksurv.ensemble")
    bags, y = example(40)
    rows = np.array([bag.mean(axis=0) for bag in bags])
    own, theirs = RowForest(5), ensemble.RandomSurvivalForest(5, random_state=0).fit(rows, y)
    own.fit(rows, y)
    np.testing.assert_allclose(np.exp(own.predict(rows)), theirs.predict(rows))
    assert own.predict_survival_function(rows[:1])[0](2.0) == pytest.approx(
        theirs.predict_survival_function(rows[:1])[0](2.0)
    )
    curves = KaplanMeier().fit(bags, y).predict_survival_function(bags, return_array=True)
    estimate = pytest.importorskip("sksurv.nonparametric").kaplan_meier_estimator
    np.testing.assert_allclose(curves[7], estimate(y["event"], y["time"])[1], atol=1e-12)


def test_a_model_with_a_forest_is_saved(tmp_path):
    pytest.importorskip("sksurv")
    pytest.importorskip("skops")
    bags, y = example(60)
    member = AutoBagSurvival()._default_members(1)[0]
    model = member.fit_all(member.represent(bags), bags, y)
    save_model(model, tmp_path / "forest.skops")
    again, _ = load_model(tmp_path / "forest.skops")
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags))


def test_members_without_their_package_are_named(monkeypatch):
    for package in ("sksurv", "torch"):
        monkeypatch.setitem(sys.modules, package, None)
        for name in [n for n in sys.modules if n.startswith(f"{package}.")]:
            monkeypatch.setitem(sys.modules, name, None)
    model = fitted(60, candidates="default", cv=2)
    skipped = dict(zip(*(model.leaderboard_[k] for k in ("method", "skipped")), strict=True))
    assert 'pip install "bagwise[survival]"' in skipped["pooled-trees"]
    assert "GPL-3" in skipped["pooled-coxnet"]
    assert 'pip install "bagwise[torch]"' in skipped["attention"]
    assert skipped["nsk"] == skipped["nsk-max"] == ""


def test_groups_stay_in_one_fold_and_a_model_of_rows_has_contributions():
    pytest.importorskip("sksurv")
    bags, y = example(60)
    groups = np.arange(60) // 3
    model = AutoBagSurvival(candidates=["pooled-coxnet"], cv=3, random_state=0)
    model.fit(bags, y, groups=groups)
    assert sorted(model.held_out_groups_) == sorted(groups)
    assert not hasattr(model, "score_instances")
    assert instance_attributions(model, bags[:2], method="single").shape == (bags[:2].n_instances,)


def test_candidates_are_survival_models():
    bags, y = example(60)
    model = fitted(
        60, cv=2, candidates={"linear": SetKernelCox(kernel="linear"), "rbf": SetKernelCox()}
    )
    assert sorted(model.names_) == ["linear", "rbf"]
    with pytest.raises(InputError, match="does not predict times"):
        AutoBagSurvival(candidates=["mind"]).fit(bags, y)
    with pytest.raises(InputError, match="expected a survival model"):
        AutoBagSurvival(candidates={"numbers": SetKernelRegressor()}).fit(bags, y)


def test_bad_times_are_refused_by_the_name_of_the_bag():
    bags, y = example(20)
    wrong = y.copy()
    wrong["time"][3] = -1
    with pytest.raises(LabelError, match=r"bag 3 .*'b3'.* is -1.0: times must not be negative"):
        AutoBagSurvival().fit(bags, wrong)
    wrong = y.copy()
    wrong["event"] = False
    with pytest.raises(LabelError, match="no event was observed in 20 bags"):
        AutoBagSurvival().fit(bags, wrong)
    wrong["event"][0] = True
    with pytest.raises(InputError, match="one event"):
        AutoBagSurvival().fit(bags, wrong)


def test_times_may_be_a_frame():
    pd = pytest.importorskip("pandas")
    bags, y = example(40)
    frame = pd.DataFrame({"months": y["time"], "dead": y["event"]})
    a, b = (SetKernelCox().fit(bags, times).predict(bags) for times in (y, frame))
    np.testing.assert_array_equal(a, b)
