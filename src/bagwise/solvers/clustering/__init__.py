"""Kernel k-means and maximum margin clustering."""
