"""Spectral clustering with bag constraints (Pei and Fern 2014), and eigenvectors."""
