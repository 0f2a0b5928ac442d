"""Instance labels from the label sets of bags."""
