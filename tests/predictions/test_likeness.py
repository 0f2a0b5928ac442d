"""Whether a bag is like the training bags: a p-value, its laws, and where it is shown."""

import numpy as np
import pytest

from bagwise import Bags
from bagwise.classification import SetKernelSVM
from bagwise.exceptions import InputError
from bagwise.persistence import load_model, save_model
from bagwise.predictions import Predictions, remember_training
from bagwise.predictions._likeness import like_training, training_reference
from bagwise.report import Report
from cases import each


def drawn(rng, n_bags, n_features=6, shift=0.0):
    """Bags with effects of their own."""
    sizes = rng.integers(3, 12, size=n_bags)
    bag = np.repeat(np.arange(n_bags), sizes)
    own = 0.5 * rng.normal(size=(n_bags, n_features))
    rows = rng.normal(size=(len(bag), n_features)) + own[bag] + shift
    return Bags(rows, np.concatenate([[0], np.cumsum(sizes)]))


def p_values(shift=0.0, n_draws=60, **how):
    found = []
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        reference = training_reference(drawn(rng, 30))
        new = drawn(rng, 20, shift=shift * rng.normal(size=6))
        found.append(like_training(reference, new))
    return np.array(found)


def test_p_values_of_exchangeable_bags_are_uniform():
    found = p_values()
    levels = np.arange(1, 31) / 31
    below = np.array([(found <= level + 1e-9).mean(axis=1) for level in levels])
    error = below.std(axis=1, ddof=1) / np.sqrt(len(found))
    assert np.all(np.abs(below.mean(axis=1) - levels) < 3.5 * error)


def test_bags_of_a_shifted_site_are_found():
    assert (p_values(1.0) <= 0.05).mean() > 0.4
    assert (p_values(2.0) <= 0.05).mean() > 0.85


def test_the_p_value_by_definition():
    """Ranks of distances between means of waves, one bag at a time."""
    rng = np.random.default_rng(0)
    train, new = drawn(rng, 12), drawn(rng, 3, shift=0.5)
    groups = np.arange(12) // 2
    reference = training_reference(train, groups=groups)
    frequencies = np.random.RandomState(0).standard_normal((6, 64)) / reference["width"]
    rows = train.instances
    mean, scale = rows.mean(axis=0), rows.std(axis=0)

    def wave(bag):
        angles = ((bag - mean) / scale) @ frequencies
        return np.hstack([np.cos(angles), np.sin(angles)]).mean(axis=0) / 8

    waves = np.array([wave(bag) for bag in train])
    own = [np.linalg.norm(waves[i] - waves[groups != groups[i]].mean(axis=0)) for i in range(12)]
    expected = [
        (1 + sum(d >= np.linalg.norm(wave(bag) - waves.mean(axis=0)) for d in own)) / 13
        for bag in new
    ]
    np.testing.assert_allclose(like_training(reference, new), expected)


def test_order_copies_and_sizes_do_not_matter():
    rng = np.random.default_rng(0)
    train, new = drawn(rng, 30), drawn(rng, 5)
    order = rng.permutation(30)
    before = like_training(training_reference(train), new)
    np.testing.assert_allclose(like_training(training_reference(train[order]), new), before)
    doubled = Bags.from_arrays([np.repeat(bag, 2, axis=0) for bag in new])
    np.testing.assert_array_equal(like_training(training_reference(train), doubled), before)
    big = Bags.from_arrays([np.tile(bag, (100, 1)) for bag in new])  # some of the rows are used
    assert like_training(training_reference(train), big).shape == (5,)


@each("values", [[np.nan, np.inf], [0.0, 0.0]])
def test_missing_and_constant_values(values):
    rng = np.random.default_rng(0)
    rows = drawn(rng, 30).instances.copy()
    bags = Bags(rows, drawn(np.random.default_rng(0), 30).offsets)
    rows[:2, 0] = values
    rows[:, 1] = 1.0
    found = like_training(training_reference(bags.with_instances(rows)), bags[:3])
    assert np.all((found > 0) & (found <= 1))


def test_predictions_and_model_files_have_it(tmp_path):
    pytest.importorskip("skops")
    rng = np.random.default_rng(0)
    train, y = drawn(rng, 40), np.arange(40) % 2
    model = SetKernelSVM().fit(train, y)
    assert "like_training" not in Predictions(model, train).bag_table()
    size = _saved(model, tmp_path / "plain.skops")
    assert remember_training(model, train) is model
    assert _saved(model, tmp_path / "model.skops") - size < 10_000
    again, _ = load_model(tmp_path / "model.skops")
    new = drawn(rng, 5, shift=4.0)
    table = Predictions(again, new).bag_table()
    np.testing.assert_array_equal(table["like_training"], np.full(5, 1 / 41))
    pytest.importorskip("jinja2")
    page = Report(again, new).to_html()
    assert "unlike the training bags" in page
    with pytest.raises(InputError, match="have 5 features, and the training bags had 6"):
        like_training(model.likeness_, new.with_instances(new.instances[:, :5]))


def _saved(model, path):
    save_model(model, path)
    return path.stat().st_size
