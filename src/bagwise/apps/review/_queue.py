"""The order of review: the least certain instance first, given all decisions."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import has_fit_parameter

from bagwise._common.types import Floats, Ints
from bagwise.apps.review._store import Correction, SetCorrection
from bagwise.bags import Bags
from bagwise.base._pipelines import final_estimator
from bagwise.exceptions import InputError, LabelError
from bagwise.validation import check_label_sets

DECIDED, OPEN = -1, 0
TINY = 1e-300


class ReviewQueue:
    """Instances, the least certain first; each decision updates the posteriors of its bag.

    Parameters
    ----------
    model : estimator
        A fitted annotator with ``annotate_proba(bags, label_sets, instance_labels=...)``.
    bags : Bags
        The bags, as input of the model.
    label_sets : 0/1 array, list of sets, LabelCounts, or one label per bag
        The known labels of each bag.
    names : sequence of str, default=None
        The names of the classes; by default their string form.
    corrections : iterable of Correction, default=()
        Earlier decisions about instances.
    set_corrections : iterable of (bag, label, present), default=()
        Earlier decisions about label sets.
    limit : int, default=None
        Number of instances to review, including decided ones; by default all instances with more
        than one possible label.

    Attributes
    ----------
    chosen : ndarray of shape (n_chosen,)
        The instances to review.
    posterior : ndarray of shape (n_instances, n_classes)
        The probability of each label, given the label sets and the decisions.
    state : ndarray of shape (n_instances,)
        0: open, -1: decided, k > 0: passed over as the k-th.
    names : list of str
        The names of the columns, with the background last if there is one.

    Examples
    --------
    >>> from bagwise.annotation import ORedLogisticRegression
    >>> from bagwise import Bags
    >>> from bagwise.apps.review import ReviewQueue
    >>> bags = Bags.from_arrays([[[0.0], [3.1]], [[0.2]], [[2.9], [1.4]], [[3.2]]])
    >>> label_sets = [{"wren", "robin"}, {"wren"}, {"robin", "wren"}, {"robin"}]
    >>> model = ORedLogisticRegression().fit(bags, label_sets)
    >>> queue = ReviewQueue(model, bags, label_sets)
    >>> queue.next(), queue.guess(3), queue.guess(4)
    (3, 'robin', 'wren')
    >>> queue.decide(3, "wren")
    >>> queue.guess(4), queue.next()
    ('robin', 0)
    """

    def __init__(
        self,
        model: Any,
        bags: Bags,
        label_sets: Any,
        *,
        names: Iterable[str] | None = None,
        corrections: Iterable[Correction] = (),
        set_corrections: Iterable[SetCorrection] = (),
        limit: int | None = None,
    ) -> None:
        estimator = final_estimator(model)
        if not has_fit_parameter(estimator, "instance_labels"):
            raise InputError(
                f"{type(estimator).__name__} cannot keep labels of instances fixed: review with an "
                "annotator such as ORedLogisticRegression (-m orlr)."
            )
        self._model, self._bags, self._limit = model, bags, limit
        labels = model.classes_.tolist()
        self._classes = set(labels)
        given = check_label_sets(label_sets, bags, classes=model.classes_, known="counts").as_sets()
        self._given, self._bounds = given, given.bounds.copy()
        self.names = [str(name) for name in (labels if names is None else names)]
        background = getattr(model, "background_label_", None)
        if background is not None and background != -1:  # -1 would mean "unknown"
            labels, self.names = [*labels, background], [*self.names, str(background)]
        self._labels = dict(zip(self.names, labels, strict=True))
        self._bag_names = written_names(bags)
        self._position = {name: i for i, name in enumerate(self._bag_names)}
        self._known, _ = match_corrections(corrections, bags, self._labels)
        self._changes: list[dict[str, bool]] = [{} for _ in range(len(bags))]
        for name, label, present in set_corrections:
            if name in self._position and label in self._labels:
                self._changes[self._position[name]][label] = present
        self.posterior = np.zeros((bags.n_instances, len(self.names)))
        self._update(slice(0, len(bags)))
        self.state = np.array([OPEN if label is None else DECIDED for label in self._known])
        self.chosen = self._least_certain()

    # What to show

    def next(self) -> int | None:
        """The least certain open instance, else the one skipped longest ago; None at the end."""
        left = self.chosen[self.state[self.chosen] != DECIDED]
        order = np.lexsort((self.certainty(left), self.state[left]))
        return int(left[order[0]]) if len(left) else None

    def certainty(self, instances: Any) -> Floats:
        """The probability of the most probable label of instances."""
        return self.posterior[instances].max(axis=-1)

    def guess(self, instance: int) -> str:
        """The most probable label, given all decisions; of a decided instance, the decision."""
        if isinstance(self._known[instance], tuple):
            return ";".join(map(self.name_of, self._known[instance]))
        return self.names[int(self.posterior[instance].argmax())]

    def choices(self, bag: int) -> list[str]:
        """The labels that instances of a bag may have: its label set, and the background."""
        absent = {label for label, most in self._most(bag) if most == 0}
        return [name for name, label in self._labels.items() if label not in absent]

    def others(self, instance: int) -> list[str]:
        """The labels that are not in the label set of the bag, most probable first."""
        bag, row = self.place_of(instance)
        chance = dict(zip(self.names, self._own_proba(bag)[row], strict=False))
        others = [name for name in chance if name not in self.choices(bag)]
        return sorted(others, key=lambda name: -chance[name])

    def unmet(self, bag: int) -> list[str]:
        """The labels of a bag without a decided instance, if too few undecided ones are left."""
        known = self._known[self._rows(bag)]
        left = self._present(bag) - set(_each(known))
        return sorted(map(str, left)) if len(left) > known.count(None) else []

    def set_of(self, bag: int) -> list[str]:
        """The names of the label set of a bag, after decisions."""
        return [name for name, label in self._labels.items() if label in self._present(bag)]

    def changed(self, bag: int, label: str) -> bool | None:
        """The decision on whether a bag has a label; None if there is none."""
        return self._changes[bag].get(label)

    def likeliest(self, bag: int, label: str) -> int:
        """The instance of a bag that most probably has a label, by its own features."""
        column = self._own_proba(bag)[:, self.names.index(label)]
        return int(self._bags.offsets[bag]) + int(column.argmax())

    # Decisions

    def decide(self, instance: int, label: str | None) -> None:
        """Apply a decision; a label that is not in the label set of the bag is added to it.

        Parameters
        ----------
        instance : int
            A row of ``bags.instances``.
        label : str or None
            The name of its label, or of several (``owl;wren``); None to undo the decision.
        """
        self._known[instance] = None if label is None else label_of(label, self._labels)
        self.state[instance] = OPEN if label is None else DECIDED
        bag, _ = self.place_of(instance)
        self._update(slice(bag, bag + 1))

    def change_set(self, bag: int, label: str, present: bool | None) -> None:
        """Apply a decision on whether a bag has a label; None undoes it."""
        self._changes[bag].pop(label, None)
        if present is not None:
            self._changes[bag][label] = present
        self._update(slice(bag, bag + 1))
        self.chosen = self._least_certain()

    def pass_over(self, instance: int) -> None:
        """Move an open instance to the end of the queue."""
        if self.state[instance] != DECIDED:
            self.state[instance] = max(self.state.max(), OPEN) + 1

    # Names and positions

    def knows(self, label: str) -> bool:
        """Whether this is the name of a label, or of several."""
        return label in self.names or {*label.split(";")} <= {*self.names}

    def place_of(self, instance: int) -> tuple[int, int]:
        """The bag of an instance, and its row inside the bag."""
        bag = int(np.searchsorted(self._bags.offsets, instance, side="right")) - 1
        return bag, int(instance - self._bags.offsets[bag])

    def written(self, instance: int) -> tuple[str, int, int]:
        """The position of an instance as decisions are stored: bag, row, size of the bag."""
        bag, row = self.place_of(instance)
        return self._bag_names[bag], row, int(self._bags.sizes[bag])

    def position(self, name: str) -> int:
        """The bag with a name, as it is written in decisions."""
        return self._position[name]

    def find(self, name: str, row: int) -> int | None:
        """The instance at a row of the bag of this name; None if there is no such bag."""
        known = name in self._position
        return int(self._bags.offsets[self._position[name]]) + row if known else None

    def name_of(self, label: Any) -> str:
        """The name of a label of the model."""
        return next(name for name, value in self._labels.items() if value == label)

    def _rows(self, bag: int) -> slice:
        return slice(int(self._bags.offsets[bag]), int(self._bags.offsets[bag + 1]))

    def _own_proba(self, bag: int) -> Floats:
        return np.asarray(self._model.predict_proba_instances(self._bags[bag : bag + 1]))

    def _most(self, bag: int) -> Iterator[tuple[Any, int]]:
        """The labels of the model, and how many instances of a bag may have each."""
        most = self._bounds[bag, :, 1].tolist()
        return zip(self._given.classes.tolist(), most, strict=True)

    def _present(self, bag: int) -> set[Any]:
        """The labels that a bag has, after decisions."""
        return set(self._given.classes[self._bounds[bag, :, 0] > 0].tolist())

    def _update(self, bags: slice) -> None:
        """Update label sets and posteriors of some bags with all decisions about them."""
        column = {label: k for k, label in enumerate(self._given.classes.tolist())}
        for bag in range(bags.start, bags.stop):
            if not self._given.known[bag]:  # an unknown set stays unknown
                continue
            own = self._bounds[bag]
            own[:] = self._given.bounds[bag]
            seen = self._classes.intersection(_each(self._known[self._rows(bag)]))
            decided = [(self._labels[n], present) for n, present in self._changes[bag].items()]
            for label, present in [*decided, *((label, True) for label in seen)]:
                one = own[column[label]]
                if not present:
                    one[:] = 0
                elif one[0] == 0:
                    one[:] = 1, one[1] or -1
        rows = slice(int(self._bags.offsets[bags.start]), int(self._bags.offsets[bags.stop]))
        labels, known = self._given.with_bounds(self._bounds)[bags], single(self._known[rows])
        annotate = self._model.annotate_proba
        try:
            proba = annotate(self._bags[bags], labels.targets, instance_labels=known)
        except LabelError:  # decisions contradict the counts: the label set is left
            proba = annotate(self._bags[bags], labels.indicator, instance_labels=known)
        self.posterior[rows] = proba[:, : len(self.names)]
        if getattr(self._model, "missing_", 0) == 0:
            return
        # The model may predict a label outside the set; a reviewer chooses from the set.
        for bag in range(bags.start, bags.stop):
            allowed = np.isin(self.names, self.choices(bag))
            own = self.posterior[self._rows(bag)]
            if allowed.any():
                own *= allowed
                own /= np.maximum(own.sum(axis=1, keepdims=True), TINY)

    def _least_certain(self) -> Ints:
        n_choices = np.array([len(self.choices(bag)) for bag in range(len(self._bags))])
        order = np.lexsort((self.certainty(slice(None)), self.state != DECIDED))
        return order[n_choices[self._bags.bag_index[order]] > 1][: self._limit]


def match_corrections(
    corrections: Iterable[Correction], bags: Bags, names: Mapping[str, Any]
) -> tuple[list[Any], int]:
    """Match corrections with the instances of bags.

    Parameters
    ----------
    corrections : iterable of Correction
        The corrections.
    bags : Bags
        The bags, which are matched by their ids as strings.
    names : mapping of str to object
        The label of each name; a name that is not included stays a string.

    Returns
    -------
    instance_labels : list of length n_instances
        The label of each instance, a tuple of several, None without a correction.
    n_used : int
        Number of corrections about these bags.
    """
    position = {name: i for i, name in enumerate(written_names(bags))}
    labels: list[Any] = [None] * bags.n_instances
    n_used = 0
    for name, row, size, label in corrections:
        bag = position.get(name)
        if bag is None:
            continue
        own = int(bags.sizes[bag])
        of = "" if size is None else f" of {size}"
        if size not in (None, own) or row >= own:
            raise InputError(
                f"{bags.name_of(bag)} has {own} instances, and a correction is about row {row}"
                f"{of} (rows are counted from 0): review this file again."
            )
        labels[int(bags.offsets[bag]) + row] = label_of(label, names)
        n_used += 1
    return labels, n_used


def label_of(name: str, names: Mapping[str, Any]) -> Any:
    """The label of a name; a tuple for several (``owl;wren``); an unknown name stays a string."""
    parts = tuple(names[part] for part in dict.fromkeys(name.split(";")) if part in names)
    several = len(parts) > 1 and len(parts) == name.count(";") + 1
    return names.get(name, parts if several else name)


def single(known: Iterable[Any]) -> list[Any]:
    """Known labels for a model, which gives an instance one label: None where there are several."""
    return [None if isinstance(label, tuple) else label for label in known]


def _each(known: Iterable[Any]) -> Iterator[Any]:
    for label in known:
        yield from label if isinstance(label, tuple) else (label,)


def written_names(bags: Bags) -> list[str]:
    """The ids of bags as strings, for decisions; an error if two bags have the same.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    list of str
        Positions if bags have no ids.
    """
    names = [str(name) for name in bags.names.tolist()]
    (name, count), *_ = Counter(names).most_common(1)
    if count > 1:
        raise InputError(
            f"{count} bags are called {name!r}, so that decisions about one would count for the "
            "others: give every bag its own id."
        )
    return names
