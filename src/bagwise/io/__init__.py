"""Reading and writing bags: CSV, Parquet, NumPy archives, HDF5 folders and data frames."""

from bagwise.io._reading import read_bags, write_bags

__all__ = ["read_bags", "write_bags"]
