"""Protocols for instance clustering: bags with label sets, evaluated by instance labels."""

from __future__ import annotations

import time
from typing import Any

from sklearn.preprocessing import StandardScaler

from bagwise.preprocessing import InstanceTransformer
from reproduction._building import build_model, with_seed
from reproduction._protocols.fitting import scores
from reproduction._units import Unit

__all__ = ["instance_clustering"]


def instance_clustering(unit: Unit) -> dict[str, Any]:
    """Cluster all instances given the label sets of labelled bags; evaluate by instance labels.

    The data set gives the number of clusters. All instances are standardised together, as there is
    no test set.
    """
    data = unit.load()
    bags = InstanceTransformer(StandardScaler()).fit_transform(data.bags)
    model = with_seed(build_model(unit.settings["model"], {}), unit.seed)
    model.set_params(n_clusters=data.n_clusters)
    start = time.perf_counter()
    clusters = model.fit_predict(bags, data.label_sets)
    elapsed = time.perf_counter() - start
    return scores(unit, data.instance_labels, clusters) | {"fit_seconds": elapsed}
