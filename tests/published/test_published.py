"""Each call makes an unfitted scikit-learn estimator of its own class."""

import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from bagwise import published
from estimators import estimator_classes

BAG_CALLS = ("csp", "mimlca", "orlr", "pdmisvm")


@pytest.mark.parametrize("name", published.__all__)
def test_a_call_makes_an_estimator_of_its_own_class(name):
    model = getattr(published, name)()
    assert type(model) not in estimator_classes().values()
    assert not [key for key in vars(model) if key.endswith("_")]
    again = clone(model).set_params(**model.get_params())
    assert again.get_params() == model.get_params()
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(no_such_parameter=1)


@pytest.mark.parametrize("name", published.__all__)
def test_the_parameters_of_a_call_are_those_of_the_estimator(name):
    call = getattr(published, name)
    given = inspect.signature(call).parameters
    assert {"tol", "random_state"} <= given.keys()
    assert len(call().get_params()) == len(given)
    assert call(tol=0).tol == 0


def drawn(seed=0):
    rng = np.random.RandomState(seed)
    y = np.arange(20) % 2
    return [rng.standard_normal((3, 4)) + np.eye(4)[c] * 2 for c in y], y


@pytest.mark.filterwarnings("ignore:.*did not converge")
@pytest.mark.parametrize("name", BAG_CALLS)
def test_a_fit_repeats_survives_pickling_and_leaves_its_input(name):
    bags, y = drawn()
    before = [bag.copy() for bag in bags]
    make = getattr(published, name)
    options = {"K": 2} if name == "csp" else {}
    model = make(**options, random_state=0).fit(bags, y)
    again = pickle.loads(pickle.dumps(clone(model).fit(bags, y)))
    np.testing.assert_array_equal(model.predict_instances(bags), again.predict_instances(bags))
    np.testing.assert_array_equal(bags, before)


@pytest.mark.parametrize("name", published.__all__)
def test_wrong_values_are_refused(name):
    bags, y = drawn()
    with pytest.raises(ValueError, match="tol"):
        getattr(published, name)(tol=-1).fit(bags, y)
