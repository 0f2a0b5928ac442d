"""All methods on all data sets, by stored predictions: `python -m benchmarks.leaderboard show`.

`bags.parquet` has the labels and folds of the bags, and a file per method its predictions for the
bags of each held-out fold; `show` computes every number of the tables from them, without the data.
`add module:Class` fits a method of yours on the same folds, and shows its row beside the others.
Without a command, the missing predictions are computed and stored; `page` writes their means to
benchmarks/kept/leaderboard.json, the tables of docs/leaderboard.md and its figures.

Each method has its defaults and the same folds; instances are standardised inside the folds, and
the automatic method chooses inside them.
"""

from .cells import BASELINES, SLOW
from .sets import SETS, synthetic
from .tables import kept_results, table

__all__ = ["BASELINES", "SETS", "SLOW", "kept_results", "synthetic", "table"]
