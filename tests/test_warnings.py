import pytest
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise.auto import AutoBagClassifier
from bagwise.cluster import KernelKMeans
from bagwise.datasets import make_bags


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: model,
        lambda model: make_pipeline(StandardScaler(), model),
        lambda model: GridSearchCV(model, {"n_init": [1, 2]}, cv=2, scoring=lambda *_: 0.0),
    ],
    ids=["alone", "in a pipeline", "in a search"],
)
def test_warnings_name_the_line_of_the_user(rng, wrap):
    model = wrap(KernelKMeans(3, max_iter=1, n_init=1, random_state=0))
    with pytest.warns(ConvergenceWarning, match="max_iter=1") as heard:
        model.fit(rng.normal(size=(60, 2)))
    assert {warning.filename for warning in heard} == {__file__}


def test_a_column_of_labels_warns_once():
    data = make_bags(n_bags=20, random_state=0)
    with pytest.warns(DataConversionWarning, match="column-vector y") as heard:
        AutoBagClassifier(candidates=["nsk"], cv=2).fit(data.bags, data.y[:, None])
    assert [warning.filename for warning in heard] == [__file__]
