import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from bagwise import Bags
from bagwise.classification import CitationKNN
from bagwise.pairwise import bag_distances
from cases import each
from checks import example


def votes_by_hand(train, label_sets, bag, n_references, n_citers, kind):
    """The rule in words: nearest training bags, and those that have the bag among their nearest."""
    d = lambda a, b: bag_distances([a], [b], kind=kind)[0, 0]  # noqa: E731
    to_train = [d(bag, other) for other in train]
    references = [i for i in range(len(train)) if to_train[i] <= sorted(to_train)[n_references - 1]]
    citers = []
    for i, other in enumerate(train):
        nearer = sum(d(other, third) < d(other, bag) for j, third in enumerate(train) if j != i)
        if nearer < n_citers:
            citers.append(i)
    return label_sets[references + citers]


@each("kind", ["minmin", "meanmin", "hausdorff"])
def test_votes_equal_the_rule_by_loops(kind):
    bags, y = example(12)
    test, _ = example(6, seed=1)
    model = CitationKNN(2, 3, kind=kind).fit(bags, y)
    indicator = (y[:, None] == model.classes_).astype(int)
    for bag, found in zip(test, model.predict_proba(test), strict=True):
        votes = votes_by_hand(bags, indicator, bag, 2, 3, kind)
        np.testing.assert_allclose(found, votes.mean(axis=0))


def test_label_sets_vote_label_by_label():
    bags, _ = example(12)
    sets = np.random.default_rng(0).integers(0, 2, size=(12, 4))
    test, _ = example(6, seed=1)
    model = CitationKNN().fit(bags, sets)
    probabilities, predicted = model.predict_proba(test), model.predict(test)
    for bag, found, labels in zip(test, probabilities, predicted, strict=True):
        votes = votes_by_hand(bags, sets, bag, 2, 4, "minmin")
        np.testing.assert_allclose(found, (votes.sum(axis=0) + 1) / (len(votes) + 2))
        np.testing.assert_array_equal(labels, votes.mean(axis=0) > 0.5)


@each("n_classes", [2, 3])
@each("metric", ["euclidean", "cityblock"])
def test_singletons_without_citers_equal_nearest_neighbours(rng, n_classes, metric):
    y = np.arange(60) % n_classes
    X = rng.normal(size=(60, 3)) + y[:, None]
    new = rng.normal(size=(30, 3))
    cousin = KNeighborsClassifier(5, metric=metric).fit(X, y)
    model = CitationKNN(5, n_citers=0, metric=metric).fit(X, y)
    np.testing.assert_array_equal(model.predict(new), cousin.predict(new))
    np.testing.assert_allclose(model.predict_proba(new), cousin.predict_proba(new))


def test_the_key_instance_gets_most_votes_as_a_bag_of_its_own():
    bags, y = example(16)
    test, _ = example(8, seed=1)
    model = CitationKNN().fit(bags, y)
    carriers = bags[y == "q"]
    for bag, row in zip(test, model.key_instances(test, label="q"), strict=True):
        alone = Bags(bag, np.arange(len(bag) + 1))
        votes = model.predict_proba(alone)[:, 1]
        nearest = bag_distances(alone, carriers).min(axis=1)
        assert row == min(range(len(bag)), key=lambda j: (-votes[j], nearest[j]))
    np.testing.assert_array_equal(
        model.key_instances(test),
        [model.key_instances(test, label=c)[i] for i, c in enumerate(model.predict(test))],
    )


def test_equal_distances_vote_whatever_their_order():
    train = [[[1.0]], [[-1.0]], [[5.0]]]
    for order in ([0, 1, 2], [1, 0, 2]):
        model = CitationKNN(1, n_citers=0).fit(
            [train[i] for i in order], np.array([0, 1, 1])[order]
        )
        np.testing.assert_allclose(model.predict_proba([[[0.0]]]), [[0.5, 0.5]])
