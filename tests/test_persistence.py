"""Saved models are restored unchanged, also in another process."""

import json
import pickle
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest
import skops.io
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import bagwise
from bagwise import Bags
from bagwise.classification import CitationKNN, MILBoost, SetKernelSVM, SingleInstanceClassifier
from bagwise.embedding import BagDissimilarity, BagStatistics, RandomFourierEmbedding
from bagwise.exceptions import (
    DataNotFoundError,
    InputError,
    ModelFileError,
    OutputExistsError,
)
from bagwise.persistence import _not_trusted, fingerprints, load_model, save_model
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline
from cases import each
from checks import example

PREDICT = """
import pickle, sys
import numpy as np
from bagwise.persistence import load_model

folder = sys.argv[1]
with open(f"{folder}/bags.pickle", "rb") as file:
    bags = pickle.load(file)
for name in sys.argv[2:]:
    from_skops, metadata = load_model(f"{folder}/{name}.skops")
    assert metadata["name"] == name, metadata
    with open(f"{folder}/{name}.pickle", "rb") as file:
        from_pickle = pickle.load(file)
    for kind, model in {"skops": from_skops, "pickle": from_pickle}.items():
        y, f = model.predict(bags), model.decision_function(bags)
        np.savez(f"{folder}/{name}-{kind}.npz", y=y, f=f)
"""


class Scaler(TransformerMixin, BaseEstimator):
    """A transformer that is not in the list of trusted types."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return X


class Nearest(ClassifierMixin, BaseEstimator):
    """A model that stores its training bags."""

    def fit(self, X, y):
        self.bags_ = X
        return self


@pytest.fixture
def labelled(rng):
    X = rng.normal(size=(90, 4))
    bags = Bags(
        X, np.arange(0, 91, 3), ids=[f"s{i}" for i in range(30)], feature_names=list("abcd")
    )
    y = np.where(X[:, 0].reshape(30, 3).max(axis=1) > 0.8, "pos", "neg")
    return bags, y


@pytest.fixture
def model():
    return LinearSVC().fit([[0.0], [1.0], [2.0]], [0, 1, 1])


def models():
    scaled = InstanceTransformer(StandardScaler(with_mean=False))
    return {
        "sil": SingleInstanceClassifier(),
        "sil_svc": SingleInstanceClassifier(SVC()),
        "set_kernel": SetKernelSVM(),
        "citation": CitationKNN(),
        "pipeline": make_pipeline(scaled, SetKernelSVM(kernel="linear")),
        "embedding": make_pipeline(BagDissimilarity(), LogisticRegression()),
        "statistics": make_pipeline(BagStatistics(("mean", 0.9)), LogisticRegression()),
        "fourier": make_pipeline(RandomFourierEmbedding(random_state=0), LogisticRegression()),
        "search": GridSearchCV(SetKernelSVM(), {"C": [1.0, 10.0]}, cv=2),
    }


@pytest.mark.parametrize("storage", ["dense", pytest.param("sparse", marks=pytest.mark.slow)])
def test_predictions_are_equal_in_another_process(tmp_path, labelled, storage):
    bags, y = labelled
    if storage == "sparse":
        bags = Bags(sparse.csr_array(bags.instances), bags.offsets, bags.ids)
    (tmp_path / "bags.pickle").write_bytes(pickle.dumps(bags))
    fitted = {name: model.fit(bags, y) for name, model in models().items()}
    for name, model in fitted.items():
        save_model(model, tmp_path / f"{name}.skops", metadata={"name": name})
        (tmp_path / f"{name}.pickle").write_bytes(pickle.dumps(model))
    command = [sys.executable, "-c", PREDICT, str(tmp_path), *fitted]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name, model in fitted.items():
        for kind in ("skops", "pickle"):
            with np.load(tmp_path / f"{name}-{kind}.npz") as there:
                labels, scores = there["y"], there["f"]
            np.testing.assert_array_equal(labels, model.predict(bags), err_msg=name)
            np.testing.assert_array_equal(scores, model.decision_function(bags), err_msg=name)


def test_a_calibrated_model_keeps_its_probabilities(tmp_path, labelled):
    bags, y = labelled
    model = CalibratedClassifierCV(SetKernelSVM(), cv=2).fit(bags, y)
    save_model(model, tmp_path / "model.skops")
    again, _ = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict_proba(bags), model.predict_proba(bags))


@each("storage", ["dense", "csr_array", "csr_matrix"])
@each("ids", [None, ["a", "b"], [10, 20], ["a", 1]])
def test_bags_inside_a_model(tmp_path, rng, storage, ids):
    X = rng.normal(size=(5, 3))
    if storage != "dense":
        X = getattr(sparse, storage)(X)
    bags = Bags(X, [0, 2, 5], ids, feature_names=["a", "b", "c"])
    own = [f"{__name__}.Nearest"]
    save_model(Nearest().fit(bags, None), tmp_path / "model.skops", trusted=own, force=True)
    model, _ = load_model(tmp_path / "model.skops", trusted=own)
    again = model.bags_
    assert type(again.instances) is type(bags.instances)
    difference = again.instances - X
    assert np.all((difference.toarray() if sparse.issparse(difference) else difference) == 0)
    assert again.offsets.tolist() == [0, 2, 5]
    assert (again.ids is None) if ids is None else (again.ids.tolist() == ids)
    assert again.feature_names == ["a", "b", "c"]
    values = again.instances.data if sparse.issparse(again.instances) else again.instances
    assert not values.flags.writeable


@each(
    ("name", "expected"),
    [
        ("bagwise.bags.Bags", True),
        ("bagwise.classification._neighbors.CitationKNN", True),
        ("bagwise.evaluate._baselines.OnePerLabel", True),
        ("bagwise.persistence.load_model", False),
        ("bagwise.persistence.BaseEstimator", False),
        ("bagwise.cli.main", False),
        ("bagwise.nothing.Here", False),
        ("os.system", False),
    ],
)
def test_only_bags_and_our_estimators_are_trusted(name, expected):
    assert (_not_trusted([name], ()) == []) is expected


def test_metadata_and_versions(tmp_path, model):
    path = tmp_path / "model.skops"
    told = {"bag": "slide", "features": ["a", "b"], "scale": True, "n": 3, "none": None}
    save_model(model, path, metadata=told)
    _, metadata = load_model(path)
    assert metadata.pop("bagwise_version") == bagwise.__version__
    assert metadata.pop("sklearn_version").startswith("1.")
    assert metadata == told


@each("metadata", [{"a": (1, 2)}, {1: "a"}, {"a": np.float64}, {"a": float("nan")}])
def test_metadata_that_would_change_is_refused(tmp_path, model, metadata):
    with pytest.raises(InputError, match="metadata"):
        save_model(model, tmp_path / "model.skops", metadata=metadata)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_unasked(tmp_path, model):
    path = tmp_path / "model.skops"
    save_model(model, path, metadata={"n": 1})
    with pytest.raises(OutputExistsError, match="force=True"):
        save_model(model, path, metadata={"n": 2})
    assert load_model(path)[1]["n"] == 1
    save_model(model, path, metadata={"n": 2}, force=True)
    assert load_model(path)[1]["n"] == 2
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_model_is_not_saved(tmp_path):
    with pytest.raises(InputError, match="expected an estimator"):
        save_model({"a": 1}, tmp_path / "model.skops")
    unsavable = SVC()
    unsavable.rows_ = (row for row in [1, 2])
    with pytest.raises(ModelFileError, match="SVC cannot be saved"):
        save_model(unsavable, tmp_path / "model.skops")
    assert list(tmp_path.iterdir()) == []


def test_types_that_are_not_trusted_are_named(tmp_path):
    path = tmp_path / "model.skops"
    model = Scaler().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ModelFileError, match=r"load_model would refuse the file: .*Scaler"):
        save_model(model, path)
    assert not path.exists()
    skops.io.dump(model, path)
    names = skops.io.get_untrusted_types(file=path)
    save_model(model, path, trusted=names, force=True)
    with pytest.raises(ModelFileError, match=r"not trusted: .*Scaler.*trusted="):
        load_model(path)
    again, _ = load_model(path, trusted=names)
    assert type(again) is Scaler


@pytest.mark.parametrize("keep_empty", [True, False])
def test_an_imputer_comes_back(tmp_path, rng, keep_empty):
    X = rng.normal(size=(12, 4))
    X[::3, 1], X[:, 3] = np.nan, np.nan
    bags, y = Bags(X, [0, 3, 6, 9, 12]), [0, 1, 0, 1]
    imputer = SimpleImputer(keep_empty_features=keep_empty, add_indicator=keep_empty)
    steps = make_pipeline(imputer, StandardScaler())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a feature without any value
        model = make_bag_pipeline(InstanceTransformer(steps), CitationKNN()).fit(bags, y)
        save_model(model, tmp_path / "model.skops")
        again, _ = load_model(tmp_path / "model.skops")
        np.testing.assert_array_equal(again.decision_function(bags), model.decision_function(bags))


@each(
    ("notes", "message"),
    [
        ({"bagwise_version": "99.1.0"}, r"was written by bagwise .* fit the model again"),
        ({"bagwise_version": "0.1.0"}, r"was written by bagwise .* fit the model again"),
        ({"format": 1}, r"was written by bagwise .* fit the model again"),
        (b"[]", "damaged"),
        (b"{", "damaged"),
        (b"\xff", "damaged"),
    ],
)
def test_notes_of_other_versions_and_damaged_ones(tmp_path, model, notes, message):
    path = tmp_path / "model.skops"
    save_model(model, path, force=True)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if isinstance(notes, dict):
        notes = json.dumps(json.loads(members["bagwise.json"]) | notes).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (members | {"bagwise.json": notes}).items():
            archive.writestr(name, content)
    with pytest.raises(ModelFileError, match=message):
        load_model(path)


def test_files_that_are_no_models(tmp_path, model):
    path = tmp_path / "model.skops"
    with pytest.raises(DataNotFoundError, match=r"model\.skops"):
        load_model(path)
    with pytest.raises(DataNotFoundError):
        load_model(tmp_path)
    for content in (b"", b"not a zip", pickle.dumps(model)):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match="damaged"):
            load_model(path)
    skops.io.dump(model, path)
    with pytest.raises(ModelFileError, match="not written by bagwise"):
        load_model(path)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(place=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255), cut=st.booleans())
def test_damaged_files(tmp_path_factory, place, value, cut):
    folder = tmp_path_factory.mktemp("damage")
    path = folder / "model.skops"
    model = LinearSVC().fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    save_model(model, path)
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] = value
    path.write_bytes(content[: int(place * len(content))] if cut else content)
    try:
        again, _ = load_model(path)
    except ModelFileError:
        return
    assert again.predict([[3.0]]).tolist() == [1]


def test_functions_without_a_name_are_refused_when_saved(tmp_path):
    bags, y = example()
    model = SetKernelSVM(kernel=lambda a, b: float(a @ b)).fit(bags, y)
    with pytest.raises(ModelFileError, match=r"lambda.*defined in a module"):
        save_model(model, tmp_path / "model.skops")
    assert list(tmp_path.iterdir()) == []


def test_fingerprints_recognise_a_bag_by_its_values():
    one, other, same = fingerprints(Bags(np.array([[1.0], [2.0], [1.0]]), [0, 1, 2, 3]))
    assert one == same != other


@each("feature", [-1, 4])
def test_compiled_trees_check_their_features(labelled, feature):
    bags, y = labelled
    model = MILBoost(3).fit(bags, y)
    model.features_[0][0, 0] = feature
    with pytest.raises(InputError, match="out of range"):
        model.predict(bags)


@each(
    ("field", "value"),
    [
        ("left_child", 0),
        ("left_child", -3),
        ("right_child", 10**6),
        ("feature", 4),
        ("feature", -1),
    ],
)
def test_trees_are_checked(tmp_path, labelled, field, value):
    bags, y = labelled
    model = make_pipeline(BagStatistics(("mean",)), ExtraTreesClassifier(5, random_state=0))
    save_model(model.fit(bags, y), tmp_path / "model.skops", force=True)
    again, _ = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict_proba(bags), model.predict_proba(bags))
    tree = model[-1].estimators_[2].tree_
    state = tree.__getstate__()
    state["nodes"][field][0] = value
    tree.__setstate__(state)
    save_model(model, tmp_path / "damaged.skops", force=True)
    with pytest.raises(ModelFileError, match="decision tree"):
        load_model(tmp_path / "damaged.skops")
