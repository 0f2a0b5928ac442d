"""Exact line search for convex piecewise quadratic functions."""

from collections.abc import Callable


def line_search(slope: Callable[[float], float], slope_at_start: float) -> float:
    """Find where the slope along a descent direction is nearly zero, by secants and bisection.

    Parameters
    ----------
    slope : callable
        The derivative at a step length between 0 and 1; non-decreasing.
    slope_at_start : float
        The derivative at length 0.

    Returns
    -------
    float
        The step length: 1 if the function still decreases, or hardly increases, at length 1; 0 if
        it does not decrease at the start.
    """
    if not slope_at_start < 0:
        return 0.0
    low, high, slope_low, slope_high = 0.0, 1.0, slope_at_start, slope(1.0)
    enough = 0.1 * abs(slope_at_start)
    length, halve = 1.0, False
    while slope_high > enough and high - low > 1e-12:
        secant = slope_low / (slope_low - slope_high)
        length = low + (high - low) * (0.5 if halve else secant)
        halve = not halve
        found = slope(length)
        if abs(found) <= enough:
            break
        if found > 0:
            high, slope_high = length, found
        else:
            low, slope_low = length, found
    return length
