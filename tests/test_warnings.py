import pytest
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from bagwise.auto import AutoBagClassifier
from bagwise.classification import PrimalDualMISVM
from bagwise.datasets import make_bags
from bagwise.preprocessing import InstanceTransformer
from cases import each


@each(
    "wrap",
    [
        lambda model: model,
        lambda model: make_pipeline(InstanceTransformer(), model),
        lambda model: GridSearchCV(model, {"tol": [1e-9, 1e-8]}, cv=2),
    ],
)
def test_warnings_name_the_line_of_the_user(wrap):
    model = wrap(PrimalDualMISVM(max_iter=1, tol=1e-9))
    data = make_bags(n_bags=40, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter=1") as heard:
        model.fit(data.bags, data.y)
    assert {warning.filename for warning in heard} == {__file__}


@pytest.mark.filterwarnings("ignore:AutoBagClassifier learned nothing")
def test_a_column_of_labels_warns_once():
    data = make_bags(n_bags=20, random_state=0)
    with pytest.warns(DataConversionWarning, match="column-vector y") as heard:
        AutoBagClassifier(candidates=["nsk"], cv=2).fit(data.bags, data.y[:, None])
    assert [warning.filename for warning in heard] == [__file__]
