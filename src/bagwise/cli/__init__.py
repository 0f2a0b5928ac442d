"""The command line, ``bagwise --help``: one file per command; heavy modules load inside them."""

from bagwise.cli.app import app, main

__all__ = ["app", "main"]
