"""The command line (``bagwise --help``): a file per command, which imports heavy modules late."""

from bagwise.cli.app import app, main
