"""Leaks between training and test bags: what is reported, and what is not."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from bagwise import Bags
from bagwise.classification import SingleInstanceClassifier
from bagwise.datasets import load_musk1, make_bags, make_digit_bags
from bagwise.evaluate import evaluate, find_leaks
from bagwise.exceptions import DataWarning
from bagwise.validation.leaks import _interval_error
from cases import each


def example(n_bags=40, **options):
    data = make_bags(n_bags=n_bags, n_features=5, random_state=1, **options)
    ids = [f"b{i}" for i in range(n_bags)]
    return Bags(data.bags.instances, data.bags.offsets, ids), data.y


def kinds(*given, **options):
    return [leak.kind for leak in find_leaks(*given, **options)]


def test_clean_bags_have_no_leaks():
    bags, y = example()
    assert find_leaks(bags, y) == []
    assert find_leaks(bags, y, folds=StratifiedKFold(4).split(y, y)) == []
    assert find_leaks(bags, y + np.random.default_rng(0).normal(size=40)) == []
    assert find_leaks(bags[:1]) == []
    for data in (load_musk1(), make_digit_bags(random_state=0)):
        assert find_leaks(data.bags, data.y) == []


def test_all_samples_in_training_and_test():
    """MultiMIL, issue 75: the model had been trained on the samples that it was tested on."""
    bags, y = example()
    folds = [(np.arange(40), np.arange(20, 40))]
    (leak,) = find_leaks(bags, y, folds=folds)
    assert leak.kind == "same bag"
    assert leak.bags == [f"b{i}" for i in range(20, 40)]
    assert "20 bags are in the training and the test part of a fold: bag 20 ('b20')" in str(leak)
    with pytest.warns(DataWarning, match="20 bags are in the training and the test part"):
        evaluate(SingleInstanceClassifier(), bags, y, cv=folds)


def test_groups_of_patient_and_label_divide_patients():
    """MIL_BASELINE, issue 46: 114 groups of patient and label were split, not the patients."""
    bags, y = example(160)
    rng = np.random.default_rng(0)
    patient = np.array([f"case{p:02d}" for p in rng.integers(70, size=160)])
    both = np.array([f"{p}_{k}" for p, k in zip(patient, y, strict=True)])
    bags = bags.with_columns({"patient": patient, "pair": both}, groups="pair")
    folds = list(StratifiedGroupKFold(5, shuffle=True, random_state=0).split(y, y, both))
    divided = {p for p in patient for a, b in folds if p in patient[a] and p in patient[b]}
    (leak,) = find_leaks(bags, y, folds=folds)
    assert leak.kind == "same group"
    assert f"{len(divided)} values of the column 'patient' are on both sides" in str(leak)
    assert {*patient[[int(name[1:]) for name in leak.bags]]} == divided
    # Without folds, the groups are compared with the column; with the right groups, all is well.
    assert kinds(bags, y) == ["same group"]
    assert kinds(bags.with_columns({"patient": patient, "pair": both}, groups="patient"), y) == []
    with pytest.warns(DataWarning, match="'patient' are on both sides of a fold"):
        evaluate(SingleInstanceClassifier(), bags, y, cv=5)


def test_folds_that_divide_the_groups():
    bags, y = example()
    bags = bags.with_columns(groups=np.arange(40) // 2)
    assert kinds(bags, y) == []
    (leak,) = find_leaks(bags, y, folds=[(np.arange(21), np.arange(21, 40))])
    assert leak.bags == ["b20", "b21"]


def test_patients_in_the_ids():
    bags, _ = example()
    ids = [f"TCGA-{i // 2:02d}-s{i % 2}" for i in range(40)]
    named = Bags(bags.instances, bags.offsets, ids)
    assert kinds(named) == ["same group"]
    assert kinds(named.with_columns(groups=np.arange(40) // 2)) == []
    for names in ([f"slide_{i}" for i in range(40)], [f"{'ab'[i % 2]}-{i}" for i in range(40)]):
        assert kinds(Bags(bags.instances, bags.offsets, names)) == []


@each("noise", [0.0, 1e-6, 1e-3])
@each("share", [1.0, 0.5])
@each("whole", [False, True])
def test_copies_are_found(noise, share, whole):
    bags, _ = example(bag_size=(6, 9))
    rows = np.round(20 * bags.instances) if whole else bags.instances
    bags, rng = bags.with_instances(rows), np.random.default_rng(0)
    taken = rng.permutation(bags[3])[: int(share * len(bags[3]))]
    taken = taken + noise * rng.normal(size=taken.shape) * (not whole)
    more = Bags.from_arrays([*bags, np.concatenate([taken, bags[5] + 100.0])], [*bags.ids, "copy"])
    (leak,) = find_leaks(more)
    assert leak.kind == "copies"
    assert leak.bags == ["b3", "copy"]
    assert f"{2 * len(taken)} of {more.n_instances} instances" in str(leak)
    together = [*range(40), 3]
    assert kinds(more.with_columns(groups=together)) == []


def test_values_on_a_grid_are_no_copies():
    rng = np.random.default_rng(0)
    assert kinds(Bags(rng.integers(4, size=(600, 6)).astype(float), np.arange(0, 601, 6))) == []
    assert kinds(Bags(rng.integers(2, size=(600, 3)).astype(float), np.arange(0, 601, 6))) == []


def test_large_sets_are_searched_in_a_slab():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60_000, 40))
    rows[:600] = rows[30_000:30_600][::-1]
    (leak,) = find_leaks(Bags(rows, np.arange(0, 60_001, 600)))
    assert leak.bags == [0, 50]


def test_the_label_in_a_column():
    bags, y = example()
    texts = np.array(["no", "yes"])[y]
    rng = np.random.default_rng(0)
    column = {"age": rng.normal(size=40), "grade": np.array(["low", "high"])[y]}
    assert kinds(bags.with_columns(column), texts) == ["label in a column"]
    assert kinds(bags.with_columns({"dose": y * 4.0 + rng.random(40)}), y) == ["label in a column"]
    rows = bags.instances.copy()
    rows[:, 2] = 3 * y[bags.bag_index] + rng.random(len(rows))
    (leak,) = find_leaks(bags.with_instances(rows, feature_names=list("uvwxy")), y)
    assert "the feature 'w' alone tells the labels of 40 bags" in str(leak)
    numbers = rng.normal(size=40)
    rows[:, 2] = numbers[bags.bag_index]
    assert kinds(bags.with_instances(rows), numbers) == ["label in a column"]
    three = np.arange(40) % 3  # the class between the others is told by two thresholds
    rows[:, 2] = three[bags.bag_index] + 0.5 * rng.random(len(rows))
    assert kinds(bags.with_instances(rows), three) == ["label in a column"]


def test_error_of_the_best_thresholds_between_classes():
    rng = np.random.default_rng(0)
    for _ in range(50):
        codes = np.append(np.arange(3), rng.integers(3, size=5))
        ranks = np.unique(rng.integers(5, size=8), return_inverse=True)[1]
        order, cuts = rng.permutation(3), range(ranks.max() + 2)
        errors = [
            np.mean([(order[np.digitize(ranks[codes == k], [a, b])] != k).mean() for k in range(3)])
            for a, b in combinations_with_replacement(cuts, 2)
        ]
        assert _interval_error(ranks, codes, order) == pytest.approx(min(errors), abs=1e-12)


def test_labels_that_follow_the_site():
    bags, y = example(80)
    rng = np.random.default_rng(0)
    site = np.where(rng.random(80) < 0.8, y, rng.integers(2, size=80))
    told = bags.with_columns({"site": np.array(["Bonn", "Ulm"])[site]})
    (leak,) = find_leaks(told, y)
    assert leak.kind == "label by site"
    assert "Evaluate with it as groups" in str(leak)
    assert kinds(told.with_columns(told.columns, groups="site"), y) == []
    other = bags.with_columns({"site": np.array(["Bonn", "Ulm"])[rng.integers(2, size=80)]})
    assert kinds(other, y) == []


def test_leaks_do_not_depend_on_the_order_of_the_bags():
    bags, y = example()
    bags = bags[[*range(40), 7, 9]]
    y = np.append(y, y[[7, 9]])
    order = np.random.default_rng(0).permutation(42)
    first, second = find_leaks(bags, y), find_leaks(bags[order], y[order])
    assert [sorted(leak.bags) for leak in first] == [sorted(leak.bags) for leak in second]
