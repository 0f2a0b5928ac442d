"""MINet against networks written as loops in numpy."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from bagwise.classification import MINet, _networks
from bagwise.classification._networks import draw_plain
from bagwise.exceptions import InputError
from checks import OUR_CHECKS, example
from torch_checks import check_example_of_the_docstring, check_without_torch

torch = pytest.importorskip("torch", reason="MINet is trained with torch")

POOL = {
    "max": lambda values: values.max(axis=0),
    "mean": lambda values: values.mean(axis=0),
    "lse": lambda values: np.log(np.mean(np.exp(values), axis=0)),
}
every_network = pytest.mark.parametrize(
    ("level", "pooling"), [(a, b) for a in ("instance", "embedding") for b in POOL]
)


class Patient(MINet):
    """It runs all epochs."""

    _training_tol = None


class ByGradient(Patient):
    """Gradient descent."""

    momentum = 0.0

    def _optimizer(self, weights, **options):
        return torch.optim.SGD(weights, lr=self.learning_rate, momentum=self.momentum)


def small(cls=Patient, **options):
    """A net of few weights."""
    defaults = {"hidden_layer_sizes": (3, 2), "max_epochs": 5, "random_state": 0}
    return cls(**(defaults | options))


def last_layer(X, coefs, intercepts):
    for W, b in zip(coefs[:-1], intercepts[:-1], strict=True):
        X = np.maximum(X @ W + b, 0)
    return X


def bag_score(bag, coefs, intercepts, *, level, pooling):
    Z = last_layer(bag, coefs, intercepts)
    if level == "instance":
        return POOL[pooling](Z @ coefs[-1] + intercepts[-1])
    return POOL[pooling](Z) @ coefs[-1] + intercepts[-1]


def cross_entropy(score, code):
    if len(score) == 1:
        score = np.array([0.0, score[0]])
    return np.log(np.exp(score).sum()) - score[code]


@every_network
@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_are_those_of_a_network_written_as_loops(level, pooling, n_classes):
    bags, y = example(n_classes=n_classes)
    model = small(level=level, pooling=pooling).fit(bags, y)
    found = model.decision_function(bags).reshape(len(bags), -1)
    for i, bag in enumerate(bags):
        expected = bag_score(bag, model.coefs_, model.intercepts_, level=level, pooling=pooling)
        np.testing.assert_allclose(found[i], expected, rtol=1e-10)


@every_network
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_step_follows_the_gradient(level, pooling, n_classes, rng, monkeypatch):
    bags, y = example(n_bags=9, n_classes=n_classes)
    codes = np.unique(y, return_inverse=True)[1]
    weights = np.where(codes == 1, 3.0, 1.0)
    widths = [4, 3, 2, 1 if n_classes == 2 else 3]
    start = draw_plain(widths, np.random.RandomState(0))
    coefs = [start[f"coef_{k}"] for k in range(3)]
    intercepts = [start[f"intercept_{k}"] for k in range(3)]
    for b in intercepts:  # with all of them 0, units without input stand on their kink
        b += rng.normal(size=b.shape)
    monkeypatch.setattr(_networks, "draw_plain", lambda *_: start)

    def loss():
        scores = [bag_score(bag, coefs, intercepts, level=level, pooling=pooling) for bag in bags]
        each = [cross_entropy(s, code) for s, code in zip(scores, codes, strict=True)]
        return np.average(each, weights=weights)

    def slope(array):
        found = np.empty_like(array)
        for place in np.ndindex(array.shape):
            kept, sides = array[place], []
            for move in (1e-6, -1e-6):
                array[place] = kept + move
                sides.append(loss() + 0.25 / 2 * sum((W**2).sum() for W in coefs))
            array[place] = kept
            found[place] = (sides[0] - sides[1]) / 2e-6
        return found

    model = small(ByGradient, level=level, pooling=pooling, learning_rate=0.1, max_epochs=1)
    model.set_params(weight_decay=0.25, class_weight={"q": 3.0}).fit(bags, y)
    np.testing.assert_allclose(model.objective_curve_, [loss()], rtol=1e-12)
    for before, after in zip(coefs + intercepts, model.coefs_ + model.intercepts_, strict=True):
        np.testing.assert_allclose((before - after) / 0.1, slope(before), atol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("level", ["instance", "embedding"])
def test_singletons_without_hidden_layers_are_logistic_regression(rng, level, n_classes):
    y = np.arange(60) % n_classes
    X = rng.normal(size=(60, 3)) + y[:, None]
    model = ByGradient((), level=level, learning_rate=0.5, weight_decay=0.1, batch_size=60)
    model.momentum = 0.9
    model.set_params(max_epochs=400).fit(X, y)
    cousin = LogisticRegression(C=1 / (0.1 * 60), tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), cousin.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(model.predict(X), cousin.predict(X))


def test_the_mean_of_scores_is_the_score_of_the_mean():
    bags, y = example(n_classes=3)
    scores, embeddings = (
        small(level=level, pooling="mean").fit(bags, y) for level in ("instance", "embedding")
    )
    np.testing.assert_allclose(
        scores.decision_function(bags), embeddings.decision_function(bags), rtol=1e-9
    )


@pytest.mark.parametrize("check", OUR_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "options",
    [
        {"level": "embedding"},
        {"level": "embedding", "pooling": "lse"},
        {"level": "instance", "pooling": "lse"},
        {"level": "instance", "hidden_layer_sizes": ()},
    ],
    ids=str,
)
def test_other_networks_pass_the_common_checks(options, check):
    check(small(**({"hidden_layer_sizes": (8, 4), "max_epochs": 20} | options)))


@pytest.mark.parametrize("level", ["instance", "embedding"])
@pytest.mark.parametrize("hidden", [(), (3, 2)])
@pytest.mark.parametrize("batch_size", [7, 32])
def test_sparse_and_dense_instances_give_the_same_model(level, hidden, batch_size):
    bags, y = example()
    thin = bags.with_instances(np.where(bags.instances > 0, bags.instances, 0))
    model = small(level=level, hidden_layer_sizes=hidden, batch_size=batch_size)
    dense = clone(model).fit(thin, y)
    csr = thin.with_instances(sparse.csr_array(thin.instances))
    found = clone(model).fit(csr, y)
    np.testing.assert_array_equal(found.coefs_[0], dense.coefs_[0])
    np.testing.assert_allclose(found.decision_function(csr), dense.decision_function(thin))


def test_mini_batches_see_every_bag_once_an_epoch():
    # a step so small that nothing moves: the losses of the batches add up to that of all bags
    bags, y = example(23)
    still = small(ByGradient, learning_rate=1e-300, max_epochs=3)
    whole = clone(still).set_params(batch_size=23).fit(bags, y)
    parts = clone(still).set_params(batch_size=5).fit(bags, y)
    np.testing.assert_allclose(parts.objective_curve_, whole.objective_curve_)


def test_a_class_weight_of_two_equals_the_bags_twice():
    bags, y = example()
    twice = np.repeat(np.arange(24), np.where(y == "q", 2, 1))
    model = small(batch_size=48)
    found = clone(model).set_params(class_weight={"q": 2}).fit(bags, y)
    expected = clone(model).fit(bags[twice], y[twice])
    np.testing.assert_allclose(
        found.decision_function(bags), expected.decision_function(bags), rtol=1e-6
    )


@pytest.mark.parametrize("level", ["instance", "embedding"])
@pytest.mark.parametrize("block", [1, 7, 40])
def test_blocks_of_bags_change_nothing(level, block, monkeypatch):
    bags, y = example(n_classes=3)
    model = small(level=level).fit(bags, y)
    expected = model.decision_function(bags)
    monkeypatch.setattr(_networks, "BLOCK", block)
    np.testing.assert_allclose(model.decision_function(bags), expected, rtol=1e-12)


def test_log_mean_exp_does_not_overflow():
    bags, y = example()
    model = small(pooling="lse").fit(bags, y)
    far = bags.with_instances(1e6 * bags.instances)
    scores = bags.split(model.score_instances(far))
    assert max(part.max() for part in scores) > 1e4
    largest = np.array([part.max() for part in scores])
    found = model.decision_function(far)
    assert np.isfinite(found).all()
    assert (found <= largest + 1e-9).all()
    assert (found >= largest - np.log(bags.sizes) - 1e-9).all()
    wild = small(pooling="lse", learning_rate=1e-9, max_epochs=1).fit(far, y)
    assert np.isfinite(wild.coefs_[0]).all()


def test_embeddings_give_no_instance_level_answers():
    bags, y = example()
    model = small(level="embedding").fit(bags, y)
    for name in ("score_instances", "predict_instances", "predict_proba_instances"):
        assert not hasattr(model, name)
    assert not hasattr(model, "key_instances")
    assert hasattr(MINet(), "key_instances")


def test_the_budget_and_the_tolerance():
    bags, y = example()
    with pytest.warns(ConvergenceWarning, match="max_epochs"):
        short = small(MINet, max_epochs=3).fit(bags, y)
    assert short.n_iter_ == 3
    with pytest.warns(ConvergenceWarning, match="MINet learned nothing: a loss of 0.69"):
        lazy = small(MINet, max_epochs=100, learning_rate=1e-9).fit(bags, y)
    assert lazy.n_iter_ == 21  # one epoch to compare with, and the 20 that did not beat it


@pytest.mark.parametrize("sizes", [(0,), (3, -1), (2.5,), ("a",), ((3, 2), 1)])
def test_hidden_layers_have_whole_positive_sizes(sizes):
    bags, y = example()
    with pytest.raises(InputError, match="positive whole numbers"):
        MINet(sizes).fit(bags, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("level", ["instance", "embedding"])
def test_a_fitted_model_needs_no_torch(level, tmp_path):
    bags, y = example(n_classes=3)
    model = small(MINet, level=level).fit(bags, y)
    check_without_torch(model, bags, y, tmp_path)


def test_the_example_of_the_docstring_runs():
    check_example_of_the_docstring(MINet, n_lines=6)
