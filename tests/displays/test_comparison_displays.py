"""Displays of comparisons show the numbers of the comparison."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import precision_recall_curve, roc_curve

from bagwise.annotation import NoisyOrLogisticRegression
from bagwise.classification import CitationKNN, SetKernelSVM
from bagwise.datasets import make_bags
from bagwise.displays import CurveDisplay, DifferenceDisplay, RankDisplay
from bagwise.evaluate import evaluate, ranks
from bagwise.evaluate._comparison import Comparison, Evaluation
from bagwise.exceptions import InputError

figure = pytest.importorskip("matplotlib.figure")


@pytest.fixture
def axes():
    return figure.Figure(layout="constrained").subplots()


def comparison(**scores):
    found = [Evaluation(name, {"AUC": values}, [0.1] * 3) for name, values in scores.items()]
    return Comparison(found, 0.5)


def tick_names(axes):
    return [text.get_text() for text in axes.get_yticklabels()]


def test_bars_are_the_intervals(axes):
    found = comparison(nsk=[0.9, 0.8, 0.85], sil=[0.7, 0.75, 0.8], mind=[0.9, 0.82, 0.9])
    display = DifferenceDisplay.from_comparison(found, rope=0.02, ax=axes)
    expected = found.differences()
    assert tick_names(axes) == ["sil", "mind"]
    for bars, difference in zip(axes.containers, expected, strict=True):
        assert bars.lines[0].get_xdata()[0] == difference.mean
        ((left, _), (right, _)) = bars.lines[2][0].get_segments()[0]
        assert (left, right) == pytest.approx((difference.lower, difference.upper))
    assert "AUC: better than nsk by" in axes.get_xlabel()
    assert "equal within 0.02" in axes.get_xlabel()
    assert display.ax_ is axes
    assert display.figure_ is axes.figure


def test_a_difference_without_an_interval_is_a_dot(axes):
    DifferenceDisplay.from_comparison(comparison(a=[0.5] * 3, b=[0.75] * 3), ax=axes)
    (bars,) = axes.containers
    assert bars.lines[0].get_xdata()[0] == 0.25
    assert bars.lines[2] == ()


def test_the_reference_can_be_chosen(axes):
    found = comparison(a=[0.5, 0.6, 0.7], b=[0.7, 0.7, 0.8])
    DifferenceDisplay.from_comparison(found, measure="AUC", reference="b", ax=axes)
    assert tick_names(axes) == ["a"]


def test_one_model_has_no_differences(axes):
    with pytest.raises(InputError, match="at least two"):
        DifferenceDisplay.from_comparison(comparison(a=[0.5, 0.6, 0.7]), ax=axes)


def test_ranks_are_ordered_and_joined_by_group(axes):
    rng = np.random.default_rng(0)
    names = list("abcdefgh")
    tables = {
        f"set {i}": dict(zip(names, rng.normal(size=8) + np.arange(8) / 2, strict=True))
        for i in range(14)
    }
    found = ranks(tables)
    RankDisplay.from_ranks(found, ax=axes)
    order = np.argsort(found.mean_ranks)
    assert tick_names(axes) == [names[k] for k in order]
    dots, *bars = axes.lines
    np.testing.assert_allclose(dots.get_xdata(), found.mean_ranks[order])
    assert len(bars) == len(found.groups()) > 1
    for bar, group in zip(bars, found.groups(), strict=True):
        top, bottom = (tick_names(axes).index(group[k]) for k in (0, -1))
        np.testing.assert_allclose(bar.get_ydata(), [top - 0.2, bottom + 0.2])
    assert f"difference, {found.critical_difference:.2f}" in axes.get_xlabel()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_curves_are_those_of_scikit_learn(n_classes, axes):
    data = make_bags(n_bags=40, n_classes=n_classes, separation=2, random_state=0)
    found = evaluate(CitationKNN(), data.bags, data.y, cv=4)
    held = found.held_out
    shown = range(1, 2) if n_classes == 2 else range(3)
    for kind, function in (
        ("roc", lambda *given: roc_curve(*given)[:2]),
        ("precision-recall", lambda *given: precision_recall_curve(*given)[1::-1]),
        ("calibration", lambda *given: calibration_curve(*given, n_bins=10)[::-1]),
    ):
        display = CurveDisplay.from_evaluation(found, kind=kind, ax=axes)
        assert list(display.curves) == [str(k) for k in shown]
        for k in shown:
            proba = held.found["predict_proba"][:, k]
            scores = held.found["decision_function"]
            scores = scores if n_classes == 2 else scores[:, k]
            expected = function(held.y == k, proba if kind == "calibration" else scores)
            for own, other in zip(display.curves[str(k)], expected, strict=True):
                np.testing.assert_allclose(own, other)


def test_curves_leave_out_bags_of_which_a_label_is_unknown(axes, rng):
    sets = rng.integers(-1, 2, size=(30, 2))
    bags = [rng.normal(size=(3, 2)) for _ in range(30)]
    found = evaluate(NoisyOrLogisticRegression(), bags, sets, cv=2)
    display, held = CurveDisplay.from_evaluation(found, ax=axes), found.held_out
    for k in range(2):
        known = held.y[:, k] >= 0
        scores = held.found["decision_function"][known, k]
        expected = roc_curve(held.y[known, k], scores)[:2]
        for own, other in zip(display.curves[str(k)], expected, strict=True):
            np.testing.assert_allclose(own, other)


def test_curves_need_scores():
    with pytest.raises(InputError, match="no scores or probabilities"):
        CurveDisplay.from_evaluation(Evaluation("other", {"AUC": [0.5]}, [0.1]))
    data = make_bags(n_bags=20, random_state=0)
    found = evaluate(SetKernelSVM(), data.bags, data.y, cv=2)
    with pytest.raises(InputError, match="no scores or probabilities"):
        CurveDisplay.from_evaluation(found, kind="calibration")
    with pytest.raises(InputError, match="Unknown kind of curves 'rock'"):
        CurveDisplay.from_predictions([], kind="rock")
