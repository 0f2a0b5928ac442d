import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.annotation import M3MIML, ORedLogisticRegression
from bagwise.base._pipelines import instance_model
from bagwise.classification import CitationKNN, SetKernelSVM, SingleInstanceClassifier
from bagwise.embedding import BagDissimilarity
from bagwise.exceptions import InputError
from bagwise.predictions import Predictions
from bagwise.preprocessing import InstanceTransformer


def drawn(rng, n_classes=2, n_bags=24):
    """Bags whose first instance tells the class."""
    y = np.arange(n_bags) % n_classes
    arrays = [rng.normal(size=(rng.integers(1, 5), 3)) for _ in y]
    for array, label in zip(arrays, y, strict=True):
        array[0, label] += 4
    return Bags.from_arrays(arrays, ids=[f"s{i}" for i in range(n_bags)]), y


def test_bags_of_a_pipeline_are_told_as_the_pipeline_tells_them(rng):
    bags, y = drawn(rng)
    labels = np.array(["no", "yes"])[y]
    model = make_pipeline(InstanceTransformer(StandardScaler()), SingleInstanceClassifier())
    model.fit(bags, labels)
    table = Predictions(model, bags).bag_table()
    assert list(table) == ["bag", "predicted", "score", "key_instance", "key_score"]
    assert table["bag"].tolist() == bags.ids.tolist()
    np.testing.assert_array_equal(table["predicted"], model.predict(bags))
    np.testing.assert_array_equal(table["score"], model.decision_function(bags))
    # Max pooling: the key instance has the score of the bag.
    np.testing.assert_array_equal(table["key_score"], table["score"])
    seen = bags.split(model[-1].score_instances(model[:-1].transform(bags)))
    assert table["key_instance"].tolist() == [int(scores.argmax()) for scores in seen]


def test_three_classes_have_a_column_each(rng):
    bags, y = drawn(rng, n_classes=3)
    model = SetKernelSVM().fit(bags, y)
    table, scores = Predictions(model, bags).bag_table(), model.decision_function(bags)
    np.testing.assert_array_equal(np.column_stack([table[f"score_{k}"] for k in range(3)]), scores)
    keys = bags.offsets[:-1] + table["key_instance"]
    expected = model.score_instances(bags)[keys, scores.argmax(axis=1)]
    np.testing.assert_array_equal(table["key_score"], expected)


def test_names_stand_for_classes(rng):
    bags, y = drawn(rng)
    model = CitationKNN().fit(bags, y)
    table = Predictions(model, bags, classes=["healthy", "ill"]).bag_table()
    assert table["predicted"].tolist() == [["healthy", "ill"][k] for k in model.predict(bags)]
    assert {"probability_healthy", "probability_ill"} <= set(table)
    with pytest.raises(InputError, match="2 classes"):
        Predictions(model, bags, classes=["a", "b", "c"]).bag_table()


def test_label_sets_are_joined_and_each_label_has_its_key(rng):
    bags, y = drawn(rng, n_classes=3)
    sets = [{"abc"[k]} | ({"c"} if i % 2 else set()) for i, k in enumerate(y)]
    model = CitationKNN(n_citers=0, n_references=1).fit(bags, sets)
    table = Predictions(model, bags).bag_table(separator="|")
    # Each training bag is its own nearest neighbour.
    assert table["predicted"].tolist() == ["|".join(sorted(labels)) for labels in sets]
    for i, labels in enumerate(sets):
        keys = [f"{c}:{model.key_instances(bags[[i]], label=c)[0]}" for c in sorted(labels)]
        assert table["key_instances"][i] == "|".join(keys)


def test_every_bag_has_one_key_among_its_instances(rng):
    bags, y = drawn(rng)
    model = make_pipeline(InstanceTransformer(StandardScaler()), SetKernelSVM()).fit(bags, y)
    table = Predictions(model, bags).instance_table()
    assert table["row"].tolist() == [j for size in bags.sizes for j in range(size)]
    assert table["bag"].tolist() == bags.ids[bags.bag_index].tolist()
    keys = Predictions(model, bags).bag_table()["key_instance"]
    assert [int(np.flatnonzero(part)[0]) for part in bags.split(table["key"])] == keys.tolist()
    assert table["key"].sum() == len(bags)
    np.testing.assert_array_equal(table["predicted"], (table["score"] > 0).astype(int))


def test_instances_of_label_sets_name_the_keys_of_all_predicted_labels(rng):
    bags, y = drawn(rng, n_classes=3)
    sets = [{"abc"[k]} | ({"c"} if i % 2 else set()) for i, k in enumerate(y)]
    model = M3MIML().fit(bags, sets)
    whole = Predictions(model, bags).bag_table()["key_instances"]
    for text, keys in zip(
        whole, bags.split(Predictions(model, bags).instance_table()["key"]), strict=True
    ):
        rows = {int(part.partition(":")[2]) for part in text.split(";") if part}
        assert rows == set(np.flatnonzero(keys))


def test_the_background_has_a_probability(rng):
    bags, y = drawn(rng, n_classes=3)
    sets = np.eye(3, dtype=int)[y]
    model = ORedLogisticRegression(background=True).fit(bags, sets)
    named = Predictions(model, bags, classes=["a", "b", "c"]).instance_table()
    shares = np.stack([named[f"probability_{name}"] for name in ("a", "b", "c", "background")])
    np.testing.assert_allclose(shares.sum(axis=0), 1)
    given = np.array(["a", "b", "c", "background"])[shares.argmax(axis=0)]
    np.testing.assert_array_equal(named["predicted"], given)
    plain = Predictions(model, bags).instance_table()
    assert "probability_-1" in plain
    for limit in (0.3, 1.0):
        strict = Predictions(model, bags).instance_table(background_above=limit)["predicted"]
        named = model.predict_instances(bags, background_above=limit)
        np.testing.assert_array_equal(strict, named)
    plain = ORedLogisticRegression().fit(bags, sets)
    with pytest.raises(InputError, match="needs a model with background"):
        Predictions(plain, bags).instance_table(background_above=0.5)


@pytest.mark.parametrize("limit", [None, 0.2, 0.9])
def test_an_annotation_is_as_certain_as_what_it_names(rng, limit):
    bags, y = drawn(rng, n_classes=3)
    sets = [{"abc"[k]} | ({"c"} if n > 1 else set()) for k, n in zip(y, bags.sizes, strict=True)]
    model = ORedLogisticRegression(background=True).fit(bags, sets)
    proba = model.annotate_proba(bags, sets)
    table = Predictions(model, bags, sets).annotation_table(
        background_above=limit, probabilities=True
    )
    names = [*"abc", "background"]
    for i, row in enumerate(proba):
        best = max(range(4 if limit is None else 3), key=lambda k: row[k])
        if limit is not None and row[3] > limit:
            best = 3
        assert table["label"][i] == names[best]
        assert table["probability"][i] == row[best]
        rest = {k: row[k] for k in range(4) if k != best}
        assert table["runner_up_probability"][i] == max(rest.values())
        assert rest[names.index(table["runner_up"][i])] == max(rest.values())
        assert [table[f"probability_{name}"][i] for name in names] == row.tolist()


def test_key_instances_of_a_label(rng):
    bags, y = drawn(rng)
    model = SingleInstanceClassifier().fit(bags, y)
    table = Predictions(model, bags).key_instance_table(label=0)
    lowest = [int(part.argmin()) for part in bags.split(model.score_instances(bags))]
    assert table["key_instance"].tolist() == lowest
    assert set(table["label"].tolist()) == {0}
    assert table["n_instances"].tolist() == bags.sizes.tolist()


def test_an_embedding_leaves_nothing_to_say_about_instances(rng):
    bags, y = drawn(rng)
    # The last step knows bags of one instance, but those are no longer the user's instances.
    model = make_pipeline(BagDissimilarity(), SingleInstanceClassifier()).fit(bags, y)
    assert instance_model(model, bags)[1] is None
    assert "key_instance" not in Predictions(model, bags).bag_table()
    with pytest.raises(InputError, match="no instance scores"):
        Predictions(model, bags).instance_table()
    with pytest.raises(InputError, match="no key instances"):
        Predictions(model, bags).key_instance_table()


def test_searches_are_opened(rng):
    bags, y = drawn(rng)
    pipeline = make_pipeline(InstanceTransformer(StandardScaler()), SetKernelSVM())
    search = GridSearchCV(pipeline, {"setkernelsvm__C": [1, 10]}, cv=2).fit(bags, y)
    table = Predictions(search, bags).bag_table()
    np.testing.assert_array_equal(table["score"], search.decision_function(bags))
    np.testing.assert_array_equal(
        table["key_instance"], Predictions(search.best_estimator_, bags).bag_table()["key_instance"]
    )
