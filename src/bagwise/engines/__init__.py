"""Run the steps of a solver where the bags are: in this process, on a device or on Dask workers.

A solver defines a *part*: a block of whole bags with the state of the algorithm for them. `place`
makes parts where the bags are. The solver then uses ``total`` (call a method of every part and add
the results), ``each`` (call and collect) and ``do`` (call for the effect on the state). After a
worker was lost, ``rebuild`` makes the parts anew. `iterate` is the loop around these calls, and
`retry` repeats work that has no loop.
"""

from bagwise.engines.arrays import to_numpy
from bagwise.engines.checkpoint import Checkpoint
from bagwise.engines.loop import Journal, iterate, retry
from bagwise.engines.parts import Parts, codes_by_bag, codes_of_instances, digest
from bagwise.engines.placement import (
    by_place,
    check_each,
    check_place,
    fold_bags,
    local_instances,
    map_bags,
    memory_of_parts,
    one_core_if_few_instances,
    over_blocks,
    over_partitions,
    over_tasks,
    place,
    releasing_parts,
    require_local,
)
