"""Candidates of the ensembles: their models, their cost and their replacements for large data."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_regressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise._common.types import Array, Floats, Ints
from bagwise.annotation import NoisyOrLogisticRegression, ORedLogisticRegression
from bagwise.auto._methods import METHODS, find_method
from bagwise.bags import Bags
from bagwise.base import BagClassifierMixin
from bagwise.base._finite import quietly, require_finite
from bagwise.base._pipelines import groups_for, kept_assumption, predicts_numbers, predicts_risk
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
from bagwise.embedding._columns import BagColumns
from bagwise.evaluate._baselines import OnePerLabel
from bagwise.evaluate._trees import ExtraTrees, Forest
from bagwise.exceptions import InputError
from bagwise.loops.threads import library_cores
from bagwise.metric_learning import MIMLCA
from bagwise.pairwise import kernel_between, kernel_width
from bagwise.preprocessing import BagPipeline, InstanceTransformer, make_bag_pipeline
from bagwise.regression import SetKernelRegressor

MOST_BAGS = 3_000  # with more, methods of quadratic cost are replaced
MOST_INSTANCES = 30_000  # likewise for instances


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
        Maps bags to rows, without labels; fitted once for all folds. An embedding that learns from
        the bags belongs to the model: if it had seen the held-out bags, their scores would be too
        good.
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
        Methods of linear cost, the first for data for which the size or the memory of this one is
        too large.
    """

    name: str
    model: Any
    embedding: Any = None
    by_bag: bool = False
    final: Any = None
    growth: float = 1.0
    most_pairs: float = float("inf")
    replacements: "tuple[Member, ...]" = ()

    def __post_init__(self) -> None:
        if hasattr(self.embedding, "set_output"):  # arrays, whatever sklearn.set_config requests
            self.embedding.set_output(transform="default")

    def suits(self, n_bags: int, n_instances: int) -> bool:
        """Whether the method is used for data of this size."""
        many = n_bags > MOST_BAGS or n_instances > MOST_INSTANCES
        return not (self.growth > 1 and many) and n_bags * n_instances <= self.most_pairs

    @property
    def keeps(self) -> str:
        """The assumption that the method keeps, see `BagClassifierMixin.keeps`."""
        return "collective" if self.embedding is not None else kept_assumption(self.model)

    @property
    def parameters(self) -> str:
        """The estimators in one line, with the parameters that are not at their defaults."""
        parts = [self.final] if self.final is not None else [self.embedding, self.model]
        return " + ".join(" ".join(repr(part).split()) for part in parts if part is not None)

    def seeded(self, seed: int) -> "Member":
        """Return the same method with clones of its estimators that use a given seed."""
        parts = {name: getattr(self, name) for name in ("model", "embedding", "final")}
        seeded = {name: _seeded(part, seed) for name, part in parts.items() if part is not None}
        others = tuple(member.seeded(seed) for member in self.replacements)
        return replace(self, replacements=others, **seeded)

    def per_column(self) -> "Member":
        """Return the same method with a model for each of several targets, on the same rows."""
        others = tuple(member.per_column() for member in self.replacements)
        return replace(self, model=MultiOutputRegressor(self.model), replacements=others)

    def represent(self, bags: Bags) -> Any:
        """Return the input of the model: the bags, or the rows of the embedding (fitted)."""
        return bags if self.embedding is None else self.embedding.fit_transform(bags)

    def fold_rows(self, rows: Any, train: Ints, test: Ints) -> tuple[Any, Any]:
        """The input of the model for the bags of a fold: those to fit it on, those to score."""
        if self.by_bag:
            return rows[np.ix_(train, train)], rows[np.ix_(test, train)]
        return rows[train], rows[test]

    def fold_scores(self, seen: Any, new: Any, y: Any, n_columns: int) -> Floats:
        """Score `new` by a model fitted on `seen` with its targets."""
        fitted = self._fit_model(seen, y)
        kind = "sets" if getattr(y, "ndim", 1) == 2 else "single"
        kind = "times" if getattr(getattr(y, "dtype", None), "names", None) else kind
        return column_scores(fitted, new, kind, n_columns)

    def fit_all(self, rows: Any, bags: Bags, y: Array) -> Any:
        """Fit the method on all bags; the result predicts bags."""
        if self.final is not None:
            return clone(self.final).fit(bags, y)
        fitted = self._fit_model(rows, y)
        if self.embedding is None:
            return fitted
        return BagPipeline([("embedding", self.embedding), ("model", fitted)])

    def _fit_model(self, rows: Any, y: Any) -> Any:
        model = clone(self.model)
        if self.embedding is None:
            own = {} if rows._group is None else groups_for(model, rows)
            return model.fit(rows, y, **own)
        # Solvers on rows call BLAS for short products, for which threads only add overhead.
        with library_cores(1):
            return model.fit(rows, y)


class SetKernel(TransformerMixin, BaseEstimator):
    """Normalised set kernel between bags and the training bags, for SVC."""

    def fit(self, X: Bags, y: Any = None) -> "SetKernel":
        """Store the bags and their kernel width."""
        self.bags_, self.gamma_ = X, kernel_width("scale", X)
        return self

    def transform(self, X: Bags) -> Floats:
        """Kernel values of shape (n_bags, n_training_bags)."""
        other = None if X is self.bags_ else self.bags_
        return kernel_between(X, other, kernel="rbf", normalization="feature", gamma=self.gamma_)


def column_scores(model: Any, X: Any, kind: str, n_columns: int) -> Floats:
    """Scores of bags by a fitted model, of shape (n_bags, n_columns).

    One column for two classes, else one per class or label. Probabilities become log-odds. A class
    that was not among the training bags has the lowest score. The scores of a regressor, or of a
    survival model, are its predictions.
    """
    if kind == "times":
        return np.asarray(model.predict(X), dtype=np.float64).reshape(-1, 1)
    if isinstance(model, BagClassifierMixin):  # the bags are validated already
        decision = require_finite(quietly(model._decision, X), "the score", infinite=True)
        scores = np.asarray(decision, np.float64)
    elif is_regressor(model):
        return np.asarray(model.predict(X), dtype=np.float64).reshape(len(X), -1)
    elif hasattr(model, "decision_function"):
        scores = np.asarray(model.decision_function(X), dtype=np.float64)
    else:
        found = model.predict_proba(X)
        if n_columns == 1 and kind == "single":
            found = found[:, -1:] * (len(model.classes_) > 1)
        shares = np.clip(found, 1e-3, 1 - 1e-3)  # trees are never that certain
        scores = np.log(shares / (1 - shares))
    scores = scores.reshape(len(scores), -1)
    if kind == "single" and scores.shape[1] != n_columns and n_columns > 1:
        # A model trained on two classes has one column, for the second class.
        both = np.column_stack([-scores, scores]) if scores.shape[1] == 1 else scores
        scores = np.full((len(scores), n_columns), scores.min())
        scores[:, np.asarray(model.classes_)] = both
    limit = 1e6  # replaces the infinite scores of a label that every training bag has, or none
    return np.clip(np.nan_to_num(scores, nan=0.0, posinf=limit, neginf=-limit), -limit, limit)


def _seeded(part: Any, seed: int) -> Any:
    names = [name for name in part.get_params() if name.rpartition("__")[2] == "random_state"]
    return clone(part).set_params(**dict.fromkeys(names, seed))


def default_members(kind: str, n_columns: int = 1, use_columns: Any = None) -> list[Member]:
    """Return the default candidates, the most often useful first.

    Parameters
    ----------
    kind : {"single", "sets", "numbers"}
        The target of each bag: a class, a label set or a number.
    n_columns : int, default=1
        Number of classes, 1 for two classes.
    use_columns : sequence of str, default=None
        The columns of bags to use.

    Returns
    -------
    list of Member
    """
    sets, numbers = kind == "sets", kind == "numbers"

    def per_label(model: Any) -> Any:
        return OnePerLabel(model) if sets else model

    def machine(**options: Any) -> Any:
        svm = SVC(tol=1e-6, random_state=0, **options)  # tight: rounding does not affect weights
        return per_label(OneVsRestClassifier(svm) if n_columns > 1 and not sets else svm)

    def linear(C: float) -> Any:
        return ridge_cv() if numbers else per_label(LogisticRegression(C=C, max_iter=1000))

    def set_kernel(**options: Any) -> Any:
        made = SetKernelRegressor(**options) if numbers else SetKernelSVM(C=10.0, **options)
        return per_label(made)

    def of_pairs(name: str, model: Any, *replacements: Member, **options: Any) -> Member:
        return Member(name, model, growth=2.0, replacements=replacements, **options)

    def trees(n: int) -> Any:
        return Forest(n, max_features=1 / 3) if numbers else per_label(ExtraTrees(n))

    alone = []
    if use_columns is not None:
        alone.append(Member("columns", linear(1.0), BagColumns(use_columns)))
    # Half of the trees suffices for the weight of the method; they are its whole cost.
    n_trees = 100 if sets else 300
    pooling = BagStatistics(use_columns=use_columns).set_output(transform="default")
    many = BagPipeline([("embedding", pooling), ("model", trees(n_trees))])
    pooled = Member("pooled-trees", trees(n_trees // 2), pooling, final=many)
    fourier = Member("nsk (random Fourier)", linear(100.0), RandomFourierEmbedding())
    few = Member("mind (200 prototypes)", linear(1.0), BagDissimilarity(n_prototypes=200))
    margin = linear(1.0) if numbers else machine(C=1.0, kernel="linear")
    mind = of_pairs("mind", margin, few, embedding=BagDissimilarity(), by_bag=True)
    extremes = Member("minimax (linear)", linear(0.1), BagStatistics(statistics=("min", "max")))
    minimax = of_pairs("minimax", set_kernel(bag_kernel="minimax"), extremes)
    vectors = FisherVector().set_output(transform="default")
    fisher = Member("fisher-vectors", make_bag_pipeline(vectors, linear(10.0)))
    if numbers:
        ridge = Member("pooled-ridge", linear(1.0), BagStatistics(use_columns=use_columns))
        tube = of_pairs("nsk-svr", set_kernel(loss="epsilon_insensitive"))
        nsk = of_pairs("nsk", set_kernel(), fourier)
        return [pooled, ridge, nsk, tube, minimax, mind, fisher, *alone]
    has_torch = METHODS["attention"].available
    network = AttentionMIL(n_models=3, use_columns=use_columns)
    short = Member("attention (30 epochs)", clone(network).set_params(max_epochs=30))
    if sets:
        orlr = Member("orlr", ORedLogisticRegression(kernel="rbf"))
        knn = of_pairs("citation-knn", CitationKNN(), *([short] if has_torch else []))
        return [pooled, fourier, mind, orlr, minimax, fisher, knn, *alone]
    kernel = machine(C=10.0, kernel="precomputed")
    final = SetKernelSVM(C=10.0)
    nsk = of_pairs("nsk", kernel, fourier, embedding=SetKernel(), by_bag=True, final=final)
    similar = InstanceSimilarity(n_prototypes=500)
    prototypes = Member("miles (500 prototypes)", linear(1.0), similar)
    miles = of_pairs("miles", MILES(), prototypes, most_pairs=3e6)  # its linear program: minutes
    features = InstanceTransformer(Nystroem(n_components=300, random_state=0))
    one_sided = make_bag_pipeline(features, PrimalDualMISVM(C=1.0, assumption="standard"))
    misvm = of_pairs(
        "misvm-bag",
        BagMarginSVM(kernel="rbf", threshold="zero"),
        Member("pdmisvm", PrimalDualMISVM()),
        Member("pdmisvm (standard, Nystroem)", one_sided),
    )
    # The best single method on noisy synthetic bags, with torch and without. More pairs, such as
    # 100 slides of 1,000 patches, take minutes.
    last = Member("noisy-or", NoisyOrLogisticRegression())
    if has_torch:
        last = Member("attention", network, most_pairs=1e7, replacements=(short,))
    knn, boost = of_pairs("citation-knn", CitationKNN()), Member("milboost", MILBoost())
    return [pooled, nsk, mind, boost, minimax, miles, fisher, misvm, knn, last, *alone]


def keeping(members: Iterable[Member], assumption: str) -> list[Member]:
    """Select the members, and their replacements, that keep an assumption.

    What is standard for several concepts is standard: it passes the same tests, and more.
    """
    return [
        replace(member, replacements=tuple(keeping(member.replacements, assumption)))
        for member in members
        if member.keeps.removesuffix(", several concepts") == assumption
    ]


def chosen_members(
    candidates: Any, kind: str, defaults: list[Member], assumption: str | None = None
) -> list[Member]:
    """Make the candidates that keep an assumption from "default", a list of names, or a dict."""
    known = {member.name: member for member in defaults}
    if isinstance(candidates, str):  # "default"
        members = [*known.values()]
    elif isinstance(candidates, Mapping):
        members = [_own(name, model, kind) for name, model in candidates.items()]
    else:
        members = [
            known[name] if name in known else _listed(name, kind) for name in map(str, candidates)
        ]
    if assumption is not None:
        members = keeping(members, assumption)
    if not members:
        rest = "" if assumption is None else f" that keeps the assumption {assumption!r}"
        raise InputError(f"there is no candidate{rest}: name at least one.")
    return members


def _own(name: str, model: Any, kind: str) -> Member:
    """Make a candidate from an estimator of the user."""
    wanted = {"numbers": "regressor", "times": "survival model"}.get(kind, "classifier")
    if (
        not hasattr(model, "get_params")
        or predicts_numbers(model) != (kind in ("numbers", "times"))
        or predicts_risk(model) != (kind == "times")
    ):
        raise InputError(
            f"the candidate {name!r} is {model!r}: expected a {wanted} of bags; for one of rows "
            "put an embedding such as BagStatistics before it in a pipeline."
        )
    return Member(name, model)


def _listed(name: str, kind: str) -> Member:
    """Make a candidate from the name of a method on the command line."""
    method = find_method(name)
    if kind in ("numbers", "times"):
        method = method.for_numbers() if kind == "numbers" else method.for_times()
    model = method.make({})
    return Member(name, OnePerLabel(model) if kind == "sets" and not method.label_sets else model)


# Methods that combine several estimators, for the list of methods


def dissimilarity_svm(
    C: float = 1.0,
    kind: str = "meanmin",
    metric: str = "euclidean",
    n_prototypes: int | None = None,
) -> Any:
    """MInD with a linear SVM on the distances.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the errors on the bags.
    kind : {"minmin", "maxmin", "meanmin", "hausdorff"}, default="meanmin"
        The distance between bags.
    metric : str, default="euclidean"
        The distance between instances.
    n_prototypes : int, default=None
        Number of training bags used as prototypes; all by default.

    Returns
    -------
    Pipeline
    """
    machine = SVC(C=C, kernel="linear", random_state=0)
    return make_pipeline(BagDissimilarity(kind, metric, n_prototypes, random_state=0), machine)


def dissimilarity_ridge(
    kind: str = "meanmin", metric: str = "euclidean", n_prototypes: int | None = None
) -> Any:
    """MInD with ridge regression on the distances, for a numeric target.

    Parameters
    ----------
    kind : {"minmin", "maxmin", "meanmin", "hausdorff"}, default="meanmin"
        The distance between bags.
    metric : str, default="euclidean"
        The distance between instances.
    n_prototypes : int, default=None
        Number of training bags used as prototypes; all by default.

    Returns
    -------
    Pipeline
    """
    return make_pipeline(BagDissimilarity(kind, metric, n_prototypes, random_state=0), ridge_cv())


def ridge_cv() -> Any:
    """Ridge regression on standardised columns; leave-one-out errors select the penalty."""
    return make_pipeline(StandardScaler(), RidgeCV(alphas=np.logspace(-2, 5, 15)))


def metric_citation_knn(
    n_references: int = 2,
    n_citers: int = 4,
    kind: str = "minmin",
    kernel: str = "linear",
    instances_per_label: int | None = 1,
    n_components: int | None = None,
    checkpoint: str | None = None,
) -> Any:
    """MIMLCA, then Citation-kNN with the learned distance.

    Parameters
    ----------
    n_references, n_citers : int, default=2, 4
        Number of bags that vote; the paper of MIMLCA uses 20 of each, for thousands of bags.
    kind : {"minmin", "maxmin", "meanmin", "hausdorff"}, default="minmin"
        The distance between bags.
    kernel : str, default="linear"
        The kernel of MIMLCA.
    instances_per_label : 1 or None, default=1
        Number of instances of a bag that may have a label.
    n_components : int, default=None
        Number of directions that MIMLCA keeps.
    checkpoint : path, default=None
        File to which MIMLCA saves its state, and from which it resumes.

    Returns
    -------
    Pipeline
    """
    metric = MIMLCA(
        kernel,
        instances_per_label=instances_per_label,
        n_components=n_components,
        checkpoint=checkpoint,
    )
    return make_pipeline(metric, CitationKNN(n_references, n_citers, kind=kind))
