"""Solvers of the rivals: functions on rows that return a `SolverResult`."""
