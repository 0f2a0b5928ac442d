import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise.embedding import BagDissimilarity
from bagwise.pairwise import bag_distances
from cases import each
from checks import example


@each("kind", ["minmin", "maxmin", "meanmin", "hausdorff"])
def test_columns_are_distances_to_the_training_bags(kind):
    train, test = example()[0], example(seed=1)[0]
    model = BagDissimilarity(kind=kind).fit(train)
    np.testing.assert_array_equal(model.transform(test), bag_distances(test, train, kind=kind))
    assert len(model.get_feature_names_out()) == len(train)


def test_prototypes_are_drawn_with_the_seed():
    bags, _ = example()
    first = BagDissimilarity(n_prototypes=5, random_state=3).fit(bags)
    again = BagDissimilarity(n_prototypes=5, random_state=3).fit(bags)
    assert first.prototypes_.ids.tolist() == again.prototypes_.ids.tolist()
    assert len(set(first.prototypes_.ids)) == 5
    assert first.transform(bags).shape == (len(bags), 5)
    assert len(BagDissimilarity(n_prototypes=500).fit(bags).prototypes_) == len(bags)


def test_the_exit_to_any_scikit_learn_model():
    bags, y = example(40)
    model = make_pipeline(BagDissimilarity(), StandardScaler(), SVC()).fit(bags, y)
    assert model.score(bags, y) > 0.9
