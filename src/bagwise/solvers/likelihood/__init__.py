"""Noisy-or and most-likely-cause likelihoods: diverse density, EM-DD, MILBoost."""
