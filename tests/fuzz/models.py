"""Every public estimator, fitted on hostile input; predictions for more hostile input."""

import re
import traceback
import warnings
import zlib
from inspect import signature

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import InvalidParameterError

from bagwise import Bags
from bagwise.base import RowEstimator
from bagwise.exceptions import BagwiseError
from estimators import QUICK, public_estimators
from fuzz import BAD, FINE, REFUSED, Outcome
from fuzz import hostile as h

PER_BAG = ("predict", "decision_function", "predict_proba", "key_instances")
PER_INSTANCE = ("score_instances", "predict_instances", "predict_proba_instances")
LABEL_SETS = ("annotation", "metric_learning")
EITHER = ("CitationKNN", "ClassToBag", "BagConstrainedSpectralClustering")


class WrongAnswerError(Exception):
    """A result that is not finite or has the wrong shape."""


def subjects():
    """Names of the estimators."""
    return [cls.__name__ for cls in public_estimators()]


def case(subject, seed, *, small=False):
    """Fit once and predict; with `small`, no bag is huge."""
    cls = {cls.__name__: cls for cls in public_estimators()}[subject]
    rng = np.random.default_rng([seed, zlib.crc32(subject.encode())])
    detail = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            _try(cls, rng, detail, small)
            outcome = Outcome(FINE)
        except (BagwiseError, InvalidParameterError, NotFittedError) as error:
            outcome = Outcome(REFUSED, detail=str(error))
        except Exception as error:
            outcome = Outcome(BAD, _kind(error))
    leaked = [w for w in caught if issubclass(w.category, RuntimeWarning)]
    if leaked and outcome.verdict != BAD:
        first = leaked[0]
        where = f"{_short(first.filename)}:{first.lineno}"
        outcome = Outcome(BAD, f"{first.category.__name__}: {first.message} at {where}")
    if outcome.verdict == BAD:
        return Outcome(BAD, outcome.kind, "; ".join(detail))
    return outcome


def _try(cls, rng, detail, small):
    on_rows = issubclass(cls, RowEstimator)
    n_bags, n_features = int(rng.integers(4, 13)), int(rng.choice([1, 2, 4, 8, 60]))
    n_classes = int(rng.choice([2, 2, 3]))
    kind, sizes = h.draw_sizes(rng, n_bags)
    sizes = np.minimum(sizes, 20) if small else sizes
    if kind == "huge bag":
        n_features = min(n_features, 4)
    if on_rows:
        sizes = np.ones(sizes.sum() + 8, int)
    n_bags = len(sizes)
    y = np.arange(n_bags) % n_classes
    table = rng.normal(size=(sizes.sum(), n_features))
    table[np.cumsum(sizes) - 1, 0] += 3 * y
    detail.append(f"{n_bags} bags ({kind}), {len(table)} x {n_features}, {n_classes} classes")
    huge = len(table) > 10_000
    X = _hostile(rng, table, sizes, on_rows, detail, calm=huge)
    labels = _labels(rng, cls, y, detail)
    parameters = dict(QUICK.get(cls.__name__, {}))
    if rng.random() < 0.4:
        parameters |= h.draw_parameters(rng, cls)
        detail.append(f"parameters {parameters}")
    if "random_state" in cls._parameter_constraints:
        parameters["random_state"] = 0
    options = {}
    known = signature(cls.fit).parameters
    if "sample_weight" in known and rng.random() < 0.4:
        weight = rng.choice(list(h.WEIGHTS))
        options["sample_weight"] = h.WEIGHTS[weight](np.ones(n_bags))
        detail.append(f"sample_weight {weight}")
    if "instance_labels" in known and rng.random() < 0.2:
        options["instance_labels"] = [rng.choice([None, -1, 0, 1]) for _ in range(len(table))]
        detail.append("instance_labels")
    before = _fingerprint(X), _fingerprint(labels)
    model = cls(**parameters)
    model.fit(X, labels, **options)
    _ask(model, X, labels)
    if before != (_fingerprint(X), _fingerprint(labels)):
        raise WrongAnswerError("the input was changed")
    detail.append("then asked about others:")
    n_test = min(n_bags, 6)
    test = rng.normal(size=(sum(sizes[:n_test]), n_features))
    _ask(model, _hostile(rng, test, sizes[:n_test], on_rows, detail, calm=huge), None)


def _hostile(rng, table, sizes, on_rows, detail, *, calm):
    what = "as drawn"
    if rng.random() < (0.3 if calm else 0.8):
        what, table = h.twisted_values(rng, table)
    container = "table" if on_rows else "Bags"
    if rng.random() < 0.2 and not calm:
        container = str(rng.choice(list(h.CONTAINERS)))
    detail.append(f"values {what} ({getattr(table, 'dtype', '')}), container {container}")
    if table.shape[0] == 0 and container != "table":
        sizes = [0]
    try:
        return h.CONTAINERS[container](table, sizes)
    except BagwiseError:
        raise
    except (ValueError, TypeError, IndexError, AttributeError, ModuleNotFoundError):
        # numpy or pandas raised an error, or pandas is missing
        return table


def _labels(rng, cls, y, detail):
    room = cls.__module__.split(".")[1]
    with_sets = room in LABEL_SETS or (cls.__name__ in EITHER and rng.random() < 0.5)
    labels = np.eye(3, dtype=int)[y] if with_sets and rng.random() < 0.7 else y
    if room == "semi_supervised":
        labels = np.where(rng.random(len(y)) < 0.5, -1, y)
    if rng.random() < 0.2:
        kind = rng.choice(list(h.LABELS))
        detail.append(f"labels {kind}")
        labels = h.LABELS[kind](y)
    return labels


def _ask(model, X, labels):
    bags = _as_bags(X)
    for name in PER_BAG + PER_INSTANCE + ("transform",):
        if not hasattr(model, name):
            continue
        if name == "predict_instances" and hasattr(model, "labels_"):
            continue
        # Models of label sets need a label for key instances.
        of_sets = name == "key_instances" and getattr(model, "label_kind_", None) == "sets"
        options = {"label": model.classes_[0]} if of_sets else {}
        answer = getattr(model, name)(X, **options)
        _check(model, name, answer, bags)
    if hasattr(model, "annotate") and labels is not None:
        for name in ("annotate", "annotate_proba"):
            if hasattr(model, name):
                _check(model, name, getattr(model, name)(X, labels), bags)


def _check(model, name, answer, bags):
    rows = answer.instances if isinstance(answer, Bags) else answer
    rows = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
    passed_through = type(model).__name__ == "InstanceTransformer"
    scores = name in ("score_instances", "log_likelihood")
    infinite = scores and "intercept_" in model._may_be_infinite
    accepted = (lambda rows: ~np.isnan(rows)) if infinite else np.isfinite
    if rows.dtype.kind == "f" and not accepted(rows).all() and not passed_through:
        raise WrongAnswerError(f"{name} is not finite")
    if bags is not None:
        n = bags.n_instances if name in PER_INSTANCE or isinstance(answer, Bags) else len(bags)
        if name != "transform" and not name.startswith("annotate") and len(rows) != n:
            raise WrongAnswerError(f"{name} has {len(rows)} rows for {n}")
    one_label = name == "predict" and hasattr(model, "classes_") and rows.ndim == 1
    if one_label and not np.isin(rows, model.classes_).all():
        raise WrongAnswerError("predict gives other values than classes_")


def _as_bags(X):
    if isinstance(X, Bags):
        return X
    if hasattr(X, "shape") and len(X.shape) == 2:
        return Bags(np.zeros((X.shape[0], 1)), np.arange(X.shape[0] + 1))
    return None


def _fingerprint(value):
    if isinstance(value, Bags):
        value = value.instances
    if sparse.issparse(value) and value.format == "csr":
        return hash((value.data.tobytes(), value.indices.tobytes(), value.indptr.tobytes()))
    if isinstance(value, np.ndarray) and value.dtype != object:
        return hash(value.tobytes())
    if isinstance(value, list | tuple):
        return hash(tuple(_fingerprint(each) for each in value))
    return None


def _kind(error):
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/bagwise/" in f.filename and "_finite.py" not in f.filename]
    where = f" at {_short(ours[-1].filename)}:{ours[-1].lineno}" if ours else ""
    message = re.sub(r"[-+]?\d[\d.e+-]*", "#", str(error)[:150])
    return f"{type(error).__name__}: {message}{where}"


def _short(path):
    return "/".join(path.split("/")[-2:])
