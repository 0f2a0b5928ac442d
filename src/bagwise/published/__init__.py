"""The systems of the five papers exactly as printed, one function per paper.

A function returns an unfitted estimator of its own class that runs the printed algorithm. Its
docstring has the equations, and what our default changes and why. The other packages have our
defaults.
"""

__all__: list[str] = []
