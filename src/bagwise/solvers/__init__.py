"""The algorithms of the papers, as functions on arrays."""

from bagwise.solvers.result import SolverResult
