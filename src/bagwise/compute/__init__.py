"""Run the steps of a solver where the bags are: in this process, on a device or on Dask workers.

A solver defines a `Part`: a block of whole bags with the state of the algorithm for them. `place`
creates parts where the bags are. The solver then uses ``total`` (call a method of every part and
add the results), ``step`` (the same for a method that changes the part), ``each`` (call and
collect) and ``do`` (call for the effect on the state). On Dask workers a part is a future: if a
worker is lost, Dask computes the part again.
"""

from bagwise.compute.arrays import to_numpy
from bagwise.compute.blocks import (
    bag_blocks,
    in_blocks,
    map_rows,
    read_bag_blocks,
    readable_table,
    row_blocks,
    rows_of,
    take_rows,
)
from bagwise.compute.parts import NO_CHECKPOINT, Checkpoint, Part, Parts, digest, iterate
from bagwise.compute.placement import (
    bytes_in_file,
    check_each,
    check_place,
    each_partition,
    fold_bags,
    is_here,
    map_bags,
    memory_of_parts,
    over_blocks,
    over_partitions,
    place,
)
