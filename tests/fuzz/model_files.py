"""Damaged model files: `load_model` rejects them, or the model predicts.

A small fitted model is saved; then an array in the file is replaced, a value of its JSON is
replaced or removed, or bytes are changed.
"""

import copy
import io
import json
import tempfile
import traceback
import warnings
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
from fitted_models import KINDS, fitted, named, problem, unfitted
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise.classification import MILBoost
from bagwise.exceptions import BagwiseError
from bagwise.persistence import load_model, save_model
from bagwise.preprocessing import InstanceTransformer
from fuzz import BAD, FINE, REFUSED, Outcome

METHODS = (
    "predict",
    "decision_function",
    "predict_proba",
    "transform",
    "score_instances",
    "predict_instances",
    "predict_proba_instances",
    "key_instances",
)
VALUES = [None, True, False, 0, -1, 3, 2**31, 10**30, 1.5, "", "text", "rbf", [], {}, [1], {"a": 1}]
TYPES = ["f2", "f4", "i1", "i8", "u8", "c16", ">f8", "?", "M8[s]"]
JSON_TEXTS = ["null", "true", "-1", "3", "1e300", "NaN", '"text"', '"linear"', "[]", "1e999", "x"]


def subjects():
    """The models, by class and parameters."""
    return [named(model) for model in unfitted()] + ["pipeline"]


@cache
def saved(subject, kind):
    """The members of a saved model and its predictions; None if it cannot learn from `kind`."""
    if subject == "pipeline":
        X, y = problem("three")
        model = make_pipeline(InstanceTransformer(StandardScaler()), MILBoost(5)).fit(X, y)
    else:
        found = fitted(subjects().index(subject), kind)
        if found is None:
            return None
        model, X = found
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.skops"
        save_model(model, path)
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}, X


def case(subject, seed):
    """Damage one model file, load it and predict."""
    rng = np.random.default_rng([seed, subjects().index(subject)])
    kinds = [kind for kind in KINDS if saved(subject, kind) is not None]
    members, X = saved(subject, kinds[int(rng.integers(len(kinds)))])
    members = dict(members)
    how = (change_array, change_array, change_schema, change_schema, change_notes)[rng.integers(5)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        detail = how(members, rng)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.skops"
            with zipfile.ZipFile(path, "w") as archive:
                for name, content in members.items():
                    archive.writestr(name, content)
            try:
                return asked(load_model(path)[0], X)
            except (BagwiseError, NotFittedError):
                return Outcome(REFUSED)
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                kind = f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}"
                return Outcome(BAD, kind, f"{detail}: {error}")


def asked(model, X):
    for method in METHODS:
        if not hasattr(model, method):
            continue
        answer = getattr(model, method)(X)
        values = getattr(answer, "instances", answer)
        values = values.data if sparse.issparse(values) else values
        if getattr(values, "dtype", np.dtype(int)).kind == "f" and np.isnan(values).any():
            return Outcome(BAD, f"NaN from {method}")
    return Outcome(FINE)


def change_array(members, rng):
    """Replace one array by one of another shape, type or range."""
    arrays = [name for name in members if name.endswith(".npy")]
    if not arrays:
        return change_schema(members, rng)
    name = arrays[int(rng.integers(len(arrays)))]
    array = np.load(io.BytesIO(members[name]))
    number = rng.choice([0, 1, -1, 2**20, -(2**40), 1e300, -1e300, np.nan, np.inf])
    changes = [
        lambda: array[:-1],
        lambda: array[:0],
        lambda: np.concatenate([array, array]),
        lambda: array.T,
        lambda: array.reshape(-1),
        lambda: array[None],
        lambda: array.astype("U8"),
        lambda: array.astype(
            rng.choice(["f2", "f4", "i1", "i8", "u8", "c16", ">f8", "?", "M8[s]"])
        ),
        lambda: np.full_like(array, number),
        lambda: np.where(rng.random(array.shape) < 0.1, number, array).astype(array.dtype),
        lambda: np.asfortranarray(array),
        lambda: rng.permutation(array),
    ]
    which = int(rng.integers(len(changes)))
    try:
        other = changes[which]()
    except (ValueError, TypeError, OverflowError, IndexError):  # AxisError is a ValueError
        other = np.empty(0, array.dtype)
    buffer = io.BytesIO()
    np.save(buffer, other, allow_pickle=False)
    members[name] = buffer.getvalue()
    return f"array {array.dtype}{array.shape} change {which} ({number})"


def change_schema(members, rng):
    """Replace or remove one value of the schema."""
    schema = json.loads(members["schema.json"])
    places = []

    def visit(node):
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in items:
            places.append((node, key))
            if isinstance(value, dict | list):
                visit(value)

    visit(schema)
    node, key = places[int(rng.integers(len(places)))]
    was = node[key]
    if rng.random() < 0.2:
        del node[key]
        value = "nothing"
    else:
        texts = JSON_TEXTS if key == "content" and isinstance(was, str) else VALUES
        value = copy.copy(texts[int(rng.integers(len(texts)))])
        node[key] = value
    members["schema.json"] = json.dumps(schema).encode()
    return f"{key}: {str(was)[:60]} -> {value!r}"


def change_notes(members, rng):
    """Change bytes of any member."""
    name = list(members)[int(rng.integers(len(members)))]
    content = bytearray(members[name])
    for _ in range(int(rng.integers(1, 4))):
        if content:
            content[int(rng.integers(len(content)))] = int(rng.integers(256))
    members[name] = bytes(content)
    return f"bytes of {name}"
