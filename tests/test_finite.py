"""Values outside the numerical range are rejected; fitted values and results are finite."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import MaxAbsScaler

from bagwise import Bags
from bagwise._common import memory
from bagwise._common.memory import require_memory
from bagwise.base import BagEstimator, fit_method
from bagwise.classification import EMDD
from bagwise.exceptions import InputError, NotEnoughMemoryError
from bagwise.preprocessing import InstanceTransformer
from bagwise.validation import check_bags, check_rows, check_sample_weight
from cases import each


def bags_of(values, **options):
    return Bags(np.asarray(values), [0, 2, 3], ids=["a", "b"], **options)


TABLE = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


@each("kind", [np.asarray, np.asfortranarray, sparse.csr_array])
def test_one_value_out_of_range_is_named(kind):
    table = TABLE.copy()
    table[2, 1] = -1e200
    bags = Bags(kind(table), [0, 2, 3], ids=["a", "b"], feature_names=["x", "size"])
    with pytest.raises(InputError, match=r"-1e\+200 .* bag 1 \('b'\), instance 0, feature 1 \('si"):
        check_bags(None, bags, reset=True)
    with pytest.raises(InputError, match=r"-1e\+200 .* row 2, feature 1.*pipeline"):
        check_rows(BagEstimator(), kind(table), reset=True)


def test_all_values_too_large_ask_for_a_scaler_which_then_helps():
    bags = bags_of(TABLE * 1e300)
    with pytest.raises(InputError, match=r"scale the features by InstanceTransformer\(MaxAbsSc"):
        check_bags(None, bags, reset=True)
    scaled = InstanceTransformer(MaxAbsScaler()).fit_transform(bags)
    np.testing.assert_allclose(check_bags(None, scaled, reset=True).instances, TABLE / [5, 6])


def test_small_values_are_refused_in_fit_and_pass_later():
    bags = bags_of(TABLE * 1e-100)
    with pytest.raises(InputError, match=r"6e-100: bag 1 \('b'\), instance 0, feature 1"):
        check_bags(None, bags, reset=True)
    known = BagEstimator()
    check_bags(known, bags_of(TABLE), reset=True)
    assert check_bags(known, bags, reset=False).instances.max() == 6e-100
    assert check_bags(None, bags_of(TABLE * 0), reset=True).n_instances == 3


def test_single_precision_is_widened_in_memory_and_refused_in_a_file(tmp_path):
    large = (TABLE * 1e20).astype(np.float32)
    assert check_bags(None, bags_of(large), reset=True).dtype == np.float64
    far = (TABLE + np.array([0, 1e4])).astype(np.float32)
    assert check_bags(None, bags_of(far), reset=True).dtype == np.float64
    assert check_bags(None, bags_of(TABLE.astype(np.float32)), reset=True).dtype == np.float32
    mapped = np.memmap(tmp_path / "rows", np.float32, "w+", shape=large.shape)
    mapped[:] = large
    with pytest.raises(InputError, match="too large"):
        check_bags(None, Bags(mapped, [0, 2, 3]), reset=True)


@each(
    ("weights", "message"),
    [
        ([1, -1], r"bag 1 \('b'\) is -1"),
        ([np.nan, 1], "NaN"),
        ([np.inf, 1], "infinity"),
        ([1e300, 1], r"bag 0 \('a'\) is 1e\+300"),
        ([0, 0], "(at least one non-zero|all sample_weight)"),  # since scikit-learn 1.9
        ([1e-300, 0], "all sample_weight are below 1e-70"),
        ([1, 2, 3], "sample_weight cannot be used"),
    ],
)
def test_sample_weights(weights, message):
    with pytest.raises(InputError, match=message):
        check_sample_weight(weights, bags_of(TABLE))


class Careless(BagEstimator):
    """Stores a given fitted value and returns a given prediction."""

    def __init__(self, learned=None, answer=0.0, C=1.0):
        self.learned, self.answer, self.C = learned, answer, C

    _may_be_infinite = ("free_",)

    @fit_method
    def fit(self, X, y=None):
        check_bags(self, X, reset=True)
        if isinstance(self.learned, Exception):
            raise self.learned
        self.coef_ = np.array([1.0, 2.0]) if self.learned is None else self.learned
        self.free_ = np.array([np.inf, 1.0])
        return self

    def decision_function(self, X):
        return self._evaluate(X, self._given)

    def _given(self, bags):
        if isinstance(self.answer, Exception):
            raise self.answer
        return np.full(len(bags), self.answer)


Careless._parameter_constraints = {"learned": "no_validation", "answer": "no_validation"}


@each(
    "learned",
    [
        np.array([1.0, np.nan]),
        sparse.csr_array([[np.inf, 0.0]]),
        [np.array([np.nan])],
        np.nan,
        ZeroDivisionError("division by zero"),
        np.linalg.LinAlgError("Singular matrix"),
        ValueError("Input X contains NaN. SVC does not accept missing values"),
    ],
)
def test_what_is_learned_is_finite_or_nothing_is(learned):
    model = Careless(learned, C=1e300)
    with pytest.raises(InputError, match=r"(?s)Careless\(C=1e\+300.* cannot .*[Ss]cale"):
        model.fit(TABLE)
    if isinstance(learned, Exception):
        return
    with pytest.raises(NotFittedError):
        model.decision_function(TABLE)


@each("answer", [np.nan, np.inf, FloatingPointError("overflow")])
def test_answers_are_finite(answer):
    model = Careless(answer=answer).fit(TABLE)
    with pytest.raises(InputError, match=r"Careless.* cannot compute"):
        model.decision_function(TABLE)


def test_required_memory(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 10**9)
    require_memory(9e8, purpose="it", remedy="nothing")
    with pytest.raises(MemoryError, match=r"it needs 2\.0 GB of memory, and 1\.0 GB are available"):
        require_memory(2e9, purpose="it", remedy="nothing")


def test_errors_of_memory_name_the_estimator_and_others_pass():
    with pytest.raises(KeyError):
        Careless(KeyError("a")).fit(TABLE)
    with pytest.raises(NotEnoughMemoryError, match=r"ran out of memory \(18 GB\)"):
        Careless(MemoryError("18 GB")).fit(TABLE)
    assert np.isinf(Careless().fit(TABLE).free_[0])


def test_a_copy_as_float64_that_does_not_fit_is_refused(monkeypatch):
    bags = Bags(np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32), range(0, 41, 4))
    monkeypatch.setattr(memory, "_ALWAYS_GRANTED", 0)
    monkeypatch.setattr(memory, "available_memory", lambda: 500)
    with pytest.raises(NotEnoughMemoryError, match=r"40 instances as float64 .*InstancePCA"):
        EMDD().fit(bags, np.arange(10) % 2)
