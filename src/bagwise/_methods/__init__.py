"""The methods by their names on the command line. A new method is one entry here."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bagwise.exceptions import InputError

__all__ = ["CSP", "METHODS", "Method", "find_method", "make_model"]


@dataclass(frozen=True)
class Method:
    """A method of the command line.

    Attributes
    ----------
    name : str
        Its paper name, in lower case.
    title : str
        What it does, in one line.
    paper : str
        Where it comes from.
    target : str
        ``"module:name"`` of the estimator, or of a function that makes one; loaded when needed.
    label_sets : bool
        Whether it also learns from a label set per bag.
    fixed : dict
        Parameters that make it this method.
    needs : str or None
        An optional package it cannot do without.
    """

    name: str
    title: str
    paper: str
    target: str
    label_sets: bool = False
    fixed: Mapping[str, Any] = field(default_factory=dict)
    needs: str | None = None

    @property
    def available(self) -> bool:
        """Whether the package it needs is installed."""
        return self.needs is None or importlib.util.find_spec(self.needs) is not None

    @property
    def factory(self) -> Callable[..., Any]:
        """The estimator class, or the function that makes an estimator."""
        module, _, name = self.target.partition(":")
        return getattr(importlib.import_module(module), name)

    @property
    def parameters(self) -> dict[str, Any]:
        """Names and defaults of the parameters that may be set."""
        found = inspect.signature(self.factory).parameters.values()
        return {p.name: p.default for p in found if p.name not in self.fixed}

    def check_labels(self, *, label_sets: bool) -> None:
        """Refuse label sets where the method learns from one label per bag."""
        if label_sets and not self.label_sets:
            able = ", ".join(method.name for method in METHODS.values() if method.label_sets)
            raise InputError(
                f"{self.name} learns from one label per bag, and these bags have label sets: use "
                f"{able}."
            )

    def make(self, parameters: Mapping[str, Any]) -> Any:
        """Make the estimator."""
        known = self.parameters
        for name in parameters:
            if name not in known:
                raise InputError(
                    f"{self.name} has no parameter {name!r}: it has {', '.join(known)}."
                )
        return self.factory(**self.fixed, **parameters)


METHODS = {
    method.name: method
    for method in (
        Method(
            "pdmisvm",
            "Multi-instance SVM of all classes at once: a bag is judged by its best instance",
            "Brand, Baker, Ellefsen, Wang: A linear primal-dual multi-instance SVM for big data "
            "classifications. ICDM 2021",
            "bagwise.classification:PrimalDualMISVM",
            fixed={"random_state": 0},
        ),
        Method(
            "wellsvm",
            "convex SVM that weighs several choices of key instances (WellSVM)",
            "Li, Tsang, Kwok, Zhou: Convex and scalable weakly labeled SVMs. JMLR 2013",
            "bagwise.classification:WellMISVM",
        ),
        Method(
            "misvm-bag",
            "SVM on one witness per positive bag (MI-SVM)",
            "Andrews, Tsochantaridis, Hofmann: Support vector machines for multiple-instance "
            "learning. NIPS 2002",
            "bagwise.classification:BagMarginSVM",
        ),
        Method(
            "misvm-instance",
            "SVM on all instances, relabelled until they agree with their bags (mi-SVM)",
            "Andrews, Tsochantaridis, Hofmann: Support vector machines for multiple-instance "
            "learning. NIPS 2002",
            "bagwise.classification:InstanceMarginSVM",
        ),
        Method(
            "smil",
            "SVM that expects few positive instances in a positive bag (sMIL)",
            "Bunescu, Mooney: Multiple instance learning for sparse positive bags. ICML 2007",
            "bagwise.classification:SparseMIL",
        ),
        Method(
            "sbmil",
            "sMIL, then an SVM on the share of instances it ranks highest (sbMIL)",
            "Bunescu, Mooney: Multiple instance learning for sparse positive bags. ICML 2007",
            "bagwise.classification:BalancedSparseMIL",
        ),
        Method(
            "nsk",
            "SVM on the normalised set kernel: all instances of two bags are compared",
            "Gärtner, Flach, Kowalczyk, Smola: Multi-instance kernels. ICML 2002",
            "bagwise.classification:SetKernelSVM",
            fixed={"bag_kernel": "nsk"},
        ),
        Method(
            "minimax",
            "SVM on the smallest and largest values of each feature in a bag",
            "Gärtner, Flach, Kowalczyk, Smola: Multi-instance kernels. ICML 2002",
            "bagwise.classification:SetKernelSVM",
            fixed={"bag_kernel": "minimax"},
        ),
        Method(
            "citation-knn",
            "Votes of the nearest bags, and of the bags to which this one is near",
            "Wang, Zucker: Solving the multiple-instance problem: a lazy learning approach. ICML "
            "2000",
            "bagwise.classification:CitationKNN",
            label_sets=True,
        ),
        Method(
            "miles",
            "Sparse linear SVM on the similarities of a bag to the training instances",
            "Chen, Bi, Wang: MILES: multiple-instance learning via embedded instance selection. "
            "PAMI 28, 2006",
            "bagwise.classification:MILES",
            fixed={"random_state": 0},
        ),
        Method(
            "milboost",
            "Boosted trees on instances whose noisy-or is the probability of the bag",
            "Viola, Platt, Zhang: Multiple instance boosting for object detection. NIPS 2005",
            "bagwise.classification:MILBoost",
        ),
        Method(
            "emdd",
            "A point near which positive bags have an instance, the nearest speaking for its bag",
            "Zhang, Goldman: EM-DD: an improved multiple-instance learning technique. NIPS 2001",
            "bagwise.classification:EMDD",
            fixed={"random_state": 0},
        ),
        Method(
            "dd",
            "A point near which positive bags have an instance, by noisy-or (diverse density)",
            "Maron, Lozano-Pérez: A framework for multiple-instance learning. NIPS 1997",
            "bagwise.classification:DiverseDensity",
            fixed={"random_state": 0},
        ),
        Method(
            "c2b",
            "The mean distance of a class's instances to a bag, in a metric learned per class",
            "Wang, Nie, Huang: Robust and discriminative distance for multi-instance learning. "
            "CVPR 2012",
            "bagwise.classification:ClassToBag",
            label_sets=True,
            fixed={"random_state": 0},
        ),
        Method(
            "mimlca",
            "Citation-kNN in a distance with one dimension per label, learned from them: for many",
            "Law, Yu, Urtasun, Zemel, Xing: Efficient multiple instance metric learning using "
            "weakly supervised data. CVPR 2017",
            "bagwise._methods.ready_made:metric_citation_knn",
            label_sets=True,
        ),
        Method(
            "minet",
            "A small neural network: instance scores pooled (level=embedding: embeddings pooled)",
            "Wang, Yan, Tang, Bai, Liu: Revisiting multiple instance neural networks. Pattern "
            "Recognition 74, 2018",
            "bagwise.classification:MINet",
            fixed={"random_state": 0},
            needs="torch",
        ),
        Method(
            "orlr",
            "Logistic regression of instances whose labels together make the label set of the bag",
            "Pham, Raich, Fern: Efficient instance annotation in multi-instance learning. IEEE SSP "
            "2014",
            "bagwise.annotation:ORedLogisticRegression",
            label_sets=True,
        ),
        Method(
            "ranklosssim",
            "Linear scores of instances that rank the labels of their bag (rank-loss SIM)",
            "Briggs, Fern, Raich: Rank-loss support instance machines for MIML instance "
            "annotation. KDD 2012",
            "bagwise.annotation:RankLossSIM",
            label_sets=True,
        ),
        Method(
            "m3miml",
            "A maximum-margin machine per label; a bag is judged by its best instance",
            "Zhang, Zhou: M3MIML: a maximum margin method for multi-instance multi-label learning. "
            "ICDM 2008",
            "bagwise.annotation:M3MIML",
            label_sets=True,
        ),
        Method(
            "mind",
            "Linear SVM on the distances of a bag to the training bags",
            "Cheplygina, Tax, Loog: Multiple instance learning with bag dissimilarities. Pattern "
            "Recognition 48, 2015",
            "bagwise._methods.ready_made:dissimilarity_svm",
        ),
        Method(
            "sil",
            "Linear SVM on single instances that take the label of their bag: the baseline",
            "Ray, Craven: Supervised versus multiple instance learning. ICML 2005",
            "bagwise._methods.ready_made:single_instance_svm",
        ),
    )
}


# It labels instances, not bags, so `bagwise cluster` alone uses it.
CSP = Method(
    "csp",
    "Spectral clustering of instances, with the label sets of their bags as constraints",
    "Pei, Fern: Constrained instance clustering in multi-instance multi-label learning. Pattern "
    "Recognition Letters 37, 2014",
    "bagwise.cluster:BagConstrainedSpectralClustering",
    label_sets=True,
    fixed={"random_state": 0},
)


def find_method(name: str) -> Method:
    """Return a method by its name, or an error that names its neighbours.

    Parameters
    ----------
    name : str
        The name of a method.

    Returns
    -------
    Method
    """
    if name in METHODS:
        return METHODS[name]
    near = difflib.get_close_matches(name.lower(), METHODS, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise InputError(f"no method is called {name!r}.{hint} There are {', '.join(METHODS)}.")


def make_model(method: Method, parameters: Mapping[str, Any], *, scale: bool, sparse: bool) -> Any:
    """Make the estimator, after a step that standardises the instances.

    Parameters
    ----------
    method : Method
        The method.
    parameters : mapping
        Its parameters.
    scale : bool
        Whether instances are standardised.
    sparse : bool
        Whether instances are sparse: they are divided by their deviation then, not centred.

    Returns
    -------
    estimator
    """
    from bagwise._methods.ready_made import standardised

    model = method.make(parameters)
    return standardised(model, sparse=sparse) if scale else model
