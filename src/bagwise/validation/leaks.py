"""Leaks: why a model may predict held-out bags better than it will predict new ones."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import pdtrc

from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.compute import is_here, take_rows
from bagwise.compute.arrays import dense
from bagwise.compute.blocks import row_blocks
from bagwise.exceptions import DataWarning, warn_user
from bagwise.labels import is_missing
from bagwise.validation import check_bags, check_groups, check_length

MOST = 6_000  # instances compared with each other, of a slab of the space
WIDEST = 32  # features; more are projected at random
GAP = 0.25  # of the typical distance to other bags: nothing is between copies and this distance
COPIED = 1e-4  # probability that so many instances are so close by chance
ERRORS = 0.02  # of the instances, by one feature alone
LEAD = 4.0  # the next feature has as many times more errors
ASSOCIATION, CHANCE = 0.3, 1e-3  # Cramer's V of labels and site, and its p-value
FEWEST = 8  # bags of a class, for the tests of labels
SHOWN = 4  # bags named in a message
ENTITY = re.compile(r"patient|subject|donor|person|case|participant|animal|scaffold", re.IGNORECASE)


@dataclass(frozen=True)
class Leak:
    """Something that makes held-out bags easier to predict than new ones.

    Attributes
    ----------
    kind : {"same bag", "same group", "copies", "label in a column", "label by site"}
        What it is.
    text : str
        What was found, and what to do.
    bags : list
        The names of the bags concerned.
    """

    kind: str
    text: str
    bags: list[Any]

    def __str__(self) -> str:
        return self.text


def find_leaks(
    X: Any, y: Any = None, *, groups: Any = None, folds: Iterable[tuple[Ints, Ints]] | None = None
) -> list[Leak]:
    """Look for leaks between training and test bags.

    - "same bag": a bag on both sides of a fold.
    - "same group": a group (patient) on both sides of a fold; or a column of bags, or the first
      part of their ids, that repeats like a patient and is divided by the groups or folds.
    - "copies": instances that are much closer to one of another bag, or of another group, than
      instances usually are: copies with rounding, compression or a little noise. If the bags have
      more than 6,000 instances, those in a slab of the space are compared.
    - "label in a column": a feature or a column of bags that alone tells the labels.
    - "label by site": the labels depend on a column with few values, such as the site: a model can
      learn the site instead.

    Parameters
    ----------
    X : Bags or anything accepted as bags
        The bags.
    y : array-like of shape (n_bags,), default=None
        Their labels or numbers. Label sets are not tested.
    groups : array-like of shape (n_bags,), default=None
        The group of each bag; by default those of the bags.
    folds : iterable of (train, test), default=None
        Positions of training and test bags.

    Returns
    -------
    list of Leak
        Each has ``kind``, ``text`` and ``bags``, the names of the bags; empty if none was found.

    Notes
    -----
    What happened before cannot be seen: a scaler or a selection of features that was fitted on all
    bags, or a patient who is not recorded. The tests are heuristics: see the guide for what they
    find.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.evaluate import find_leaks
    >>> data = make_bags(n_bags=40, random_state=0)
    >>> find_leaks(data.bags, data.y)
    []
    >>> (leak,) = find_leaks(data.bags[[*range(40), 7]])
    >>> leak.kind, leak.bags
    ('copies', [7, 40])
    """
    bags = X if isinstance(X, Bags) else check_bags(None, X, reset=True, allow_nan=True)
    bags = check_groups(groups, bags)
    if not is_here(bags) or len(bags) < 2:
        return []
    bags = check_bags(None, bags, reset=True, allow_nan=True)
    parts = [] if folds is None else [(np.asarray(a), np.asarray(b)) for a, b in folds]
    found = [*_same_bags(bags, parts), *_same_groups(bags, parts), *_copies(bags)]
    plain = isinstance(y, list | tuple | np.ndarray) or hasattr(y, "to_numpy")
    if plain and np.ndim(y) == 1 and not np.asarray(y).dtype.names:  # neither sets nor times
        found += _labels(bags, check_length(y, bags))
    return found


def _same_bags(bags: Bags, folds: list[tuple[Ints, Ints]]) -> list[Leak]:
    both = np.unique(np.concatenate([[], *(np.intersect1d(a, b) for a, b in folds)])).astype(int)
    if not len(both):
        return []
    text = f"{len(both)} bags are in the training and the test part of a fold: {{}}."
    return [_leak("same bag", text, bags, both)]


def _same_groups(bags: Bags, folds: list[tuple[Ints, Ints]]) -> list[Leak]:
    """Groups on both sides; columns and first parts of ids that repeat like patients, divided."""
    found, candidates = [], {}
    if bags.groups is not None:
        candidates[f"the groups (column {bags.group_name!r})"] = bags.groups
    for name, values in bags.columns.items():
        if name != bags.group_name and _is_entity(values, named=bool(ENTITY.search(name))):
            candidates[f"the column {name!r}"] = values
    if bags.ids is not None and bags.ids.dtype.kind in "UO":
        for starts in _starts_of(bags.ids.tolist()):
            if _is_entity(starts, named=False):
                candidates["the first part of the ids"] = starts
    for what, values in candidates.items():
        codes = np.unique(values.astype(str), return_inverse=True)[1]
        divided = np.zeros(len(bags), dtype=bool)
        for train, test in folds:
            divided |= np.isin(codes, np.intersect1d(codes[train], codes[test]))
        several = np.bincount(codes)[codes] > 1
        if not folds and bags.groups is not None:
            pairs = np.unique(np.column_stack([codes, _codes(bags.groups)]), axis=0)
            divided = np.bincount(pairs[:, 0])[codes] > 1
        elif not folds:
            divided = several
        if divided.any():
            where = "on both sides of a fold" if folds else "in different groups"
            where = where if folds or bags.groups is not None else "not kept together by folds"
            n_bags, n_values = int(divided.sum()), len(np.unique(codes[divided]))
            text = (
                f"{n_bags} bags with {n_values} values of {what} are {where}, such as {{}}. If "
                "bags of one value belong together, as slides of a patient do, give them as groups."
            )
            found.append(_leak("same group", text, bags, np.flatnonzero(divided)))
    return found


def _is_entity(values: Array, *, named: bool) -> bool:
    """Whether values repeat like patients: many, most of them of a few bags each, all known."""
    n_values, n_bags = len({*values.tolist()}), len(values)
    if values.dtype.kind not in "UO" and not named:
        return False
    if any(is_missing(value) for value in values.tolist()) or n_values == n_bags:
        return False
    return named or (n_values >= max(8, n_bags / 8) and n_values <= 0.9 * n_bags)


def _starts_of(ids: Sequence[Any]) -> list[Array]:
    """The ids up to their first, second, ... separator."""
    parts = [re.split(r"(?<=[^\W_])[-_./ ]", str(name)) for name in ids]
    depth = min(map(len, parts))
    return [np.array(["-".join(part[:k]) for part in parts]) for k in range(1, depth)]


def _codes(values: Array) -> Ints:
    return np.unique(values.astype(str), return_inverse=True)[1]


def _copies(bags: Bags) -> list[Leak]:
    """Instances much closer to one of another group than instances of other groups are.

    Typical distances to the nearest instance of another group grow like a power of their rank
    (their number within x is that of a Poisson process in D dimensions). Copies are below: more of
    them than by chance, and a gap above.
    """
    rows, values, quantum = _sample(bags)
    owner = bags.bag_index[rows]
    unit = owner if bags.groups is None else _codes(bags.groups)[owner]
    if len(np.unique(unit)) < 2:
        return []
    nearest, distance = _nearest(values, unit)
    typical, far = np.quantile(distance, [0.5, 0.9])
    if typical == 0:  # most instances have copies: a grid of values, or copied data
        return []
    dimension = np.log(np.log(10) / np.log(2)) / max(np.log(far / typical), 1e-3)
    ranked = np.sort(distance)
    count = 0
    for k in range(2, np.searchsorted(ranked, GAP * typical) + 1):
        x = ranked[k - 1]
        end = max(1.5 * x, GAP * typical, 2 * quantum)
        between = np.searchsorted(ranked, end, side="right") - k
        expected = len(ranked) * -np.expm1(-np.log(2) * (x / typical) ** dimension)
        if between <= 0.1 * k and pdtrc(k - 1, expected) < COPIED:
            count = k
    if not count:
        return []
    chosen = np.flatnonzero(distance <= ranked[count - 1])
    n_exact = int((distance[chosen] <= 1e-9 * typical).sum())
    pairs = Counter((*sorted((owner[i], owner[nearest[i]])),) for i in chosen.tolist())
    most = [pair for pair, _ in pairs.most_common()]
    shown = "; ".join(f"{bags.name_of(a)} and {bags.name_of(b)}" for a, b in most[:SHOWN])
    other = "another bag" if bags.groups is None else "a bag of another group"
    kind = "copies" if n_exact == count else "copies or near-copies"
    text = (
        f"{count} of {len(rows)} instances have {kind} in {other} ({len(most)} pairs of bags: "
        f"{shown}). Leave one bag of each pair out, or give such bags the same group."
    )
    return [Leak("copies", text, bags.names[np.unique(most)].tolist())]


def _sample(bags: Bags) -> tuple[Ints, Floats, float]:
    """Rows to compare, their standardised (and projected) values, and the step of a grid."""
    rng = np.random.RandomState(0)
    n, d = bags.n_instances, bags.n_features
    rows = np.arange(n)
    if n > _most(bags):  # copies are in the slab together
        direction = rng.normal(size=d)
        place = np.concatenate([dense(block) @ direction for _, block in row_blocks(bags)])
        middle = np.quantile(place[np.isfinite(place)], rng.uniform(0.3, 0.7))
        rows = np.sort(np.argsort(np.abs(place - middle), kind="stable")[: _most(bags)])
    values = np.nan_to_num(dense(take_rows(bags, rows)).astype(np.float64))
    scale = values.std(axis=0)
    values = (values - values.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    few = np.sort(values[:500], axis=0)
    steps = np.diff(few, axis=0)
    steps = np.where(steps > 1e-9, steps, np.inf).min(axis=0)
    quantum = float(np.median(steps[np.isfinite(steps)])) if np.isfinite(steps).any() else 0.0
    if d > WIDEST:
        values = values @ rng.normal(size=(d, WIDEST)) / np.sqrt(WIDEST)
    return rows, values, quantum


def _most(bags: Bags) -> int:
    """Number of instances to look at: few of those in a file."""
    return min(MOST, max(200, bags.n_instances // 50)) if bags.is_mapped else MOST


def _nearest(values: Floats, unit: Ints) -> tuple[Ints, Floats]:
    """The nearest row of another unit, and its distance."""
    nearest = np.empty(len(values), dtype=np.int64)
    squares = np.square(values).sum(axis=1)
    for start in range(0, len(values), 100):
        block = slice(start, start + 100)
        apart = squares - 2 * values[block] @ values.T
        apart[unit[block, None] == unit] = np.inf
        nearest[block] = apart.argmin(axis=1)
    return nearest, np.sqrt(np.square(values - values[nearest]).sum(axis=1))


def _labels(bags: Bags, y: Any) -> list[Leak]:
    """Columns that tell the label, and labels that follow a site."""
    known = np.array([not is_missing(value) for value in np.asarray(y).tolist()])
    bags, y = bags[np.flatnonzero(known)], np.asarray(y)[known]
    codes = _codes(y)
    numbers = y.dtype.kind == "f" and codes.max() >= max(20, len(y) / 4)
    if not numbers and (codes.max() < 1 or np.bincount(codes).min() < FEWEST):
        return []
    found = []
    for name, values in bags.columns.items():
        if name == bags.group_name:  # new in the test part of a fold
            continue
        site = values.dtype.kind in "UOb"
        if site and not numbers and len({*values.tolist()}) <= max(2, len(bags) / 8):
            table = np.zeros((len({*map(str, values.tolist())}), codes.max() + 1))
            np.add.at(table, (_codes(values), codes), 1)
            if min(table.shape) > 1:
                found += _by_site(bags, name, table)
        elif not site and _tells(values.astype(float)[:, None], y, codes, numbers)[0] <= ERRORS:
            found.append(_told(bags, f"the column {name!r}"))
    size = np.random.RandomState(0).permutation(bags.n_instances)[: _most(bags)]
    rows = np.nan_to_num(dense(take_rows(bags, np.sort(size))).astype(np.float64))
    owner = bags.bag_index[np.sort(size)]
    errors = _tells(rows, y[owner], codes[owner], numbers)
    best = int(np.argmin(errors))
    others = np.delete(errors, best)
    if errors[best] <= ERRORS and (others > max(LEAD * errors[best], ERRORS)).all():
        names = bags.feature_names
        found.append(_told(bags, f"the feature {best if names is None else names[best]!r}"))
    return found


def _tells(columns: Floats, y: Array, codes: Ints, numbers: bool) -> Floats:
    """The balanced error of a few thresholds of each column alone; of the best columns only."""
    columns = np.nan_to_num(columns)
    if numbers:
        from scipy.stats import rankdata
        from sklearn.feature_selection import r_regression

        return 1 - np.abs(np.nan_to_num(r_regression(rankdata(columns, axis=0), rankdata(y))))
    errors = np.ones(columns.shape[1])
    ranks = np.array([np.unique(column, return_inverse=True)[1] for column in columns.T])
    means = np.array([np.bincount(codes, of_one) / np.bincount(codes) for of_one in ranks])
    apart = means.std(axis=1) / np.maximum(ranks.std(axis=1), 1e-9)
    for j in np.argsort(-apart)[:10]:
        errors[j] = _interval_error(ranks[j], codes, np.argsort(means[j]))
    return errors


def _interval_error(ranks: Ints, codes: Ints, order: Ints) -> float:
    """The balanced error of the best thresholds between the classes, in a given order."""
    share = np.zeros((ranks.max() + 2, len(order)))
    np.add.at(share, (ranks + 1, codes), 1 / np.bincount(codes)[codes])
    below = share.cumsum(axis=0)  # the share of each class below each threshold
    right = np.zeros(len(share))
    for k in order:  # of the classes up to k, below a threshold: the best sum so far
        right = np.maximum.accumulate(right - below[:, k]) + below[:, k]
    return float(1 - right[-1] / len(order))


def _told(bags: Bags, what: str) -> Leak:
    text = (
        f"{what} alone tells the labels of {len(bags)} bags: is it another name of the label, or "
        "known only afterwards? Leave it out if it will not be there for new bags."
    )
    return Leak("label in a column", text, bags.names.tolist())


def _by_site(bags: Bags, name: str, table: Floats) -> list[Leak]:
    from scipy.stats import chi2_contingency

    statistic, p_value = chi2_contingency(table, correction=False)[:2]
    strength = np.sqrt(statistic / (table.sum() * (min(table.shape) - 1)))
    if strength > 1 - ERRORS:
        return [_told(bags, f"the column {name!r}")]
    if strength < ASSOCIATION or p_value > CHANCE:
        return []
    text = (
        f"the labels follow the column {name!r} (Cramer's V {strength:.2f}, p {p_value:.1g}): a "
        "model may recognise it instead of the label. Evaluate with it as groups, so that each of "
        "its values is new in the test part."
    )
    return [Leak("label by site", text, bags.names.tolist())]


def _leak(kind: str, text: str, bags: Bags, which: Ints) -> Leak:
    shown = ", ".join(bags.name_of(int(i)) for i in which[:SHOWN])
    return Leak(kind, text.format(shown), bags.names[which].tolist())


def warn_of_leaks(bags: Bags, y: Any, folds: Any = None) -> None:
    """Look for leaks, and warn of each."""
    for leak in find_leaks(bags, y, folds=folds):
        warn_user(str(leak), DataWarning)
