"""AttentionMIL on times to an event: its loss is Cox's partial likelihood."""

import pickle

import numpy as np
import pytest

from bagwise.base._pipelines import predicts_numbers
from bagwise.classification import AttentionMIL
from bagwise.classification._training import CoxLoss
from bagwise.exceptions import InputError, LabelError
from bagwise.predictions import Predictions
from bagwise.solvers.survival import concordance, cox_loss, cumulative_hazard
from survival_data import example

torch = pytest.importorskip("torch", reason="AttentionMIL is trained with torch")


def distinct(n=30):
    """Times without ties, for which Breslow's and Efron's likelihoods are the same."""
    y = example(n)[1]
    y["time"] += np.arange(n) / 1000
    return y


def losses_at(y, risk, learned):
    """The losses of all bags in the epoch after one with these log risks, by bag."""
    loss = CoxLoss(y)
    loss.start(torch.tensor(learned))
    everywhere = torch.arange(len(y))
    loss.of(torch.tensor(risk)[:, :, None], everywhere)
    loss.end_epoch()
    logits = torch.tensor(risk, requires_grad=True)
    return logits, loss.of(logits[:, :, None], everywhere)


def test_attention_cox_loss_is_the_partial_likelihood():
    y, rng = distinct(), np.random.default_rng(0)
    risk, learned = rng.normal(size=(2, 30)), rng.integers(0, 3, (2, 30)).astype(float)
    learned[1] = 1.0
    logits, losses = losses_at(y, risk, learned)
    (torch.tensor(learned) * losses).sum().backward()
    # Copies of a bag are tied: Breslow's likelihood is Efron's for the second network only.
    value, slopes = cox_loss(risk[1], y["event"], y["time"], learned[1])
    n_events = y["event"].sum()
    expected = value + n_events * (1 - np.log(30))
    np.testing.assert_allclose(losses[1].sum().item(), expected)
    np.testing.assert_allclose(logits.grad[1].numpy(), slopes, atol=1e-12)
    times, hazard = cumulative_hazard(risk[0], y["event"], y["time"], learned[0])
    gone = hazard[np.searchsorted(times, y["time"])] * np.exp(risk[0]) - y["event"]
    np.testing.assert_allclose(logits.grad[0].numpy(), learned[0] * gone, atol=1e-12)


def test_attention_cox_loss_does_not_depend_on_a_common_factor_of_the_risks():
    y, rng = distinct(), np.random.default_rng(1)
    risk = rng.normal(size=(1, 30))
    learned = np.ones((1, 30))
    learned[0, y["time"].argmax()] = 0  # held out, and the last
    first, second = (losses_at(y, risk + shift, learned)[1] for shift in (0.0, 5.0))
    np.testing.assert_allclose(first.detach(), second.detach(), atol=1e-9)
    assert torch.isfinite(first).all()


def test_attention_with_the_cox_loss_is_a_survival_model():
    bags, y = example(80)
    model = AttentionMIL(8, loss="cox", n_models=2, learning_rate=0.01, random_state=0)
    model.fit(bags[:60], y[:60], groups=np.arange(60) // 2)
    risk = model.predict(bags[60:])
    assert model.score(bags[60:], y[60:]) == concordance(y["event"][60:], y["time"][60:], risk)
    assert model.score(bags, y) > 0.65
    scores = model.score_instances(bags)
    np.testing.assert_allclose([s.sum() for s in bags.split(scores)], model.predict(bags))
    keys = [s.argmax() for s in bags.split(scores)]
    np.testing.assert_array_equal(model.key_instances(bags), keys)
    curves = model.predict_survival_function(bags, return_array=True)
    assert (np.diff(curves, axis=1) <= 0).all()
    assert predicts_numbers(model)
    assert not predicts_numbers(AttentionMIL())
    assert not hasattr(model, "predict_proba")
    assert not hasattr(AttentionMIL(), "predict_survival_function")
    table = Predictions(model, bags).bag_table()
    np.testing.assert_array_equal(table["predicted"], model.predict(bags))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags))


def test_attention_with_the_cox_loss_refuses_classes():
    bags, y = example(20)
    with pytest.raises(LabelError, match="structured array"):
        AttentionMIL(loss="cox").fit(bags, y["event"])
    with pytest.raises(InputError, match="class_weight is for classes"):
        AttentionMIL(loss="cox", class_weight="balanced").fit(bags, y)
