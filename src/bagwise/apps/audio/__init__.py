"""Recordings: files of BirdNET and Perch-Hoplite, selections of Raven and Audacity."""

from bagwise.apps.audio._recordings import read_recordings

__all__ = ["read_recordings"]
