"""The algorithms of the papers, as functions on arrays."""

from bagwise.solvers.result import SolverResult

__all__: list[str] = []
