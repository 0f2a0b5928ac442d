"""Where does the work run? Here, on a device, or on a cluster: wherever the bags are.

A solver describes a *part*: a block of whole bags with the state of the algorithm for them. `place`
makes parts where the bags are, and the solver then knows four operations: ``total`` (call a method
of every part and add the answers), ``each`` (collect them), ``hand_out`` (each part gets a value of
its own) and ``rebuild`` (after a worker was lost). `iterate` is the loop around them.
"""

from __future__ import annotations

from bagwise.engines.arrays import is_tensor, to_numpy
from bagwise.engines.checkpoint import Checkpoint, iterate, persist
from bagwise.engines.journal import Journal
from bagwise.engines.parts import (
    Parts,
    codes_by_bag,
    codes_of_instances,
    digest,
    is_local,
    memory_of_parts,
    over_partitions,
    over_tasks,
    place,
)

__all__ = [
    "Checkpoint",
    "Journal",
    "Parts",
    "codes_by_bag",
    "codes_of_instances",
    "digest",
    "is_local",
    "is_tensor",
    "iterate",
    "memory_of_parts",
    "over_partitions",
    "over_tasks",
    "persist",
    "place",
    "to_numpy",
]
