"""AttentionMIL against networks written as loops in numpy."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.classification import AttentionMIL, _networks, _training
from bagwise.classification._networks import GATED, draw, gated_logits, gated_shapes
from bagwise.classification._training import held_out_folds, losses_of, moments, order_of_bags
from bagwise.compute.mapped import mapped_array
from bagwise.exceptions import InputError, NotEnoughMemoryError
from checks import example
from torch_checks import check_example_of_the_docstring, check_without_torch

torch = pytest.importorskip("torch", reason="AttentionMIL is trained with torch")

FEW = {"hidden_size": 4, "n_models": 2, "max_epochs": 6, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def small(**options):
    return AttentionMIL(**(FEW | options))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def terms(network, m, bag):
    """Attention and terms of the instances of one bag by network m, instance by instance."""
    W, b, V, c, w, U, u = (network[name][m] for name in GATED)
    n_gates = V.shape[1] // 2
    logits, heads = [], []
    for x in bag:
        h = np.maximum(W.T @ x + b, 0)
        gate = V.T @ h + c
        logits.append(w[:, 0] @ (np.tanh(gate[:n_gates]) * sigmoid(gate[n_gates:])))
        heads.append(U.T @ h + u)
    attention = np.exp(logits) / np.sum(np.exp(logits))
    return attention, attention[:, None] * np.array(heads)


def network_of(model):
    return {name: getattr(model, f"{name}_") for name in GATED}


def drawn(sizes, seed=0):
    """A network whose intercepts are not 0."""
    rng = np.random.RandomState(seed)
    weights = draw(gated_shapes(*sizes), rng)
    return {name: array + 0.1 * rng.normal(size=array.shape) for name, array in weights.items()}


def loss(logits, target, sets):
    """-log p of the class, or label set, of one bag."""
    if sets:
        return -np.sum(np.log(sigmoid(np.where(target == 1, logits, -logits))))
    logits = np.array([0.0, logits[0]]) if len(logits) == 1 else logits
    return np.log(np.exp(logits).sum()) - logits[target]


def label_sets(n_bags=24):
    return (np.random.default_rng(0).random((n_bags, 3)) < 0.5).astype(int)


@pytest.mark.parametrize("kind", [2, 3, "sets"])
def test_scores_are_those_of_a_network_written_as_loops(kind):
    bags, y = example(n_classes=3 if kind == 3 else 2)
    model = small().fit(bags, label_sets() if kind == "sets" else y)
    network, X = network_of(model), StandardScaler().fit(bags.instances)
    found, instances, shares = (
        f(bags) for f in (model.decision_function, model.score_instances, model.attention)
    )
    alone = model.predict_proba_instances(bags)
    singletons = Bags(bags.instances, np.arange(bags.n_instances + 1))
    np.testing.assert_allclose(alone, model.predict_proba(singletons), rtol=1e-9)
    for i, bag in enumerate(bags):
        each = [terms(network, m, X.transform(bag)) for m in range(2)]
        attention, parts = (np.mean(arrays, axis=0) for arrays in zip(*each, strict=True))
        rows = slice(*bags.offsets[i : i + 2])
        np.testing.assert_allclose(shares[rows], attention, rtol=1e-9)
        np.testing.assert_allclose(instances[rows].reshape(parts.shape), parts, rtol=1e-9)
        np.testing.assert_allclose(found[i], parts.sum(axis=0).reshape(found[i].shape), atol=1e-12)


@pytest.mark.parametrize("kind", [2, 3, "sets"])
def test_gradients_are_those_of_the_loops(kind, rng):
    n_outputs = 1 if kind == 2 else 3
    network = drawn((2, 3, 4, n_outputs))
    sizes = np.array([1, 4, 2])
    X = rng.normal(size=(7, 3))
    targets = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]]) if kind == "sets" else np.array([1, 0, 1])
    weight = np.array([[1.0, 0.0, 2.0], [0.5, 1.0, 1.0]])

    def total():
        bags = np.split(X, np.cumsum(sizes)[:-1])
        return sum(
            weight[m, i] * loss(terms(network, m, bag)[1].sum(axis=0), targets[i], kind == "sets")
            for m in range(2)
            for i, bag in enumerate(bags)
        )

    tensors = {n: torch.tensor(array, requires_grad=True) for n, array in network.items()}
    logits = gated_logits(tensors, torch.tensor(X), torch.tensor(sizes))
    losses = losses_of(logits, torch.tensor(targets))
    found = (torch.tensor(weight) * losses).sum()
    found.backward()
    np.testing.assert_allclose(found.item(), total(), rtol=1e-12)
    for name, array in network.items():
        slopes = np.empty_like(array)
        for place in np.ndindex(array.shape):
            kept, sides = array[place], []
            for move in (1e-6, -1e-6):
                array[place] = kept + move
                sides.append(total())
            array[place] = kept
            slopes[place] = (sides[0] - sides[1]) / 2e-6
        np.testing.assert_allclose(tensors[name].grad.numpy(), slopes, atol=1e-8)


def adamw(weight, slope, state, step, rate, decay):
    """One step of AdamW (Loshchilov 2019) with the usual constants."""
    first, second = state
    first[:] = 0.9 * first + 0.1 * slope
    second[:] = 0.999 * second + 0.001 * slope**2
    weight *= 1 - rate * decay
    weight -= rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)


def test_epochs_are_steps_of_adamw_on_the_bags_that_are_not_held_out():
    bags, y = example(12)
    codes = (y == "q").astype(int)
    options = FEW | {"batch_size": 5, "max_epochs": 3, "weight_decay": 0.3}
    model = AttentionMIL(**options, class_weight={"q": 2.0}).fit(bags, y)

    rng = np.random.RandomState(0)
    start = draw(gated_shapes(2, 4, 4, 1), rng)
    order = order_of_bags(bags, codes)
    folds = held_out_folds(codes, np.arange(len(codes)), order, 0.2, rng)
    X = torch.tensor(StandardScaler().fit_transform(bags.instances))
    network = {n: torch.tensor(array, requires_grad=True) for n, array in start.items()}
    states = {n: (np.zeros_like(array), np.zeros_like(array)) for n, array in start.items()}
    step, curve, held_out, snapshots = 0, [], [], []
    for _ in range(3):
        learned, outside = 0.0, []
        for batch in np.array_split(rng.permutation(order), 3):
            step += 1
            total = 0.0
            for m in range(2):
                inside = np.where(folds == m, 0.0, 1.0 + codes)
                inside *= 12 / inside.sum()
                for i in batch:
                    bag = X[bags.offsets[i] : bags.offsets[i + 1]]
                    logit = gated_logits(network, bag, torch.tensor([len(bag)]))[m, 0, 0]
                    own = torch.nn.functional.softplus(logit * (1 - 2 * codes[i]))
                    total = total + inside[i] * own
                    if folds[i] == m:
                        outside.append((own.item(), 1.0 + codes[i]))
            for array in network.values():
                array.grad = None
            (total / len(batch)).backward()
            learned += total.item()
            for name, array in network.items():
                decay = 0.3 if name.endswith("coef") else 0.0
                adamw(array.detach().numpy(), array.grad.numpy(), states[name], step, 1e-3, decay)
        curve.append(learned / 24)
        own = np.average(*np.transpose(outside)[:1], weights=np.transpose(outside)[1])
        held_out.append(0.8 * held_out[-1] + 0.2 * own if held_out else own)
        snapshots.append({n: array.detach().numpy().copy() for n, array in network.items()})
    np.testing.assert_allclose(model.objective_curve_, curve, rtol=1e-9)
    np.testing.assert_allclose(model.held_out_curve_, held_out, rtol=1e-9)
    for name, expected in snapshots[np.argmin(held_out)].items():
        np.testing.assert_allclose(network_of(model)[name], expected, rtol=1e-7, atol=1e-10)


def test_the_weights_of_the_best_epoch_are_kept():
    bags, y = example()
    long = small(max_epochs=150, learning_rate=0.1)
    model = clone(long).fit(bags, y)
    best = int(np.argmin(model.held_out_curve_))
    assert model.n_iter_ == len(model.held_out_curve_) < 150
    with pytest.warns(ConvergenceWarning, match="max_epochs"):
        again = clone(long).set_params(max_epochs=best + 1).fit(bags, y)
    np.testing.assert_array_equal(again.hidden_coef_, model.hidden_coef_)


@pytest.mark.parametrize("n_folds", [2, 5])
def test_folds_deal_each_class_evenly(n_folds):
    codes = np.repeat([0, 1, 2, 3], [11, 7, 2, 1])
    own = np.arange(len(codes))  # each bag a group of its own
    folds = held_out_folds(codes, own, own, 1 / n_folds, np.random.RandomState(0))
    assert folds[-1] == -1  # the only bag of its class
    for code in range(3):
        counts = np.bincount(folds[codes == code], minlength=n_folds)
        assert np.ptp(counts) <= 1
    again = held_out_folds(codes, own, own, 1 / n_folds, np.random.RandomState(1))
    assert not np.array_equal(again, folds)


def test_bags_of_a_group_are_in_one_fold(rng):
    groups = rng.permutation(np.repeat(np.arange(20), 3))
    codes = (groups % 2) ^ (rng.random(60) < 0.2)
    codes[groups == 7] = 2  # all bags of a class
    order = rng.permutation(60)
    folds = held_out_folds(codes, groups, order, 0.2, np.random.RandomState(0))
    for g in range(20):
        assert len(set(folds[groups == g])) == 1
    np.testing.assert_array_equal(folds == -1, groups == 7)
    assert np.bincount(folds[folds >= 0], minlength=5).min() >= 3 * 3
    # Neither the order of the bags nor the numbers of the groups matter.
    shuffled, renamed = rng.permutation(60), rng.permutation(20)
    place = np.argsort(shuffled)
    again = held_out_folds(
        codes[shuffled], renamed[groups[shuffled]], place[order], 0.2, np.random.RandomState(0)
    )
    np.testing.assert_array_equal(again, folds[shuffled])


def test_groups_are_held_out_together():
    bags, y = example(24)
    patients = np.array([f"p{i // 4}" for i in range(24)])
    alone, together = (small(max_epochs=3).fit(bags, y, groups=g) for g in (None, patients))
    assert not np.allclose(alone.held_out_curve_, together.held_out_curve_)
    with pytest.raises(InputError, match="24"):
        small().fit(bags, y, groups=patients[:-1])


@pytest.mark.parametrize(
    "make", [np.asarray, sparse.csr_array, torch.tensor], ids=["dense", "csr", "tensor"]
)
def test_moments_are_those_of_the_whole_table(make, rng, monkeypatch):
    monkeypatch.setattr("bagwise.compute.blocks.BLOCK", 4 * 256)
    X = rng.normal(loc=[1e3, 0, -5, 0], scale=[1, 0.1, 10, 0], size=(700, 4))
    X[:, 3] = 1e5 / 3
    mean, scale = moments(Bags(make(X), [0, 200, 700]))
    np.testing.assert_allclose(mean, X.mean(axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(scale[:3], X[:, :3].std(axis=0), rtol=1e-10)
    assert scale[3] == 1


def test_units_and_copies_change_nothing():
    bags, y = example()
    model = small().fit(bags, y)
    expected = model.decision_function(bags)
    other = bags.with_instances(bags.instances * [1, 1e3, 1e-3, 7] + [5, 0, 0, -1])
    found = small().fit(other, y).decision_function(other)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    twice = Bags.from_arrays([np.repeat(bag, 3, axis=0) for bag in bags])
    np.testing.assert_allclose(model.decision_function(twice), expected, rtol=1e-9)
    trained = small().fit(twice, y).decision_function(bags)
    np.testing.assert_allclose(trained, expected, rtol=1e-6)


@pytest.mark.parametrize("batch_size", [5, 24])
def test_a_seed_determines_the_model_and_no_global_state_is_touched(batch_size):
    bags, y = example()
    model = small(batch_size=batch_size)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    threads = torch.get_num_threads()
    first = clone(model).fit(bags, y)
    assert torch.equal(torch.get_rng_state(), before[0])
    torch.rand(3)
    second = clone(model).fit(bags, y)
    torch.set_rng_state(before[0])
    other = clone(model).set_params(random_state=1).fit(bags, y)
    np.testing.assert_array_equal(first.hidden_coef_, second.hidden_coef_)
    assert not np.array_equal(first.hidden_coef_, other.hidden_coef_)
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    assert torch.get_num_threads() == threads


def test_blocks_of_bags_give_the_same_model(monkeypatch):
    bags, y = example()
    expected = small().fit(bags, y).decision_function(bags)
    monkeypatch.setattr(_training, "TRAINED_AT_ONCE", 1)  # each bag is a block
    monkeypatch.setattr(_networks, "BLOCK", 7)
    found = small().fit(bags, y).decision_function(bags)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("kept", [2**28, 0], ids=["kept", "read batch by batch"])
def test_instances_in_a_file_sparse_or_on_a_device_give_the_same_model(kept, monkeypatch):
    monkeypatch.setattr("bagwise.compute.batches.KEPT", kept)
    bags, y = example()
    thin = bags.with_instances(np.where(bags.instances > 0, bags.instances, 0))
    expected = small().fit(thin, y).decision_function(thin)
    table, _ = mapped_array(thin.instances.shape, np.float64)
    table[:] = thin.instances
    for other in (
        thin.with_instances(table),
        thin.with_instances(sparse.csr_array(thin.instances)),
        thin.to("cpu"),
    ):
        found = small().fit(other, y).decision_function(other)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device here")
@pytest.mark.parametrize("free", [None, 200.0], ids=["kept", "read batch by batch"])
def test_cuda_gives_the_same_model(free, monkeypatch):
    bags, y = example()
    expected = small().fit(bags, y).decision_function(bags)
    if free is not None:
        monkeypatch.setattr("bagwise.compute.batches.free_memory", lambda device: free)
    for options, other in (({"device": "cuda"}, bags), ({}, bags.to("cuda"))):
        found = small(**options).fit(other, y).decision_function(other)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arithmetic_is_in_the_type_of_the_instances(dtype):
    bags, y = example(dtype=dtype)
    model = small().fit(bags, y)
    assert {array.dtype for array in network_of(model).values()} == {np.dtype(dtype)}
    assert model.decision_function(bags).dtype == dtype


def test_it_finds_the_instances_that_were_shifted():
    bags, y = example(60)
    model = AttentionMIL(16, n_models=2, learning_rate=0.01, random_state=0)
    model.fit(bags, y)
    assert model.score(bags, y) > 0.95
    positive = np.flatnonzero(y == "q")
    shifted = np.array([bags[i][:, 0].argmax() for i in positive])
    assert np.mean(model.key_instances(bags)[positive] == shifted) > 0.9


def test_label_sets_give_a_probability_per_label():
    bags, _ = example(40)
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=(40, 2))
    shift = np.zeros(bags.instances.shape)
    for i in range(40):
        shift[rng.integers(*bags.offsets[i : i + 2]), :2] += 6 * y[i]
    bags = bags.with_instances(bags.instances + shift)
    model = AttentionMIL(16, n_models=2, learning_rate=0.01, random_state=0)
    model.fit(bags, y)
    np.testing.assert_array_equal(model.predict(bags), model.decision_function(bags) > 0)
    assert np.mean(model.predict(bags) == y) > 0.9
    np.testing.assert_allclose(
        model.predict_proba(bags), sigmoid(model.decision_function(bags)), rtol=1e-9
    )
    unknown = y.copy()
    unknown[:3] = -1
    without = clone(model).set_params(max_epochs=2).fit(bags[3:], y[3:])
    with_them = clone(model).set_params(max_epochs=2).fit(bags, unknown)
    np.testing.assert_array_equal(with_them.head_coef_, without.head_coef_)
    with pytest.raises(InputError, match=r"class_weight.* one label per bag"):
        clone(model).set_params(class_weight="balanced").fit(bags, y)


def test_tiny_data_are_learned_from():
    model = small(max_epochs=30)
    for y in (["a", "b"], ["a", "b", "b"], ["a", "b", "c"]):
        X = [[[float(i)]] for i in range(len(y))]
        assert np.isfinite(model.fit(X, y).decision_function(X)).all()
    assert model.n_iter_ == 30
    assert len(model.held_out_curve_) == 0  # each bag is the only one of its class


@pytest.mark.parametrize("device", ["nowhere", "cuda:99"])
def test_an_unknown_device_is_named(device):
    bags, y = example()
    with pytest.raises(InputError, match=f"device='{device}'"):
        small(device=device).fit(bags, y)


def test_a_bag_too_large_for_memory_is_refused(monkeypatch):
    bags, y = example()
    monkeypatch.setattr("bagwise._common.memory.available_memory", lambda: 1e6)
    monkeypatch.setattr("bagwise._common.memory._ALWAYS_GRANTED", 0)
    small().fit(bags, y)
    with pytest.raises(NotEnoughMemoryError, match="a bag of 5 instances"):
        small(hidden_size=1000, max_epochs=1).fit(bags, y)


def test_divergence_is_an_error_and_leaves_no_model():
    bags, y = example()
    model = small(learning_rate=1e200, max_epochs=50)
    with pytest.raises(InputError, match="lower learning_rate"):
        model.fit(bags, y)
    assert not hasattr(model, "hidden_coef_")


def test_an_interrupt_leaves_the_model_as_it_was(monkeypatch):
    bags, y = example()
    model = small().fit(bags, y)
    before, threads = model.decision_function(bags), torch.get_num_threads()
    calls = []

    def interrupted(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return losses_of(*arguments, **options)

    monkeypatch.setattr(_training, "losses_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(random_state=1).fit(bags, y)
    np.testing.assert_array_equal(model.decision_function(bags), before)
    assert torch.get_num_threads() == threads


def test_a_fitted_model_needs_no_torch(tmp_path):
    bags, y = example(n_classes=3)
    model = small().fit(bags, y)
    check_without_torch(model, bags, y, tmp_path)


def test_the_example_of_the_docstring_runs():
    check_example_of_the_docstring(AttentionMIL, n_lines=6)


def test_a_fit_that_learned_nothing_says_so(rng):
    y = np.arange(24) % 2
    noise = list(rng.normal(size=(24, 3, 2)))
    with pytest.warns(ConvergenceWarning, match="AttentionMIL learned nothing: a loss of"):
        model = small(max_epochs=300).fit(noise, y)
    assert model.chance_loss_ == pytest.approx(np.log(2))
    assert model.held_out_loss_ == model.held_out_curve_.min() > 0.68


def test_the_loss_of_a_constant_prediction():
    from bagwise.classification._training import CrossEntropy

    p = np.array([0.5, 0.25, 0.25])
    codes = np.array([0, 0, 1, 2])
    assert CrossEntropy(codes, 3).chance(np.ones(4)) == pytest.approx(-p @ np.log(p))
    assert CrossEntropy(codes, 3).chance(np.array([0.5, 0.5, 1, 1])) == pytest.approx(np.log(3))
    sets = np.array([[1, 0], [1, 1], [0, 0], [1, 0]])
    q = np.array([0.75, 0.25])
    expected = -(q @ np.log(q) + (1 - q) @ np.log(1 - q))
    assert CrossEntropy(sets, 2).chance(np.ones(4)) == pytest.approx(expected)


@pytest.mark.slow
def test_a_few_percent_of_the_instances_are_found_in_few_bags(rng):
    """40 donors; the loss falls only after 100 steps, which are 30 epochs."""
    X = rng.normal(size=(80, 300, 10)).astype(np.float32)
    y = np.arange(80) % 2
    X[1::2, :15, 0] += 3.5
    model = AttentionMIL(n_models=3, random_state=0).fit(list(X[:40]), y[:40])
    assert model.held_out_loss_ < 0.3
    assert (model.predict(list(X[40:])) == y[40:]).mean() > 0.9
