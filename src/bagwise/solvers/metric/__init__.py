"""Metric learning from label sets of bags."""
