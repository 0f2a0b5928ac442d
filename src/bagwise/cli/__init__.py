"""The command line, ``bagwise --help``: one file per command, and heavy rooms load inside them."""

from bagwise.cli.app import app, main

__all__ = ["app", "main"]
