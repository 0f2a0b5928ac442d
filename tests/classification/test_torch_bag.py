"""TorchBagClassifier: user-defined modules, trained bag by bag."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from bagwise.classification import AttentionMIL, TorchBagClassifier
from bagwise.classification._networks import draw, gated_logits, gated_shapes
from bagwise.exceptions import (
    InputError,
    ModelFileError,
)
from bagwise.persistence import save_model
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline
from checks import OUR_CHECKS, example
from torch_checks import check_example_of_the_docstring

torch = pytest.importorskip("torch", reason="TorchBagClassifier trains torch modules")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class MeanLogit(torch.nn.Linear):
    """The mean of linear scores of the instances."""

    def forward(self, bag):
        return super().forward(bag).mean(dim=0)


class WithScores(MeanLogit):
    """The same, and the scores."""

    def forward(self, bag):
        scores = torch.nn.functional.linear(bag, self.weight, self.bias)
        return scores.mean(dim=0), scores


class Attention(torch.nn.Module):
    """Attention pooling of a batch of bags, written as torchmil's models are."""

    def __init__(self, n_features, n_outputs, p=0.0):
        super().__init__()
        self.attention = torch.nn.Linear(n_features, 1)
        self.drop = torch.nn.Dropout(p)
        self.head = torch.nn.LazyLinear(n_outputs)

    def forward(self, X, return_att=False):
        f = self.attention(X)[:, :, 0]
        Z = (f.softmax(dim=1)[:, :, None] * self.drop(X)).sum(dim=1)
        logits = self.head(Z).squeeze(-1)
        return (logits, f) if return_att else logits


def quick(module=MeanLogit, **options):
    defaults = {"max_epochs": 5, "learning_rate": 0.05, "random_state": 0}
    return TorchBagClassifier(module, **(defaults | options))


def torchmil_like(module=Attention):
    return quick(module, instance_output="attention", batch_dimension=True)


def in_double(n_features, n_outputs):
    return WithScores(n_features, n_outputs, dtype=torch.float64)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_are_what_the_module_returns(n_classes):
    bags, y = example(n_classes=n_classes)
    model = quick(WithScores, instance_output="scores").fit(bags, y)
    weight, bias = (p.detach().numpy() for p in model.module_.parameters())
    instances = bags.instances @ weight.T + bias
    found = model.score_instances(bags)
    np.testing.assert_allclose(found.reshape(instances.shape), instances, rtol=1e-4, atol=1e-5)
    expected = np.array([part.mean(axis=0) for part in bags.split(instances)])
    found = model.decision_function(bags)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)
    assert model.predict_proba(bags).shape == (24, n_classes)
    keys = model.key_instances(bags, label=model.classes_[-1])
    np.testing.assert_array_equal(keys, [p[:, -1].argmax() for p in bags.split(instances)])


def test_the_users_module_stays_as_it_is_and_training_starts_from_it():
    bags, y = example()
    module = MeanLogit(4, 1)
    before = [p.detach().clone() for p in module.parameters()]
    model = quick(module)
    copied = clone(model)
    assert copied.module is not module
    fitted = copied.fit(bags, y)
    for was, now in zip(before, module.parameters(), strict=True):
        assert torch.equal(was, now)
    still = quick(module, learning_rate=1e-30).fit(bags, y)
    assert torch.equal(still.module_.weight, before[0])
    assert not torch.equal(fitted.module_.weight, before[0])


def test_a_seed_determines_the_model_and_no_global_state_is_touched():
    bags, y = example()
    model = torchmil_like(lambda d, k: Attention(d, k, p=0.5))
    state = torch.get_rng_state()
    first = clone(model).fit(bags, y)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(3)
    second = clone(model).fit(bags, y)
    other = clone(model).set_params(random_state=1).fit(bags, y)
    torch.set_rng_state(state)
    np.testing.assert_array_equal(first.decision_function(bags), second.decision_function(bags))
    assert not np.array_equal(first.decision_function(bags), other.decision_function(bags))


def test_a_module_with_a_batch_dimension_gives_attention_and_no_labels_of_instances():
    bags, y = example()
    model = torchmil_like().fit(bags, y)
    module = model.module_
    with torch.no_grad():
        logits, f = module(torch.tensor(bags[0], dtype=torch.float32)[None], return_att=True)
    np.testing.assert_allclose(model.attention(bags)[: len(bags[0])], f[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.decision_function(bags)[0], logits[0], rtol=1e-5, atol=1e-6)
    for name in ("score_instances", "predict_instances", "key_instances"):
        assert not hasattr(model, name)
    assert not hasattr(quick(), "attention")


@pytest.mark.parametrize("check", OUR_CHECKS, ids=lambda check: check.__name__)
def test_the_common_checks(check):
    check(quick(in_double, instance_output="scores"))


def test_the_held_out_bags_end_the_training():
    bags, y = example(40)
    model = quick(max_epochs=200).fit(bags, y)
    assert model.n_iter_ == len(model.held_out_curve_) < 200
    with pytest.warns(ConvergenceWarning, match="max_epochs=2"):
        quick(max_epochs=2).fit(bags, y)
    assert len(quick(validation_fraction=None).fit(bags, y).held_out_curve_) == 0


def test_label_sets_and_two_logits_for_two_classes():
    bags, y = example()
    shift = 3.0 * (y == "q")[bags.bag_index]
    bags = bags.with_instances(bags.instances + shift[:, None])
    sets = np.column_stack([y == "q", y == "p", y == "q"]).astype(int)
    options = {"validation_fraction": None, "max_epochs": 60}
    model = quick(**options).fit(bags, sets)
    assert model.predict(bags).shape == (24, 3)
    assert np.mean(model.predict(bags) == sets) > 0.8
    double = quick(lambda d, _: MeanLogit(d, 2), **options).fit(bags, y)
    assert double.decision_function(bags).shape == (24,)
    assert double.score(bags, y) > 0.8
    for_p, for_q = (
        quick(class_weight={label: 100.0}, **options).fit(bags, y).decision_function(bags)
        for label in "pq"
    )
    assert (for_p < for_q).all()
    with pytest.raises(InputError, match="class_weight needs one label"):
        quick(class_weight="balanced").fit(bags, sets)


class Silent(torch.nn.Module):
    """Nothing to train."""

    def forward(self, bag):
        return bag.mean().reshape(1)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (quick(lambda d, k: MeanLogit(d, 5)), r"logits of shape \(5,\).*expected 1 or 2 logits"),
        (quick(torch.nn.Linear), "batch_dimension=True"),
        (quick(Silent()), "Silent has no parameters to train"),
        (quick(learning_rate=1e30), "the training loss is"),
        (quick(device="nowhere"), "device='nowhere'"),
    ],
    ids=["logits", "rows", "no parameters", "diverged", "device"],
)
def test_what_cannot_be_trained_is_refused(model, message):
    bags, y = example()
    with pytest.raises(InputError, match=message):
        model.fit(bags, y)
    assert not hasattr(model, "module_")


def test_the_abmil_of_torchmil_runs_as_the_guide_says():
    models = pytest.importorskip("torchmil.models", reason="torchmil is not installed")
    bags, y = example()
    model = TorchBagClassifier(
        models.ABMIL(in_shape=(bags.n_features,), gated=True),
        batch_dimension=True,
        instance_output="attention",
        max_epochs=3,
    )
    attention = model.fit(bags, y).attention(bags)
    assert attention.shape == (bags.n_instances,)
    module, rows = model.module_, torch.tensor(bags[2], dtype=torch.float32)[None]
    with torch.no_grad():
        logit, own = module(rows, return_att=True)
    start, stop = bags.offsets[2:4]
    np.testing.assert_allclose(attention[start:stop], own[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.decision_function(bags)[2], logit[0], rtol=1e-4, atol=1e-5)


def test_a_missing_second_output_is_named():
    bags, y = example()
    model = quick(MeanLogit, instance_output="scores").fit(bags, y)
    with pytest.raises(InputError, match=r"returned nothing for bag 0 \('b0'\)"):
        model.score_instances(bags)


def test_it_is_pickled_and_refused_as_a_skops_file(tmp_path):
    bags, y = example()
    model = quick().fit(bags, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(bags), model.decision_function(bags))
    pipeline = make_bag_pipeline(InstanceTransformer(StandardScaler()), model)
    for thing in (model, pipeline):
        with pytest.raises(ModelFileError, match=r"TorchBagClassifier .*torch\.save"):
            save_model(thing, tmp_path / "model.skops")
    assert not list(tmp_path.iterdir())


def test_the_example_of_the_docstring_runs():
    check_example_of_the_docstring(TorchBagClassifier, n_lines=6)


def test_it_trains_the_network_of_attention_mil():
    """One epoch on all bags, from the same weights: the same network as AttentionMIL's."""
    bags, y = example()
    options = {"validation_fraction": None, "max_epochs": 1, "batch_size": 24, "random_state": 0}
    fast = AttentionMIL(4, n_models=1, weight_decay=0.0, **options).fit(bags, y)

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            start = draw(gated_shapes(1, 4, 4, 1), np.random.RandomState(0))
            for name, array in start.items():
                self.register_parameter(name, torch.nn.Parameter(torch.tensor(array)))

        def forward(self, bag):
            weights = dict(self.named_parameters())
            return gated_logits(weights, bag, torch.tensor([len(bag)]))[0, 0]

    slow = TorchBagClassifier(Network(), weight_decay=0.0, **options)
    scaled = bags.with_instances(StandardScaler().fit_transform(bags.instances))
    slow.fit(scaled, y)
    np.testing.assert_allclose(
        slow.decision_function(scaled), fast.decision_function(bags), rtol=1e-7
    )
