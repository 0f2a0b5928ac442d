"""Cross-validation inside an annotator, for its hyperparameters and the rate of missing labels.

Kernel features are computed once per width, for all bags, because they do not depend on the labels.
The models of the folds are linear in these features.
"""

import copy
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem

from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.base._kernel_bags import kernel_bags, nystroem_of_bags
from bagwise.exceptions import LabelError
from bagwise.solvers.annotation.orlr import FIRST_RATES, RATE_RANGE, first_rates

# Candidates for `select`, as multiples of gamma and reg; the first is kept if no other is better.
WIDTHS = (1.0, 0.5, 2.0)
PENALTIES = (1.0, 2.0, 0.5)
N_FOLDS = 3
N_COMPARED = 2  # maximum number of folds on which settings are compared
SELECTING_TOL = 2e-3  # later iterations change less than the differences between settings
MISSING_TOL = 1e-4
MISSING_STEPS, NEGLIGIBLE = 6, 0.01  # maximum number of EM steps, and the rate at which EM stops

Part = tuple[Bags, Ints, Array]  # bags, their label sets and weights


@dataclass(frozen=True)
class Training:
    """Training data of a fit.

    Attributes
    ----------
    bags : Bags
        The bags, with the original instances or their kernel features.
    sets : ndarray of shape (n_bags, n_labels)
        Label sets of the bags; a row of -1 if only instance labels are known.
    weights : ndarray of shape (n_bags,)
        Weights of the bags.
    codes : ndarray of shape (n_instances,) or None
        The label of each instance, or -1 if it is unknown.
    """

    bags: Bags
    sets: Ints
    weights: Array
    codes: Ints | None = None

    def with_features(self, nystroem: Nystroem | None) -> "Training":
        """Replace the instances by their Nystroem features."""
        if nystroem is None:
            return self
        return replace(self, bags=kernel_bags(nystroem, self.bags))


@dataclass(frozen=True)
class Folds:
    """Cross-validation folds of bags, and fits with one fold held out.

    Attributes
    ----------
    model : estimator
        An unfitted linear annotator.
    training : Training
        The training data.
    fold_of_bags : ndarray of shape (n_bags,)
        The fold of each bag.
    """

    model: Any
    training: Training
    fold_of_bags: Ints

    @classmethod
    def of(cls, model: Any, training: Training, rng: np.random.RandomState, tol: float) -> "Folds":
        """Draw random folds, and make a linear model with the parameters of an annotator."""
        n_bags, n_labels = training.sets.shape
        if n_labels < 2:
            raise LabelError(
                "there is one label: expected two or more to select a setting, or to learn how "
                "often labels are missing."
            )
        plain = {
            "kernel": "linear", "select": False, "class_weight": None, "warm_start": True,
            "checkpoint": None, "verbose": 0, "tol": max(model.tol, tol),
        }  # fmt: skip
        if getattr(model, "background", False) is not False:
            plain["background"] = n_labels
        if hasattr(model, "missing"):
            plain["missing"], plain["spurious"] = first_rates(model.missing, model.spurious)
        plain = {name: value for name, value in plain.items() if name in model.get_params()}
        return cls(clone(model).set_params(**plain), training, rng.permutation(n_bags) % N_FOLDS)

    def with_features(self, nystroem: Nystroem | None) -> "Folds":
        """Replace the instances by their Nystroem features."""
        return replace(self, training=self.training.with_features(nystroem))

    @property
    def n_folds(self) -> int:
        """Number of non-empty folds; 0 for a single bag, which leaves none to train on."""
        n_bags = len(self.fold_of_bags)
        return min(N_FOLDS, n_bags) if n_bags > 1 else 0

    def fit(self, fold: int, start: Any = None, **params: Any) -> Any:
        """Fit the model on all folds but one, warm-started from the fitted model `start`."""
        model = clone(self.model) if start is None else copy.copy(start)
        bags, inside, known = self.training.bags, self.fold_of_bags != fold, []
        if self.training.codes is not None:
            known = [self.training.codes[np.repeat(inside, bags.sizes)]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the final fit raises the same warnings
            return model.set_params(**params).fit(
                bags[inside], self.training.sets[inside], self.training.weights[inside], *known
            )

    def held_out(self, fold: int, model: Any) -> Part:
        """Bags, label sets and weights of the held-out fold of a model.

        A bag with a label that is absent from the other folds is left out: its likelihood is 0.
        """
        sets = self.training.sets
        unseen = ~np.isfinite(model.intercept_[: sets.shape[1]])
        possible = ~(sets[:, unseen] == 1).any(axis=1)
        chosen = np.flatnonzero((self.fold_of_bags == fold) & possible)
        return self.training.bags[chosen], sets[chosen], self.training.weights[chosen]

    def log_likelihood(self, fold: int, **params: Any) -> Floats:
        """Weighted log-likelihood of each label set of a held-out fold."""
        model = self.fit(fold, **params)
        bags, sets, weights = self.held_out(fold, model)
        if not len(bags):
            return np.zeros(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return weights * model.log_likelihood(bags, sets)


@dataclass
class Candidate:
    """Candidate hyperparameters, with the log-likelihoods of the folds evaluated so far."""

    folds: Folds
    nystroem: Nystroem | None
    reg: float
    values: list[Floats] = field(default_factory=list)

    def value(self, n_folds: int) -> Floats:
        """Log-likelihoods of the held-out bags of the first `n_folds` folds."""
        for fold in range(len(self.values), n_folds):
            self.values.append(self.folds.log_likelihood(fold, reg=self.reg))
        return np.concatenate([np.zeros(0), *self.values[:n_folds]])


def best_of(candidates: list[Candidate]) -> Candidate:
    """Return the first candidate, unless held-out bags are clearly more likely under another.

    A candidate is dropped if its log-likelihood is below the best one by more than the standard
    error over bags, on the first fold, then on both. The first remaining candidate is returned.

    Parameters
    ----------
    candidates : list of Candidate
        The settings, the preferred one first.

    Returns
    -------
    Candidate
    """
    for n_folds in range(1, min(N_COMPARED, candidates[0].folds.n_folds) + 1):
        lead = max((c.value(n_folds) for c in candidates), key=np.sum)
        candidates = [c for c in candidates if not _is_behind(c.value(n_folds) - lead)]
        if len(candidates) == 1:
            break
    return candidates[0]


def _is_behind(difference: Floats) -> bool:
    if not len(difference):
        return False
    return bool(-difference.sum() > np.sqrt(len(difference)) * np.std(difference))


def select_setting(
    model: Any, training: Training, gamma: float, reg: float, rng: np.random.RandomState
) -> tuple[float, Nystroem | None]:
    """Select the penalty and the kernel features by the likelihood of held-out bags.

    The width of the RBF kernel is selected first, then the penalty.

    Parameters
    ----------
    model : estimator
        An annotator with the parameters `kernel`, `n_components`, `reg` and `tol`.
    training : Training
        The training data.
    gamma, reg : float
        The first candidates; the others are multiples of them.
    rng : RandomState
        Draws folds and landmarks.

    Returns
    -------
    reg : float
    nystroem : Nystroem or None
        None for the linear kernel.
    """
    folds = Folds.of(model, training, rng, SELECTING_TOL)
    seed = rng.randint(2**31)

    def candidate(width: float) -> Candidate:
        if model.kernel == "linear":
            return Candidate(folds, None, reg)
        draw = np.random.RandomState(seed)  # the same landmarks for all widths
        nystroem = nystroem_of_bags(model, width, model.n_components, draw, training.bags)
        return Candidate(folds.with_features(nystroem), nystroem, reg)

    widths = WIDTHS if model.kernel == "rbf" else WIDTHS[:1]
    best = best_of([candidate(factor * gamma) for factor in widths])
    others = [replace(best, reg=factor * reg, values=[]) for factor in PENALTIES[1:]]
    best = best_of([best, *others])
    return best.reg, best.nystroem


def learn_missing_rate(
    model: Any, features: Training, reg: float, rng: np.random.RandomState
) -> float:
    """Estimate the rate of missing labels by EM, with the E-step on held-out bags.

    On its training bags, a flexible model explains every label set and underestimates the rate.

    Parameters
    ----------
    model : ORedLogisticRegression
        The annotator.
    features : Training
        The training data, with kernel features.
    reg : float
        The penalty.
    rng : RandomState
        Draws the folds.

    Returns
    -------
    float
    """
    folds = Folds.of(model, features, rng, MISSING_TOL)
    params: dict[str, Any] = {"reg": reg}
    if isinstance(model.spurious, str):
        params["spurious"] = 0.0
    rate, models = FIRST_RATES[0], list[Any]([None] * folds.n_folds)
    for _ in range(MISSING_STEPS):
        models = [folds.fit(i, start, missing=rate, **params) for i, start in enumerate(models)]
        counts = np.zeros(3)
        for fold, fitted in enumerate(models):
            bags, sets, weights = folds.held_out(fold, fitted)
            if len(bags):
                counts += weights @ fitted._report_counts(bags, sets)
        if counts[:2].sum() == 0:
            break
        last, rate = rate, float(np.clip(counts[0] / counts[:2].sum(), *RATE_RANGE))
        if abs(rate - last) <= 0.1 * last or rate <= NEGLIGIBLE:
            break
    return rate
