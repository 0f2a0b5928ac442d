"""The order of review: the least certain instance first, given all decisions."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.utils.validation import has_fit_parameter

from bagwise._common.types import Floats, Ints
from bagwise._validation import check_label_sets
from bagwise.bags import Bags
from bagwise.base._pipelines import final_estimator
from bagwise.exceptions import InputError
from bagwise.review.store import Correction, SetCorrection, match_corrections, written_names

OPEN, DECIDED, PASSED = 0, 1, 2
TINY = 1e-300


class ReviewQueue:
    """Instances, the least certain first; each decision updates the posteriors of its bag.

    Parameters
    ----------
    model : estimator
        A fitted annotator with ``annotate_proba(bags, label_sets, instance_labels=...)``.
    bags : Bags
        The bags, as input of the model.
    label_sets : 0/1 array, list of sets, or one label per bag
        The known labels of each bag.
    names : sequence of str, default=None
        The names of the classes; by default their string form.
    corrections : iterable of Correction, default=()
        Earlier decisions about instances.
    set_corrections : iterable of SetCorrection, default=()
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
    names : list of str
        The names of the columns, with the background last if there is one.

    Examples
    --------
    >>> from bagwise.annotation import ORedLogisticRegression
    >>> from bagwise import Bags
    >>> from bagwise.review import ReviewQueue
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
        if not hasattr(model, "annotate_proba"):
            raise InputError(
                f"{type(model).__name__} has no probabilities of instances: review with an "
                "annotator such as ORedLogisticRegression (-m orlr)."
            )
        if not has_fit_parameter(final_estimator(model), "instance_labels"):
            raise InputError(
                f"{type(final_estimator(model)).__name__} cannot hold labels of instances fixed: "
                "review with ORedLogisticRegression (-m orlr)."
            )
        self._model, self._bags = model, bags
        labels = model.classes_.tolist()
        sets = check_label_sets(label_sets, bags, classes=model.classes_)
        self._given: list[set[Any] | None] = sets.as_sets().tolist()
        self._sets = list(self._given)
        self._limit = limit
        self.names = [str(name) for name in (labels if names is None else names)]
        background = getattr(model, "background_label_", None)
        if background is not None and background != -1:  # -1 would mean "unknown"
            labels, self.names = [*labels, background], [*self.names, str(background)]
        self._labels = dict(zip(self.names, labels, strict=True))
        self._names = written_names(bags)
        self._position = {name: i for i, name in enumerate(self._names)}
        self._set_changes: dict[int, dict[Any, bool]] = {}
        for change in set_corrections:
            if change.bag in self._position and change.label in self._labels:
                self._change_set(self._position[change.bag], change.label, change.present)
        self._classes = set(model.classes_.tolist())
        self._known, _ = match_corrections(corrections, bags, self._labels)
        for bag in range(len(bags)):
            self._update_set(bag)
        self.posterior = self._annotated(slice(0, len(bags)))
        self.state = np.array([OPEN if label is None else DECIDED for label in self._known])
        self._turn = np.zeros(bags.n_instances, np.int64)
        self.chosen = self._least_certain()

    def next(self) -> int | None:
        """Choose the next instance to review.

        Returns
        -------
        int or None
            The least certain open instance; if there is none, the one skipped longest ago; None
            if all are decided.
        """
        left = self.chosen[self.state[self.chosen] == OPEN]
        if len(left):
            return int(left[self.certainty(left).argmin()])
        left = self.chosen[self.state[self.chosen] == PASSED]
        return int(left[self._turn[left].argmin()]) if len(left) else None

    def certainty(self, instances: Any) -> Floats:
        """The probability of the most probable label.

        Parameters
        ----------
        instances : array-like of int
            Rows of ``bags.instances``.

        Returns
        -------
        ndarray
        """
        return self.posterior[instances].max(axis=-1)

    def guess(self, instance: int) -> str:
        """The prediction of the model, given all decisions; for a decided instance, the decision.

        Parameters
        ----------
        instance : int
            A row of ``bags.instances``.

        Returns
        -------
        str
        """
        return self.names[int(self.posterior[instance].argmax())]

    def choices(self, instance: int) -> list[str]:
        """The labels that the instance may have: those of its bag, and the background.

        Parameters
        ----------
        instance : int
            A row of ``bags.instances``.

        Returns
        -------
        list of str
        """
        carried = self._sets[self.bag_of(instance)]
        labels = self._model.classes_.tolist()
        return [
            name
            for name, label in self._labels.items()
            if carried is None or label in carried or label not in labels
        ]

    def other_labels(self, instance: int) -> list[str]:
        """The labels that are not in the label set of the bag, most probable first.

        Parameters
        ----------
        instance : int
            A row of ``bags.instances``.

        Returns
        -------
        list of str
        """
        listed = set(self.choices(instance))
        others = [name for name in self.names if name not in listed]
        if not others or not hasattr(self._model, "predict_proba_instances"):
            return others
        bag = self.bag_of(instance)
        row = instance - int(self._bags.offsets[bag])
        proba = self._model.predict_proba_instances(self._bags[bag : bag + 1])[row]
        return sorted(others, key=lambda name: -proba[self.names.index(name)])

    def decide(self, instance: int, label: str | None) -> None:
        """Apply a decision; a label that is not in the label set of the bag is added to it.

        Parameters
        ----------
        instance : int
            A row of ``bags.instances``.
        label : str or None
            The name of its label; None to undo the decision.
        """
        self._known[instance] = None if label is None else self._labels[label]
        self.state[instance] = OPEN if label is None else DECIDED
        bag = self.bag_of(instance)
        self._update_set(bag)
        rows = slice(self._bags.offsets[bag], self._bags.offsets[bag + 1])
        self.posterior[rows] = self._annotated(slice(bag, bag + 1))

    def change_set(self, bag: int, label: str, present: bool | None) -> None:
        """Apply a decision on whether a bag has a label.

        Parameters
        ----------
        bag : int
            The position of the bag.
        label : str
            The name of the label.
        present : bool or None
            Whether the bag has it; None to undo the decision.
        """
        self._change_set(bag, label, present)
        self._update_set(bag)
        rows = slice(self._bags.offsets[bag], self._bags.offsets[bag + 1])
        self.posterior[rows] = self._annotated(slice(bag, bag + 1))
        self.chosen = self._least_certain()

    def changed(self, bag: int, label: str) -> bool | None:
        """The decision on whether a bag has a label.

        Parameters
        ----------
        bag : int
            The position of the bag.
        label : str
            The name of the label.

        Returns
        -------
        bool or None
            None if there is no decision.
        """
        return self._set_changes.get(bag, {}).get(self._labels[label])

    def labels_of(self, bag: int) -> list[str]:
        """The names of the label set of a bag, after decisions.

        Parameters
        ----------
        bag : int
            The position of the bag.

        Returns
        -------
        list of str
        """
        carried = self._sets[bag] or set()
        return [name for name, label in self._labels.items() if label in carried]

    def likeliest(self, bag: int, label: str) -> int:
        """The instance of a bag that most probably has a label, by its own features.

        Parameters
        ----------
        bag : int
            The position of the bag.
        label : str
            The name of the label.

        Returns
        -------
        int
            A row of ``bags.instances``.
        """
        column = self.names.index(label)
        proba = self._model.predict_proba_instances(self._bags[bag : bag + 1])
        return int(self._bags.offsets[bag]) + int(proba[:, column].argmax())

    def pass_over(self, instance: int) -> None:
        """Move an open instance to the end of the queue.

        Parameters
        ----------
        instance : int
            A row of ``bags.instances``.
        """
        if self.state[instance] != DECIDED:
            self.state[instance] = PASSED
            self._turn[instance] = self._turn.max() + 1

    def unmet(self, instance: int) -> list[str]:
        """Labels of the bag without a decided instance, if too few undecided instances are left.

        Parameters
        ----------
        instance : int
            A row of ``bags.instances``.

        Returns
        -------
        list of str
            Empty if the decisions are consistent with the label set.
        """
        bag = self.bag_of(instance)
        known = self._known[self._bags.offsets[bag] : self._bags.offsets[bag + 1]]
        left = (self._sets[bag] or set()) - set(known)
        return sorted(map(str, left)) if len(left) > known.count(None) else []

    def bag_of(self, instance: int) -> int:
        """The bag of an instance.

        Parameters
        ----------
        instance : int
            A row of ``bags.instances``.

        Returns
        -------
        int
        """
        return int(np.searchsorted(self._bags.offsets, instance, side="right")) - 1

    def place_of(self, instance: int) -> tuple[str, int, int]:
        """The position of an instance, as decisions are stored; `find` is the inverse.

        Parameters
        ----------
        instance : int
            A row of ``bags.instances``.

        Returns
        -------
        tuple (bag, row, size)
            The id of its bag as a string, the row inside the bag, and the size of the bag.
        """
        bag, bags = self.bag_of(instance), self._bags
        return self._names[bag], int(instance - bags.offsets[bag]), int(bags.sizes[bag])

    def name_of(self, label: Any) -> str:
        """The name of a label of the model.

        Parameters
        ----------
        label : object
            A value of ``classes_``.

        Returns
        -------
        str
        """
        return next(name for name, value in self._labels.items() if value == label)

    def position(self, bag: str) -> int | None:
        """The position of a bag, by its id as a string; None if there is no such bag.

        Parameters
        ----------
        bag : str
            The id of the bag.

        Returns
        -------
        int or None
        """
        return self._position.get(bag)

    def find(self, bag: str, row: int) -> int | None:
        """Find an instance by the id of its bag, as a string, and its row.

        Parameters
        ----------
        bag : str
            The id of the bag.
        row : int
            The row inside the bag.

        Returns
        -------
        int or None
            A row of ``bags.instances``; None if there is no such bag.
        """
        place = self._position.get(bag)
        return None if place is None else int(self._bags.offsets[place]) + row

    def _annotated(self, part: slice) -> Floats:
        offsets = self._bags.offsets
        known = self._known[offsets[part.start] : offsets[part.stop]]
        proba = self._model.annotate_proba(
            self._bags[part], self._sets[part], instance_labels=known
        )
        proba = proba[:, : len(self.names)]
        if getattr(self._model, "missing_", 0) == 0:
            return proba
        # The model may predict a label outside the set; a reviewer chooses from the set.
        for bag in range(part.start, part.stop):
            rows = slice(*(offsets[bag : bag + 2] - offsets[part.start]))
            allowed = np.isin(self.names, self.choices(int(offsets[bag])))
            if allowed.any():
                proba[rows] = np.where(allowed, proba[rows], 0.0)
                proba[rows] /= np.maximum(proba[rows].sum(axis=1, keepdims=True), TINY)
        return proba

    def _least_certain(self) -> Ints:
        n_choices = [len(self.choices(int(first))) for first in self._bags.offsets[:-1]]
        open_bags = np.array(n_choices) > 1  # more than one possible label
        order = np.lexsort((self.certainty(slice(None)), self.state != DECIDED))
        return order[open_bags[self._bags.bag_index[order]]][: self._limit]

    def _change_set(self, bag: int, label: str, present: bool | None) -> None:
        changes = self._set_changes.setdefault(bag, {})
        if present is None:
            changes.pop(self._labels[label], None)
        else:
            changes[self._labels[label]] = present

    def _update_set(self, bag: int) -> None:
        """Update a label set: the given one, with all decisions about the bag and its instances.

        An unknown set stays unknown.
        """
        given, changes = self._given[bag], self._set_changes.get(bag, {})
        if given is None:
            return
        more = {value for value, there in changes.items() if there}
        less = {value for value, there in changes.items() if not there}
        known = self._known[self._bags.offsets[bag] : self._bags.offsets[bag + 1]]
        heard = {label for label in known if label is not None} & self._classes
        self._sets[bag] = ((given | more) - less) | heard
