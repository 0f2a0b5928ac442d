"""Candidates of the ensembles: their models, their cost and their replacements for large data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_regressor
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC
from sklearn.utils import get_tags

from bagwise._common.types import Array, Floats, Ints
from bagwise.annotation import NoisyOrLogisticRegression, ORedLogisticRegression
from bagwise.auto._methods import find_method
from bagwise.auto._pipelines import ridge_cv
from bagwise.bags import Bags
from bagwise.base._pipelines import fit_arguments, kept_assumption, predicts_numbers
from bagwise.classification import (
    MILES,
    AttentionMIL,
    BagMarginSVM,
    CitationKNN,
    MILBoost,
    PrimalDualMISVM,
    SetKernelSVM,
)
from bagwise.embedding import (
    BagDissimilarity,
    BagStatistics,
    FisherVector,
    InstanceSimilarity,
    RandomFourierEmbedding,
)
from bagwise.evaluate._baselines import OnePerLabel
from bagwise.exceptions import InputError
from bagwise.loops.threads import blas_cores
from bagwise.pairwise import kernel_between, kernel_width
from bagwise.preprocessing import BagPipeline, InstanceTransformer, make_bag_pipeline
from bagwise.regression import SetKernelRegressor

MOST_BAGS = 3_000  # with more, methods of quadratic cost are replaced
MOST_INSTANCES = 30_000  # likewise for instances
OF_BAGS = {"classifier": "SetKernelSVM()", "regressor": "SetKernelRegressor()"}  # for messages


@dataclass(frozen=True)
class Member:
    """A method of the ensemble.

    Attributes
    ----------
    name : str
        Name in the leaderboard.
    model : estimator
        A classifier of bags, or of rows if there is an embedding.
    embedding : transformer or None
        Maps bags to rows, without labels.
    shared : bool
        Whether the embedding is fitted once for all folds. An embedding that learns from the bags
        is fitted in each fold: if it had seen the held-out bags, their scores would be too good.
    by_bag : bool
        Whether the columns of the embedding are the bags it was fitted on: a fold then uses only
        the columns of its training bags.
    final : estimator or None
        The estimator that is fitted on all bags in the end; None for the embedding and the model.
    growth : float
        Exponent of the cost in the number of bags.
    most_pairs : float
        Largest number of bags times instances; beyond it, the method is replaced.
    replacements : tuple of Member
        Methods of linear cost, for data that are too large for this one; the first is used.
    """

    name: str
    model: Any
    embedding: Any = None
    shared: bool = True
    by_bag: bool = False
    final: Any = None
    growth: float = 1.0
    most_pairs: float = float("inf")
    replacements: tuple[Member, ...] = ()

    def __post_init__(self) -> None:
        if self.embedding is not None:
            for part in (self.embedding, self.model):
                if hasattr(part, "set_output"):  # arrays, whatever sklearn.set_config requests
                    part.set_output(transform="default")

    @property
    def replacement(self) -> Member | None:
        """The replacement for large data, or None."""
        return self.replacements[0] if self.replacements else None

    def for_size(self, n_bags: int, n_instances: int) -> Member | None:
        """Return the method, its replacement if the data are too large for it, or None."""
        many = n_bags > MOST_BAGS or n_instances > MOST_INSTANCES
        if not (self.growth > 1 and many) and n_bags * n_instances <= self.most_pairs:
            return self
        return self.replacement and self.replacement.for_size(n_bags, n_instances)

    @property
    def keeps(self) -> str:
        """The assumption that the method keeps, see `BagClassifierMixin.keeps`."""
        return "collective" if self.embedding is not None else kept_assumption(self.model)

    @property
    def parameters(self) -> str:
        """The estimators in one line, with the parameters that are not at their defaults."""
        parts = [self.final] if self.final is not None else [self.embedding, self.model]
        return " + ".join(" ".join(repr(part).split()) for part in parts if part is not None)

    def seeded(self, seed: int) -> Member:
        """Return the same method with clones of its estimators that use a given seed."""
        parts = {name: getattr(self, name) for name in ("model", "embedding", "final")}
        seeded = {name: _seeded(part, seed) for name, part in parts.items() if part is not None}
        others = tuple(member.seeded(seed) for member in self.replacements)
        return replace(self, replacements=others, **seeded)

    def represent(self, bags: Bags) -> Any:
        """Return the input of the model: the bags, or the rows of a shared embedding (fitted)."""
        kept = self.embedding is None or not self.shared
        return bags if kept else self.embedding.fit_transform(bags)

    def fold_scores(
        self,
        rows: Any,
        y: Array,
        train: Ints,
        test: Ints,
        n_columns: int,
        groups: Array | None = None,
    ) -> Floats:
        """Score the bags `test` by a model fitted on the bags `train`."""
        seen = rows[np.ix_(train, train)] if self.by_bag else rows[train]
        new = rows[np.ix_(test, train)] if self.by_bag else rows[test]
        if not self.shared:
            embedding = clone(self.embedding).fit(seen)
            seen, new = embedding.transform(seen), embedding.transform(new)
        fitted = self._fit_model(seen, y[train], None if groups is None else groups[train])
        return column_scores(fitted, new, y.ndim == 2, n_columns)

    def fit_all(self, rows: Any, bags: Bags, y: Array, groups: Array | None = None) -> Any:
        """Fit the method on all bags; the result predicts bags."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # as in the folds
            if self.final is not None:
                return clone(self.final).fit(bags, y)
            if not self.shared:
                rows = self.embedding.fit_transform(bags)
            fitted = self._fit_model(rows, y, groups)
        if self.embedding is None:
            return fitted
        return BagPipeline([("embedding", self.embedding), ("model", fitted)])

    def _fit_model(self, rows: Any, y: Array, groups: Array | None) -> Any:
        model = clone(self.model)
        if self.embedding is None:
            return model.fit(rows, y, **fit_arguments(model, groups=groups))
        # Solvers on rows call BLAS for short products, for which threads only add overhead.
        with blas_cores(1):
            return model.fit(rows, y)


class SetKernel(TransformerMixin, BaseEstimator):
    """Normalised set kernel between bags and the training bags, for SVC."""

    def fit(self, X: Bags, y: Any = None) -> SetKernel:
        """Store the bags and their kernel width."""
        self.bags_, self.gamma_ = X, kernel_width("scale", X)
        return self

    def transform(self, X: Bags) -> Floats:
        """Kernel values of shape (n_bags, n_training_bags)."""
        other = None if X is self.bags_ else self.bags_
        return kernel_between(X, other, kernel="rbf", normalization="feature", gamma=self.gamma_)


def column_scores(model: Any, X: Any, sets: bool, n_columns: int) -> Floats:
    """Scores of bags by a fitted model, of shape (n_bags, n_columns).

    One column for two classes, else one per class or label. Probabilities become log-odds. A class
    that was not among the training bags has the lowest score. The scores of a regressor are its
    predictions.
    """
    if is_regressor(model):
        return np.asarray(model.predict(X), dtype=np.float64).reshape(-1, 1)
    if hasattr(model, "decision_function"):
        scores = np.asarray(model.decision_function(X), dtype=np.float64)
    else:
        found = model.predict_proba(X)
        if n_columns == 1 and not sets:
            found = found[:, -1:] * (len(model.classes_) > 1)
        scores = _log_odds(found)
    scores = scores.reshape(len(scores), -1)
    if not sets and scores.shape[1] != n_columns and n_columns > 1:
        whole = np.full((len(scores), n_columns), scores.min())
        own = np.asarray(model.classes_)
        # A model trained on two classes has one column, for the second class.
        both = np.column_stack([-scores, scores]) if scores.shape[1] == 1 else scores
        whole[:, own] = both
        scores = whole
    limit = 1e6  # replaces the infinite scores of a label that every training bag has, or none
    return np.clip(np.nan_to_num(scores, nan=0.0, posinf=limit, neginf=-limit), -limit, limit)


def _log_odds(shares: Floats) -> Floats:
    shares = np.clip(shares, 1e-3, 1 - 1e-3)  # trees are never that certain
    return np.log(shares / (1 - shares))


def _seeded(part: Any, seed: int) -> Any:
    names = [name for name in part.get_params() if name.rpartition("__")[2] == "random_state"]
    return clone(part).set_params(**dict.fromkeys(names, seed))


def default_members(*, sets: bool, n_columns: int) -> list[Member]:
    """Return the default candidates, the most often useful first.

    Parameters
    ----------
    sets : bool
        Whether bags have label sets.
    n_columns : int
        Number of classes, 1 for two classes.

    Returns
    -------
    list of Member
    """

    def per_label(model: Any) -> Any:
        return OnePerLabel(model) if sets else model

    def machine(**options: Any) -> Any:
        svm = SVC(tol=1e-6, random_state=0, **options)  # tight: rounding does not affect weights
        return per_label(OneVsRestClassifier(svm) if n_columns > 1 and not sets else svm)

    def logistic(C: float) -> Any:
        return per_label(LogisticRegression(C=C, max_iter=1000))

    def linear(name: str, C: float, embedding: Any, **options: Any) -> Member:
        return Member(name, logistic(C), embedding, **options)

    trees = per_label(ExtraTreesClassifier(100 if sets else 300))
    fourier = linear("nsk (random Fourier)", 100.0, RandomFourierEmbedding())
    few = linear("mind (200 prototypes)", 1.0, BagDissimilarity(n_prototypes=200))
    mind = Member(
        "mind",
        machine(C=1.0, kernel="linear"),
        BagDissimilarity(),
        by_bag=True,
        growth=2.0,
        replacements=(few,),
    )
    extremes = BagStatistics(statistics=("min", "max"))
    minimax = Member(
        "minimax",
        per_label(SetKernelSVM(C=10.0, bag_kernel="minimax")),
        growth=2.0,
        replacements=(linear("minimax (linear)", 0.1, extremes),),
    )
    fisher = linear("fisher-vectors", 10.0, FisherVector(), shared=False)
    knn = Member("citation-knn", CitationKNN(), growth=2.0)
    short = Member("attention (30 epochs)", AttentionMIL(n_models=3, max_epochs=30, patience=5))
    attention = Member(
        "attention",
        AttentionMIL(n_models=3),
        most_pairs=1e7,  # such as 100 slides of 1,000 patches: minutes beyond
        replacements=(short,),
    )
    has_torch = find_method("attention").available
    first = Member("pooled-trees", trees, BagStatistics())
    if sets:
        knn = replace(knn, replacements=(short,) if has_torch else ())
        orlr = Member("orlr", ORedLogisticRegression(kernel="rbf"))
        return [first, fourier, mind, orlr, minimax, fisher, knn]
    nsk = Member(
        "nsk",
        machine(C=10.0, kernel="precomputed"),
        SetKernel(),
        by_bag=True,
        final=SetKernelSVM(C=10.0),
        growth=2.0,
        replacements=(fourier,),
    )
    miles = Member(
        "miles",
        MILES(),
        growth=2.0,
        most_pairs=3e6,  # its linear program takes minutes beyond
        replacements=(linear("miles (500 prototypes)", 1.0, InstanceSimilarity(n_prototypes=500)),),
    )
    features = InstanceTransformer(Nystroem(n_components=300, random_state=0))
    one_sided = make_bag_pipeline(features, PrimalDualMISVM(C=1.0, assumption="standard"))
    misvm = Member(
        "misvm-bag",
        BagMarginSVM(kernel="rbf", threshold="zero"),
        growth=2.0,
        replacements=(
            Member("pdmisvm", PrimalDualMISVM()),
            Member("pdmisvm (standard, Nystroem)", one_sided),
        ),
    )
    # The best single method on noisy synthetic bags, with torch and without.
    last = attention if has_torch else Member("noisy-or", NoisyOrLogisticRegression())
    boost = Member("milboost", MILBoost())
    return [first, nsk, mind, boost, minimax, miles, fisher, misvm, knn, last]


def keeping(members: list[Member], assumption: str) -> list[Member]:
    """Select the members, and their replacements, that keep an assumption."""
    return [
        replace(member, replacements=tuple(keeping(list(member.replacements), assumption)))
        for member in members
        if member.keeps == assumption
    ]


def chosen_members(candidates: Any, *, sets: bool, n_columns: int) -> list[Member]:
    """Make the candidates from "default", a list of names, or a dict of classifiers."""
    known = {member.name: member for member in default_members(sets=sets, n_columns=n_columns)}
    if isinstance(candidates, str) and candidates == "default":
        return [*known.values()]
    _check_candidates(candidates, "classifier")
    if isinstance(candidates, Mapping):
        return [Member(name, model) for name, model in candidates.items()]
    return [known[name] if name in known else _listed(name, sets) for name in candidates]


def _check_candidates(candidates: Any, kind: str) -> None:
    """Refuse all but names, and classifiers (or regressors) of bags by name."""
    if not candidates:
        raise InputError("candidates is empty: name at least one, or leave it out.")
    expected = f"a {kind} of bags, such as {OF_BAGS[kind]}"
    if not isinstance(candidates, Mapping):
        for name in candidates:
            if not isinstance(name, str):
                raise InputError(
                    f"candidates holds {name!r}: expected names of methods, or a dict of {kind}s "
                    f'by name, such as {{"mine": {OF_BAGS[kind]}}}.'
                )
        return
    for name, model in candidates.items():
        if isinstance(model, type) or not hasattr(model, "get_params"):
            raise InputError(f"the candidate {name!r} is {model!r}: expected {expected}.")
        what = f"the candidate {name!r} is {type(model).__name__}"
        if predicts_numbers(model) != (kind == "regressor"):
            raise InputError(f"{what}, which is not a {kind}: expected {expected}.")
        if _needs_rows(model):
            raise InputError(
                f"{what}, which learns from rows: put an embedding such as BagStatistics before it "
                "in a pipeline."
            )


def _needs_rows(model: Any) -> bool:
    """Whether a model is one of scikit-learn that does not accept bags."""
    if isinstance(model, Pipeline):
        return _needs_rows(model.steps[0][1])
    if not type(model).__module__.startswith("sklearn.") or get_tags(model).no_validation:
        return False
    inner = [part for part in model.get_params().values() if hasattr(part, "get_params")]
    return all(_needs_rows(part) for part in inner)  # a search or a wrapper of a model of bags


def _listed(name: str, sets: bool) -> Member:
    """Make a candidate from the name of a method on the command line."""
    method = find_method(name)
    model = method.make({})
    return Member(name, OnePerLabel(model) if sets and not method.label_sets else model)


def default_regressors() -> list[Member]:
    """Return the default candidates for regression, the most often useful first."""

    def ridge(name: str, embedding: Any, **options: Any) -> Member:
        return Member(name, ridge_cv(), embedding, **options)

    def kernel(name: str, *replacements: Member, **options: Any) -> Member:
        model = SetKernelRegressor(**options)
        return Member(name, model, growth=2.0, replacements=replacements)

    trees = ExtraTreesRegressor(300, max_features=1 / 3)
    few = ridge("mind (200 prototypes)", BagDissimilarity(n_prototypes=200))
    extremes = BagStatistics(statistics=("min", "max"))
    return [
        Member("pooled-trees", trees, BagStatistics()),
        ridge("pooled-ridge", BagStatistics()),
        kernel("nsk", ridge("nsk (random Fourier)", RandomFourierEmbedding())),
        kernel("nsk-svr", loss="epsilon_insensitive"),
        kernel("minimax", ridge("minimax (linear)", extremes), bag_kernel="minimax"),
        ridge("mind", BagDissimilarity(), by_bag=True, growth=2.0, replacements=(few,)),
        ridge("fisher-vectors", FisherVector(), shared=False),
    ]


def chosen_regressors(candidates: Any) -> list[Member]:
    """Make the candidates from "default", a list of names, or a dict of regressors."""
    known = {member.name: member for member in default_regressors()}
    if isinstance(candidates, str) and candidates == "default":
        return [*known.values()]
    _check_candidates(candidates, "regressor")
    if isinstance(candidates, Mapping):
        return [Member(name, model) for name, model in candidates.items()]
    for name in candidates:
        if name not in known:
            raise InputError(
                f"Unknown regressor {name!r}. Choose from {', '.join(known)}, or give regressors "
                "by name in a dict."
            )
    return [known[name] for name in candidates]
