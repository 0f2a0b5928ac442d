"""Run the steps of a solver where the bags are: in this process, on a device or on Dask workers.

A solver defines a `Part`: a block of whole bags with the state of the algorithm for them. `place`
creates parts where the bags are. The solver then uses ``total`` (call a method of every part and
add the results), ``each`` (call and collect) and ``do`` (call for the effect on the state). After
the loss of a worker, ``rebuild`` creates the parts again.

Three functions repeat work after the loss of a worker. ``connection.retry_work`` repeats a single
request to the cluster (load partitions, map over them, create parts), `retry_on_new_parts` a whole
computation on parts that starts from their initial state, and `iterate` the steps of a loop since
its last checkpoint. All give up after ``connection.LOSSES`` attempts without progress; an error
with ``final`` set is not retried.
"""

from bagwise.engines.arrays import to_numpy
from bagwise.engines.blocks import (
    bag_blocks,
    bag_blocks_ahead,
    in_blocks,
    map_rows,
    read_bag_blocks,
    readable_table,
    row_blocks,
    rows_of,
    take_column,
    take_rows,
)
from bagwise.engines.checkpoint import Checkpoint
from bagwise.engines.loop import Journal, iterate, retry_on_new_parts
from bagwise.engines.parts import Part, Parts, codes_by_bag, codes_of_instances, digest
from bagwise.engines.placement import (
    by_place,
    bytes_in_file,
    check_each,
    check_place,
    each_partition,
    fold_bags,
    is_here,
    local_instances,
    map_bags,
    memory_of_parts,
    one_core_if_few_instances,
    over_blocks,
    over_partitions,
    over_tasks,
    place,
    require_local,
)
