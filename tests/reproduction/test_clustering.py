"""The clustering paper: hidden labels, number of clusters, and results."""

import dataclasses

import numpy as np

from reproduction import (
    Store,
    load_paper,
    make_plan,
    make_report,
    run_plan,
)
from reproduction.sources import partly_labelled

FROST = "bagwise.datasets:load_letter_frost"


def test_labels_are_hidden_and_clusters_counted():
    full = partly_labelled(FROST, {"random_state": 0})
    assert (full.label_sets >= 0).all()
    assert full.n_clusters == len(np.unique(full.instance_labels))
    half = partly_labelled(
        FROST, {"random_state": 0}, labelled=0.5, clusters_per_class=2.0, random_state=1
    )
    hidden = (half.label_sets == -1).all(axis=1)
    assert hidden.sum() == len(hidden) - round(0.5 * len(hidden))
    np.testing.assert_array_equal(half.label_sets[~hidden], full.label_sets[~hidden])
    assert half.n_clusters == 2 * full.n_clusters
    np.testing.assert_array_equal(half.bags.instances, full.bags.instances)


def small(name, **changes):
    paper = load_paper("csp")
    experiment = paper.experiment(name)
    changes = {"data": ("frost",), "repetitions": 1} | changes
    return make_plan(paper, dataclasses.replace(experiment, **changes))


def test_constraints_help_on_the_letters(tmp_path):
    plan = small("purity", methods=("sp", "csp-ours"), repetitions=2)
    store = Store(tmp_path / "purity.jsonl")
    run_plan(plan, store)
    plain, ours = (row.ours[0] for row in make_report(plan, store).rows if row.metric == "purity")
    assert 0.2 < plain < ours < 1
