"""Our own checks, in addition to scikit-learn's: each takes a fresh estimator."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from bagwise import Bags
from bagwise.base._pipelines import predicts_numbers
from bagwise.exceptions import InputError


def example(n_bags=24, n_classes=2, seed=0, dtype=np.float64):
    """Bags of two to five instances; the class shifts the first feature of one instance."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % n_classes
    arrays = [rng.normal(size=(rng.integers(2, 6), 4)).astype(dtype) for _ in y]
    for array, label in zip(arrays, y, strict=True):
        array[rng.integers(len(array)), 0] += 5 * label
    return Bags.from_arrays(arrays, ids=[f"b{i}" for i in range(n_bags)]), np.array(list("pqr"))[y]


def example_for(model, n_bags=24, n_classes=2, seed=0, dtype=np.float64):
    """The example for a model; for a regressor, y is the sum of the first feature."""
    bags, y = example(n_bags, n_classes, seed, dtype)
    if predicts_numbers(model):
        y = np.array([bag[:, 0].sum() for bag in bags], dtype=np.float64)
    return bags, y


def answers(model, bags):
    """Results of a fitted model for bags, by method; instance-level results are split by bag."""
    found = {}
    for name in ("predict", "decision_function", "predict_proba", "transform"):
        if hasattr(model, name):
            value = getattr(model, name)(bags)
            found[name] = value.split(value.instances) if isinstance(value, Bags) else list(value)
    for name in ("score_instances", "predict_instances", "predict_proba_instances"):
        if hasattr(model, name):
            found[name] = bags.split(getattr(model, name)(bags))
    return found


def assert_same_answers(found, expected):
    assert found.keys() == expected.keys()
    for name in found:
        for a, b in zip(found[name], expected[name], strict=True):
            if np.asarray(a).dtype.kind == "f":
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8, err_msg=name)
            else:
                np.testing.assert_array_equal(a, b, err_msg=name)


def check_order_of_bags_is_irrelevant(model):
    bags, y = example_for(model)
    test = example_for(model, seed=1)[0]
    order = np.random.default_rng(2).permutation(len(bags))
    plain = clone(model).fit(bags, y)
    mixed = clone(model).fit(bags[order], y[order])
    expected, found = answers(plain, test), answers(mixed, test)
    if isinstance(getattr(plain, "prototypes_", None), Bags):
        # an embedding with one column per training bag: permute them alike
        expected["transform"] = [row[order] for row in expected["transform"]]
    assert_same_answers(found, expected)


def check_order_of_instances_is_irrelevant(model):
    bags, y = example_for(model)
    test = example_for(model, seed=1)[0]
    rng = np.random.default_rng(2)
    shuffle = [rng.permutation(size) for size in test.sizes]
    mixed_train = Bags.from_arrays([bag[rng.permutation(len(bag))] for bag in bags])
    mixed_test = Bags.from_arrays([bag[p] for bag, p in zip(test, shuffle, strict=True)])
    plain, mixed = clone(model).fit(bags, y), clone(model).fit(mixed_train, y)
    expected, found = answers(plain, test), answers(mixed, mixed_test)
    for name, parts in expected.items():
        if name.endswith("instances") or (name == "transform" and np.ndim(parts[0]) == 2):
            expected[name] = [part[p] for part, p in zip(parts, shuffle, strict=True)]
    assert_same_answers(found, expected)
    if hasattr(model, "key_instances"):
        before, after = plain.key_instances(test), mixed.key_instances(mixed_test)
        for k0, k1, p in zip(before, after, shuffle, strict=True):
            assert p[k1] == k0


def check_all_inputs_give_the_same_fit(model):
    rng = np.random.default_rng(0)
    y = np.arange(20) % 2
    cube = rng.normal(size=(20, 3, 4)) + 2 * y[:, None, None]
    bags = Bags.from_arrays(cube)
    frame_like = Bags.from_groups(cube.reshape(60, 4), np.repeat(np.arange(20), 3))
    expected = answers(clone(model).fit(bags, y), bags)
    for X in (cube, list(cube), cube.tolist(), frame_like):
        assert_same_answers(answers(clone(model).fit(X, y), bags), expected)


def check_singletons_equal_rows(model):
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    X = rng.normal(size=(30, 4)) + y[:, None]
    bags = Bags(X, np.arange(31))
    assert_same_answers(
        answers(clone(model).fit(bags, y), bags), answers(clone(model).fit(X, y), bags)
    )
    if hasattr(model, "transform"):
        rows = clone(model).fit(X, y).transform(X)
        assert isinstance(rows, np.ndarray)
        assert rows.ndim == 2


def own_tables(bags, model):
    """The same bags over user-owned tables: dense, and CSR if accepted; read-only or not."""
    tables = [bags.instances.copy()]
    if model.__sklearn_tags__().input_tags.sparse:
        tables.append(sparse.csr_array(bags.instances))
    for table in tables:
        for writeable in (True, False):
            arrays = [table] if isinstance(table, np.ndarray) else vars_of(table)
            for array in arrays:
                array.flags.writeable = writeable
            yield Bags(table, bags.offsets.copy()), arrays


def vars_of(table):
    return [table.data, table.indices, table.indptr]


def check_inputs_are_untouched(model):
    """`fit` and the prediction methods work on the user's memory and do not change it."""
    bags, y = example_for(model)
    for mine, arrays in own_tables(bags, model):
        assert np.shares_memory(mine.instances.data, arrays[0])  # bags do not copy
        labels = y.copy()
        labels.flags.writeable = arrays[0].flags.writeable
        before = [array.copy() for array in (*arrays, mine.offsets, labels)]
        answers(clone(model).fit(mine, labels), mine)
        for array, expected in zip((*arrays, mine.offsets, labels), before, strict=True):
            np.testing.assert_array_equal(array, expected)
    cube = np.random.default_rng(0).normal(size=(12, 3, 4))
    before = cube.copy()
    fitted = clone(model).fit(cube, np.arange(12) % 2)
    for name in ("predict", "transform", "predict_instances"):
        if hasattr(fitted, name):
            getattr(fitted, name)(cube)
    np.testing.assert_array_equal(cube, before)


def check_pickles(model):
    bags, y = example_for(model)
    fitted = clone(model).fit(bags, y)
    assert_same_answers(answers(pickle.loads(pickle.dumps(fitted)), bags), answers(fitted, bags))


def softmax_mean(values):
    weights = np.exp(values - values.max(axis=0))
    return (weights * values).sum(axis=0) / weights.sum(axis=0)


def any_positive(log_odds):
    """Log-odds that at least one instance is positive."""
    nobody = -np.logaddexp(0, log_odds).sum(axis=0)  # log probability that no instance is positive
    return np.log(np.expm1(-nobody))


# Poolings of the scores of one bag in plain numpy, without the reductions of bagwise.
POOLS = {
    "max": lambda values: values.max(axis=0),
    "mean": lambda values: values.mean(axis=0),
    "lse": lambda values: np.log(np.exp(values).mean(axis=0)),
    "noisy-or": any_positive,
    "sum": lambda values: values.sum(axis=0),
    "softmax": softmax_mean,
}


def check_pooled_instance_scores_are_the_bag_scores(model):
    if not hasattr(model, "score_instances") or model.instance_pooling is None:
        return
    pool = POOLS[model.instance_pooling]
    for n_classes in (2, 3):
        bags, y = example_for(model, n_classes=n_classes)
        fitted = clone(model).fit(bags, y)
        scores = fitted.score_instances(bags)
        assert scores.shape in ((bags.n_instances,), (bags.n_instances, n_classes))
        pooled = np.array([pool(of_bag) for of_bag in bags.split(scores)])
        if predicts_numbers(model):
            np.testing.assert_allclose(pooled, fitted.predict(bags), rtol=1e-9, atol=1e-10)
            continue
        if pooled.ndim == 2 and n_classes == 2:  # one score per class, one decision
            pooled = pooled[:, 1] - pooled[:, 0]
        np.testing.assert_allclose(pooled, fitted.decision_function(bags), rtol=1e-9, atol=1e-10)


def check_key_instances_decide(model):
    """The key instance is the first with the highest score of its bag for the class."""
    if not hasattr(model, "key_instances"):
        return
    for n_classes in (2, 3):
        bags, y = example_for(model, n_classes=n_classes)
        fitted = clone(model).fit(bags, y)
        rows = fitted.key_instances(bags)
        assert rows.shape == (len(bags),)
        assert ((rows >= 0) & (rows < bags.sizes)).all()
        if predicts_numbers(model):
            best = [values.argmax() for values in bags.split(fitted.score_instances(bags))]
            np.testing.assert_array_equal(rows, best)
            continue
        keys = {label: fitted.key_instances(bags, label=label) for label in fitted.classes_}
        scores = fitted.score_instances(bags) if hasattr(model, "score_instances") else None
        if scores is not None and scores.ndim == 1:  # one score: that of the second class
            scores = np.column_stack([-scores, scores])
            np.testing.assert_array_equal(rows, keys[fitted.classes_[1]])
        else:
            predicted = fitted.predict(bags)
            expected = [keys[label][i] for i, label in enumerate(predicted)]
            np.testing.assert_array_equal(rows, expected)
        if scores is None:
            # Distances to bags: the key instance is as good a bag as any other instance of its bag.
            alone = Bags(bags.instances, np.arange(bags.n_instances + 1))
            scores = fitted.decision_function(alone)
            if scores.ndim == 1:  # the difference of two classes, each with its own key instance
                continue
        for column, label in enumerate(fitted.classes_):
            for values, row in zip(bags.split(scores[:, column]), keys[label], strict=True):
                assert values[row] >= values.max() - 1e-9 * np.abs(values).max()


def check_single_precision(model):
    """Results for float32 instances agree with those for float64, up to single precision."""
    bags, y = example_for(model, dtype=np.float32)
    double = bags.with_instances(bags.instances.astype(np.float64))
    assert double.instances.dtype == np.float64
    single = answers(clone(model).fit(bags, y), bags)
    expected = answers(clone(model).fit(double, y), double)
    assert single.keys() == expected.keys()
    for name in expected:
        a, b = (np.concatenate([np.ravel(v) for v in found[name]]) for found in (single, expected))
        if a.dtype.kind == "f":
            assert np.isfinite(a).all(), name
            size = max(np.abs(b).max(), 1e-3)
            # A descent may reach another optimum in single precision: most entries agree.
            close = np.abs(a - b) <= 0.02 * size
            assert close.mean() > 0.9, (name, np.abs(a - b).max() / size)
        else:
            assert np.mean(a == b) > 0.95, name


def check_fitted_state_is_complete(model):
    bags, y = example_for(model)
    fitted = clone(model).fit(bags, y)
    check_is_fitted(fitted)
    assert fitted.n_features_in_ == 4
    if is_classifier(model):
        assert fitted.classes_.tolist() == ["p", "q"]
        assert set(fitted.predict(bags)) <= {"p", "q"}


def check_the_global_random_state_is_left_alone(model):
    bags, y = example_for(model)
    state = np.random.mtrand._rand.get_state  # of the global generator
    before = state()[1:3]
    model.fit(bags, y)
    np.testing.assert_equal(state()[1:3], before)


OUR_CHECKS = [
    check_all_inputs_give_the_same_fit,
    check_fitted_state_is_complete,
    check_inputs_are_untouched,
    check_key_instances_decide,
    check_order_of_bags_is_irrelevant,
    check_order_of_instances_is_irrelevant,
    check_pickles,
    check_pooled_instance_scores_are_the_bag_scores,
    check_single_precision,
    check_the_global_random_state_is_left_alone,
    check_singletons_equal_rows,
]


def row_example(seed=0, dtype=np.float64):
    """Two or three clouds of rows; a third of the rows has no label (-1)."""
    rng = np.random.default_rng(seed)
    kinds = np.arange(60) % 3
    X = rng.normal(size=(60, 4)).astype(dtype)
    X[:, 0] += 6 * (kinds == 1)
    X[:, 1] += 6 * (kinds == 2)
    y = np.array(list("pqr"), dtype=object)[kinds]
    y[rng.permutation(60)[:20]] = -1
    return X, y


def row_answers(fitted, X):
    """Predictions of a fitted model for rows; without ``predict``, its training labels."""
    names = [name for name in ("predict", "decision_function") if hasattr(fitted, name)]
    if not names:
        return {"labels_": fitted.labels_}
    return {name: getattr(fitted, name)(X) for name in names}


def assert_same_rows(found, expected, rtol=1e-6, atol=1e-8):
    assert found.keys() == expected.keys()
    for name in found:
        if found[name].dtype.kind == "f":
            np.testing.assert_allclose(
                found[name], expected[name], rtol=rtol, atol=atol, err_msg=name
            )
        else:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def check_rows_untouched(model):
    X, y = row_example()
    tables = [X]
    if model.__sklearn_tags__().input_tags.sparse:
        tables.append(sparse.csr_array(X))
    for table in tables:
        arrays = [table, y] if isinstance(table, np.ndarray) else [*vars_of(table), y]
        before = [array.copy() for array in arrays]
        for writeable in (True, False):
            for array in arrays:
                array.flags.writeable = writeable
            row_answers(clone(model).fit(table, y), table)
            for array, expected in zip(arrays, before, strict=True):
                np.testing.assert_array_equal(array, expected)


def check_rows_sparse_equals_dense(model):
    if not model.__sklearn_tags__().input_tags.sparse:
        return
    X, y = row_example()
    dense = row_answers(clone(model).fit(X, y), X)
    rows = sparse.csr_array(X)
    assert_same_rows(row_answers(clone(model).fit(rows, y), rows), dense, rtol=1e-4, atol=1e-4)


def check_rows_single_precision(model):
    X, y = row_example(dtype=np.float32)
    single, expected = (row_answers(clone(model).fit(Z, y), Z) for Z in (X, X.astype(float)))
    for name in expected:
        a, b = single[name], expected[name]
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, atol=0.02 * np.abs(b).max(), err_msg=name)
        else:
            assert np.mean(a == b) > 0.95, name


def check_rows_refuse_bags(model):
    bags, y = example()
    with pytest.raises(InputError, match="works on rows"):
        clone(model).fit(bags, y)


def check_rows_unlabelled(model):
    """-1 among strings is not a class; classifiers distinguish the clouds."""
    X, y = row_example()
    fitted = clone(model).fit(X, y)
    if is_classifier(model):
        assert fitted.classes_.tolist() == ["p", "q", "r"]
        truth = np.array(list("pqr"))[np.arange(60) % 3]
        assert np.mean(fitted.predict(X) == truth) > 0.9
    else:
        assert sorted(set(fitted.labels_)) == list(range(getattr(model, "n_clusters", 2)))


ROW_CHECKS = [
    check_rows_refuse_bags,
    check_rows_single_precision,
    check_rows_sparse_equals_dense,
    check_rows_unlabelled,
    check_rows_untouched,
]
