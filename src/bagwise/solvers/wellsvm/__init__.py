"""WellSVM (Li et al. 2013): label generation by cutting planes."""
