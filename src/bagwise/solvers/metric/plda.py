r"""MIMLCA by likelihood: tied Gaussians under the label sets of the bags.

An instance of label c is x ~ N(m_c, S_W). The labels of instances are latent, restricted to the
candidate labels of their bag; EM fits the model. The E-step sums over all labelings that the label
set allows (``bagwise.loops.candidate_labels``); the M-step needs the sums of the instances of
each label and one d x d eigenproblem. In coordinates z = V'(x - m_0) with

    V'S_W V = I,    V'S_B V = diag(b),

S_W pooled within the labels and S_B by the method of moments, the density of label c is

    fixed effects    N(s_c / n_c, I)
    random effects   N(s / (n + 1/b), 1 + 1/(n + 1/b)),    m_c ~ N(m_0, S_B): PLDA

with n and s the count and the sum of the label, without the contribution of the instance itself. An
instance without label is N(0, 1 + b).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.optimize import linear_sum_assignment

from bagwise import loops
from bagwise._common.memory import require_memory
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.compute import Part, arrays, digest, iterate, place, readable_table, to_numpy
from bagwise.compute.arrays import add_product, like, weighted_sums
from bagwise.loops.arguments import CandidateOffsets, CandidatePosterior, CandidatePrior, Predictive
from bagwise.loops.threads import bag_bounds, block_bounds, run_blocks
from bagwise.solvers.metric.multi_instance_kmeans import Candidates
from bagwise.solvers.result import SolverResult

BLOCK = 2**21  # values of a block of instances
MAX_OPERATIONS = 1e8  # instances x subsets x labels of a bag above which it is approximated
MOST_MATCHED = 14  # labels, or instances, of a bag up to which all matchings are summed
LARGEST_MATCHINGS = 2**22  # values in the table of one bag
DOUBLE = 1000  # features up to which d x d matrices are float64 for any dtype of X

NEGLIGIBLE = 1e-9  # probability of no label below which an instance is left out of their scatter
SMALLEST_COUNT = 1e-6  # of a label
SMALLEST_SHARE = 1e-12  # of the instances without label
UNSEEN = 1e12  # subtracted from the score of a label that no training bag has
SMALLEST_VARIANCE = 1e-9  # between-label variance, relative to within, for a direction to be kept
FLOOR = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}  # added to S_W of unit variances
# Initial iterations with fixed effects: while all labels are alike S_B is 0, and would remain 0.
FIXED_FIRST = 1
UNDAMPED, DAMPING = 20, 0.5  # posteriors of later iterations are averaged, since they can cycle
FIRST_SHARE = 0.1  # initial share of instances without label, and of labels without instance
SHARES = 1e-4, 1 - 1e-4  # bounds of the share of labels without instance


@dataclass(frozen=True)
class Gaussians:
    """The model: a Gaussian for each label, in coordinates z = (x - mean) directions.

    Attributes
    ----------
    mean : ndarray of shape (n_features,)
        m_0.
    directions : ndarray of shape (n_features, n_directions)
        V, discriminative directions first; with random effects only those.
    between : ndarray of shape (n_kept,)
        b in the discriminative directions.
    sums : ndarray of shape (n_labels, n_kept)
        Sum of the instances of each label.
    counts : ndarray of shape (n_labels,)
        Expected number of instances of each label.
    random : bool
        Whether the means of labels are random effects.
    one_each : bool
        Whether a label has at most one instance of a bag.
    constant : float
        Common term of the log-densities of all instances.
    null_share, absent_share : float
        Shares of instances without label, and of labels without instance.
    """

    mean: Floats
    directions: Array
    between: Floats
    sums: Floats
    counts: Floats
    random: bool
    one_each: bool
    constant: float
    null_share: float
    absent_share: float

    @cached_property
    def inverse_between(self) -> Floats:
        """1/b; zeros for fixed effects."""
        return 1 / self.between if self.random else np.zeros(len(self.between))

    @cached_property
    def log_prior(self) -> Floats:
        """Log-prior of the labels, if a label may have several instances of a bag."""
        if self.one_each:
            return np.zeros(len(self.counts))
        with np.errstate(divide="ignore"):
            log_shares = np.log(self.counts / self.counts.sum())
        return np.maximum(log_shares, -UNSEEN) + np.log1p(-self.null_share)

    @property
    def log_null(self) -> float:
        """Log-prior of no label, if a label may have several instances of a bag."""
        return 0.0 if self.one_each else float(np.log(max(self.null_share, SMALLEST_SHARE)))

    def null_scores(self, Z: Floats) -> Floats:
        """Log-density of instances without label, up to the constant common to all densities."""
        scores: Floats = -0.5 * ((Z * Z / (1 + self.between)).sum(1) + np.log1p(self.between).sum())
        return scores

    def predictive(self) -> tuple[Floats, Floats]:
        """Mean and variance of a new instance of each label, of shape (n_labels, n_kept)."""
        gain = 1 / (np.maximum(self.counts, SMALLEST_COUNT)[:, None] + self.inverse_between)
        return self.sums * gain, 1 + gain if self.random else np.ones_like(gain)


class _Block(NamedTuple):
    """A range of whole bags: its bags, instances and pairs in the part, and its candidates."""

    bags: slice
    rows: slice
    pairs: slice
    candidates: Candidates

    @property
    def places(self) -> CandidateOffsets:
        c = self.candidates
        return CandidateOffsets(c.offsets, c.label_offsets, c.cost_offsets)


class PLDAPart(Part):
    """A block of whole bags: the posterior of each instance and candidate label.

    Parameters
    ----------
    bags : Bags
        The bags.
    candidates : Candidates
        Their candidate labels.
    null : bool
        Whether an instance may have no label even if a label is available.

    Attributes
    ----------
    posterior : ndarray of shape (n_pairs,)
        Posterior of each instance and candidate label, in the order of the costs of
        ``bagwise.loops.assignment``.
    null_posterior : ndarray of shape (n_instances,)
        Probability that an instance has no label.
    """

    def __init__(self, bags: Bags, candidates: Candidates, *, null: bool) -> None:
        self.bags, self.X, self.null = bags, readable_table(bags), null
        of_bags = np.dtype(str(bags.dtype).removeprefix("torch."))
        self.dtype = np.dtype(np.float64) if bags.n_features <= DOUBLE else of_bags
        self.candidates = c = candidates
        n, k = np.diff(c.offsets), np.diff(c.label_offsets)
        self.how = _ways(n, k, c.one_each)
        self.n_possible = int(np.minimum(n, k).sum())
        self.posterior = np.zeros(c.cost_offsets[-1])
        self.null_posterior = np.zeros(bags.n_instances)

    def identity(self) -> str:
        """Digest of the bags and their candidate labels."""
        return digest(self.bags, self.candidates.labels, self.candidates.label_offsets)

    def sums(self) -> Any:
        """Sum of the instances."""
        return to_numpy(arrays.column_sums(self.X))

    def start(self, mean: Floats) -> tuple[Any, ...]:
        """Set the initial posterior, with equal scores of all labels; return its moments."""
        log_null, log_label = float(np.log(FIRST_SHARE)), float(np.log1p(-FIRST_SHARE))
        prior = CandidatePrior(self.null, log_label, log_null if self.null else -np.inf)

        def infer(block: _Block, X: Any) -> None:
            null_scores = np.full(len(X), 0.0 if self.candidates.one_each else log_null)
            self._infer(block, np.zeros(block.candidates.cost_offsets[-1]), null_scores, prior)

        return self._moments(mean, infer)

    def gram(self, mean: Floats) -> Array:
        """Upper triangle of the scatter of all instances."""
        total = arrays.zero_gram(self.X, self.dtype)
        for block in self._blocks():
            arrays.add_gram(total, self._centred(block.rows, mean))
        return to_numpy(total)

    def expect(self, model: Gaussians, mean: Floats, damping: float) -> tuple[Any, ...]:
        """Run the E-step and compute the moments of its posterior.

        Parameters
        ----------
        model : Gaussians
            The model.
        mean : ndarray of shape (n_features,)
            Origin of the moments.
        damping : float
            Share of the previous posterior in the new one.

        Returns
        -------
        tuple
            Log-likelihood (with random effects, relative to a model without labels), change of the
            posterior, and the moments.
        """
        value, change = 0.0, 0.0
        n_kept, few = len(model.between), self.X[:0]
        directions = like(model.directions, few)
        shift = like((model.mean - mean) @ model.directions, few)
        with np.errstate(divide="ignore"):
            log_absent = float(np.log(model.absent_share))
        prior = CandidatePrior(self.null, float(np.log1p(-model.absent_share)), log_absent)

        def infer(block: _Block, X: Any) -> None:
            nonlocal value, change
            Z = to_numpy(arrays.float64(X @ directions - shift))
            Z, rest = Z[:, :n_kept], Z[:, n_kept:]
            null_scores = model.null_scores(Z)
            if model.random:
                value -= float(null_scores.sum())
            else:
                value += len(X) * model.constant - 0.5 * float((rest * rest).sum())
            scores = self._scores(model, block, Z)
            scores += model.log_prior[block.candidates.pairs[1]]
            null_scores += model.log_null
            found = self._infer(block, scores, null_scores, prior, damping)
            value, change = value + found[0], change + found[1]

        moments = self._moments(mean, infer)
        return (value, change, *moments)

    def posteriors(self) -> tuple[Floats, Floats]:
        """Posterior of each instance and candidate label, and of no label."""
        return self.posterior, self.null_posterior

    def state(self) -> dict[str, Floats]:
        """The posterior, for a checkpoint."""
        return {"posterior": self.posterior, "null_posterior": self.null_posterior}

    def restore(self, state: dict[str, Floats]) -> None:
        """Continue from a checkpoint."""
        self.posterior, self.null_posterior = state["posterior"], state["null_posterior"]

    def _blocks(self) -> Iterator[_Block]:
        c = self.candidates
        n_blocks = max(1, int(np.ceil(c.offsets[-1] * self.X.shape[1] / BLOCK)))
        for start, stop in pairwise(block_bounds(c.offsets, n_blocks).tolist()):
            rows, pairs = (slice(*each[[start, stop]]) for each in (c.offsets, c.cost_offsets))
            bags = slice(start, stop)
            yield _Block(bags, rows, pairs, c[bags])

    def _scores(self, model: Gaussians, block: _Block, Z: Floats) -> Floats:
        """Log-density of each pair, up to the constant common to all densities."""
        known = Predictive(model.sums, model.counts, model.inverse_between, model.random)
        out, share = np.empty(block.candidates.cost_offsets[-1]), self.posterior[block.pairs]
        bounds, Z = bag_bounds(block.candidates.offsets, Z.size), np.ascontiguousarray(Z)
        score, labels = loops.candidate_labels.predictive_scores, block.candidates.labels
        run_blocks(score, bounds, block.places, labels, Z, share, known, out)
        return out

    def _infer(
        self, block: _Block, scores: Floats, null_scores: Floats, prior: Any, damping: float = 0.0
    ) -> tuple[float, float]:
        """Update the posterior of a block of bags; return its log-likelihood and its change."""
        offsets, _, pairs = block.places
        found, null_found = np.zeros_like(scores), np.zeros_like(null_scores)
        value, how = np.zeros(len(offsets) - 1), self.how[block.bags]
        out = CandidatePosterior(found, null_found, value)
        infer, bounds = loops.candidate_labels.posteriors, bag_bounds(offsets, len(null_scores))
        run_blocks(infer, bounds, block.places, scores, null_scores, how, prior, out)
        for bag in np.flatnonzero(how == loops.candidate_labels.BEST):
            mine, own = slice(*offsets[bag : bag + 2]), slice(*pairs[bag : bag + 2])
            ratios = scores[own].reshape(mine.stop - mine.start, -1) - null_scores[mine, None]
            may_be_absent = prior.log_absent > -np.inf
            odds = prior.log_shown - prior.log_absent if may_be_absent else 0.0
            chosen = _best_matching(ratios + odds, may_be_absent)
            found[own], null_found[mine] = chosen.ravel(), 1 - chosen.sum(axis=1)
            value[bag] = null_scores[mine].sum() + (ratios * chosen).sum()
        before, null_before = self.posterior[block.pairs], self.null_posterior[block.rows]
        moved = np.abs(found - before).sum() + np.abs(null_found - null_before).sum()
        found += damping * (before - found)
        null_found += damping * (null_before - null_found)
        self.posterior[block.pairs], self.null_posterior[block.rows] = found, null_found
        return float(value.sum()), float(moved)

    def _centred(self, rows: slice, mean: Floats) -> Any:
        block = arrays.dense(self.X[rows])
        return block - like(mean, block)

    def _moments(self, mean: Floats, infer: Callable[[_Block, Any], None]) -> tuple[Any, ...]:
        """Infer labels block by block, and sum up the moments of their posterior.

        Returns sums, counts and squared shares of labels, the number of instances without label,
        the largest possible number of others, and the scatter of the former.
        """
        k, d = self.candidates.n_labels, self.X.shape[1]
        sums, counts, squares = np.zeros((k, d), self.dtype), np.zeros(k), np.zeros(k)
        unnamed = arrays.zero_gram(self.X, self.dtype)
        for block in self._blocks():
            X = self._centred(block.rows, mean)
            infer(block, X)
            share, (row, label) = self.posterior[block.pairs], block.candidates.pairs
            present, code = np.unique(label, return_inverse=True)
            sums[present] += to_numpy(weighted_sums(X, code.ravel(), row, share, len(present)))
            counts += np.bincount(label, share, k)
            squares += np.bincount(label, share**2, k)
            null = self.null_posterior[block.rows]
            if len(some := np.flatnonzero(null > NEGLIGIBLE)):
                arrays.add_gram(unnamed, X[some] * like(np.sqrt(null[some])[:, None], X))
        n_unnamed = float(self.null_posterior.sum())
        scatter = to_numpy(unnamed) if n_unnamed > 0 else 0.0
        return sums, counts, squares, n_unnamed, self.n_possible, scatter


PLDAPart.tensor_part = PLDAPart


def _ways(n: Ints, k: Ints, one_each: bool) -> Ints:
    """Inference method for bags of n instances and k labels."""
    ways = loops.candidate_labels
    if one_each:
        fewer, more = np.minimum(n, k), np.maximum(n, k)
        small = (fewer <= MOST_MATCHED) & ((more + 1) * 2.0**fewer <= LARGEST_MATCHINGS)
        how = np.where(small, ways.MATCHING, ways.BEST)
    else:
        costly = loops.label_lattice.operations(n, k, False) > MAX_OPERATIONS
        how = np.where(costly, ways.APPROXIMATE, ways.SUBSETS)
        how[k > n] = ways.RESTRICTED
    how[k == 0] = ways.NOTHING
    return how.astype(np.int8)


def _best_matching(weights: Floats, may_be_absent: bool) -> Floats:
    """The matching of largest weight as zeros and ones; the mean of all if all are equal."""
    if np.ptp(weights) == 0:  # at the start
        return np.full(weights.shape, 1 / max(weights.shape))
    weights = np.maximum(weights, 0) if may_be_absent else weights
    rows, labels = linear_sum_assignment(weights, maximize=True)
    chosen = np.zeros(weights.shape)
    chosen[rows, labels] = weights[rows, labels] > 0 if may_be_absent else 1.0
    return chosen


def label_set_plda(
    bags: Bags,
    candidates: Candidates,
    *,
    random: bool,
    null: bool,
    shrinkage: float | None,
    tol: float,
    **loop: Any,
) -> tuple[SolverResult, Gaussians]:
    """Fit a Gaussian to each label, and find the posterior labels of the instances.

    Parameters
    ----------
    bags : Bags
        The bags: in memory, on a device or on workers.
    indicator : ndarray of shape (n_bags, n_labels)
        Their label sets.
    random : bool
        Whether the means of labels are random effects, or fixed ones.
    one_each : bool
        Whether a label has at most one instance of a bag.
    null : bool
        Whether an instance may have no label even if a label is available.
    shrinkage : float or None
        Shrinkage of S_W towards the variances; None for OAS, 0 for maximum likelihood.
    tol : float
        Mean change of the posterior of an instance at which to stop.
    **loop
        ``max_iter``, ``track`` and ``checkpoint``, as for `iterate`.

    Returns
    -------
    SolverResult
        ``solution`` is (posterior of each instance and candidate label, posterior of no label);
        the curve is minus the log-likelihood. With random effects an instance is predicted without
        its own contribution, the log-likelihood is relative to a model without labels, and the
        curve may rise.
    Gaussians
        The model.
    """
    n, d, k = bags.n_instances, bags.n_features, candidates.n_labels
    dtype = np.dtype(str(bags.dtype).removeprefix("torch."))
    require_memory(
        8.0 * (4 * d**2 + 4 * k * d),
        purpose=f"the scatter of {d:,} features and the means of {k:,} labels",
        remedy="reduce the features first, with InstanceTransformer(PCA(100)) for example",
    )
    names = "sums", "counts", "squares", "null", "n_possible", "unnamed"
    options: dict[str, Any] = {"one_each": candidates.one_each, "null": null}
    estimate: Any = partial(_estimate, n_rows=n, shrinkage=shrinkage, **options)
    remembered = *names, "mean", "scale", "scatter", "curve", "settled"

    def begin(memory: dict[str, Any]) -> None:
        mean = parts.total("sums") / n
        scatter = parts.total("gram", mean)
        scale = np.sqrt(np.diag(scatter).astype(np.float64) / n)
        rounding = 10 * np.finfo(dtype).eps * np.abs(mean)  # variation of a constant feature
        scale = np.where(scale > rounding, scale, np.where(mean == 0, 1.0, np.abs(mean)))
        memory |= {"mean": mean, "scatter": scatter, "scale": scale, "curve": np.empty(0)}
        memory |= dict(zip(names, parts.step("start", mean), strict=True))

    def step(memory: dict[str, Any]) -> bool:
        is_later = memory["n_iter"] >= FIXED_FIRST
        model = estimate(memory, random=random and is_later)
        damping = DAMPING if memory["n_iter"] >= UNDAMPED else 0.0
        value, change, *moments = parts.step("expect", model, memory["mean"], damping)
        memory |= dict(zip(names, moments, strict=True))
        memory["curve"] = np.append(memory["curve"], -value)
        memory["settled"] = bool(change <= 2 * tol * n and is_later)
        return bool(memory["settled"])

    with place(bags, PLDAPart, candidates, null=null) as parts:
        memory = iterate(parts, dict.fromkeys(remembered, 0.0), begin, step, **loop)
        model = estimate(memory, random=random)
        posterior, null_posterior = zip(*parts.each("posteriors"), strict=True)
    solution = np.concatenate(posterior), np.concatenate(null_posterior)
    return SolverResult(solution, memory["curve"], bool(memory["settled"])), model


def _estimate(
    moments: Any, *, random: bool, one_each: bool, null: bool, n_rows: int, shrinkage: float | None
) -> Gaussians:
    """The M-step: estimate the model from the moments of the posterior.

    They are sums, counts and squared shares of the labels, the scatter about ``mean`` of all and of
    unlabelled instances, and the ``scale`` of the features.
    """
    counts, squares, scale = moments["counts"], moments["squares"], moments["scale"]
    N, d = float(counts.sum()), len(scale)
    n = np.maximum(counts, SMALLEST_COUNT)
    M = moments["sums"] / scale.astype(moments["sums"].dtype)
    M /= n[:, None].astype(M.dtype)
    own = squares / n  # degrees of freedom of each mean
    R = _within_factor(moments, _times_root(M, counts), N, float(own.sum()), shrinkage)
    mean = (counts / N).astype(M.dtype) @ M
    M -= mean
    G = linalg.solve_triangular(
        R, _times_root(M, counts).T, trans="T", overwrite_b=True, check_finite=False
    ).T
    C = np.zeros((d, d), G.dtype, order="F")
    add_product(C, G)
    del G
    values, Q = linalg.eigh(C, lower=False, driver="evd", overwrite_a=True, check_finite=False)
    values = values[::-1].astype(np.float64)
    # E[sum_c n_c M_c M_c'] = (N - sum n_c^2 / N) S_B + sum_c own_c (1 - n_c / N) S_W
    by_chance = float((own * (1 - counts / N)).sum())
    between = (values - by_chance) / max(N - float(counts @ counts) / N, SMALLEST_COUNT)
    kept = between > SMALLEST_VARIANCE
    if not random:
        kept = values > 10 * d * np.finfo(M.dtype).eps * max(values[0], SMALLEST_COUNT)
    n_kept = max(1, int(np.count_nonzero(kept)))  # both are in decreasing order
    between = np.maximum(between[:n_kept], SMALLEST_VARIANCE)
    Q = Q[:, ::-1][:, : n_kept if random else d]  # the likelihood needs the others too
    V = linalg.solve_triangular(R, Q, check_finite=False)
    log_det = -np.log(np.diag(R).astype(np.float64)).sum() - np.log(scale).sum()
    del R, Q, C
    sums = M @ V[:, :n_kept]
    sums *= counts[:, None].astype(sums.dtype)
    V /= scale[:, None].astype(V.dtype)
    absent = np.clip(1 - N / max(float(moments["n_possible"]), 1.0), *SHARES)
    return Gaussians(
        mean=moments["mean"] + mean * scale,
        directions=np.ascontiguousarray(V),
        between=between,
        sums=sums,
        counts=counts,
        random=random,
        one_each=one_each,
        constant=float(log_det - 0.5 * d * np.log(2 * np.pi)),
        null_share=float(moments["null"]) / n_rows,
        absent_share=float(absent) if one_each and null else 0.0,
    )


def _within_factor(
    moments: dict[str, Any], M: Array, N: float, own: float, shrinkage: float | None
) -> Array:
    """Upper Cholesky factor of S_W, for features scaled to unit variance."""
    W = np.asfortranarray(moments["scatter"] - moments["unnamed"])
    unit = moments["scale"].astype(W.dtype)
    W /= unit
    W /= unit[:, None]
    add_product(W, M, -1.0)
    W /= N if shrinkage == 0 else max(N - own, 1.0)
    d, diagonal = len(W), np.diag(W).astype(np.float64).copy()
    rho = oas_shrinkage(W, N) if shrinkage is None else shrinkage
    W *= 1 - rho
    W.flat[:: d + 1] += rho * max(diagonal.mean(), 0.0) + FLOOR[W.dtype]
    return linalg.cholesky(W, overwrite_a=True, check_finite=False)


def _times_root(M: Array, weights: Floats) -> Array:
    return M * np.sqrt(weights)[:, None].astype(M.dtype)


def oas_shrinkage(upper: Array, n: float) -> float:
    """OAS shrinkage of a covariance towards a multiple of the identity (Chen et al. 2010).

    Parameters
    ----------
    upper : ndarray of shape (d, d)
        The covariance; the upper triangle is read.
    n : float
        Number of rows.

    Returns
    -------
    float
        Between 0 and 1, as in :func:`sklearn.covariance.oas`.
    """
    d = len(upper)
    diagonal = np.diag(upper).astype(np.float64)
    above = sum(float(np.vdot(upper[:j, j], upper[:j, j])) for j in range(d))
    alpha = (2 * above + float(diagonal @ diagonal)) / d**2
    mu = float(diagonal.mean()) ** 2
    below = (n + 1.0) * (alpha - mu / d)
    return 1.0 if below <= 0 else min((alpha + mu) / below, 1.0)
