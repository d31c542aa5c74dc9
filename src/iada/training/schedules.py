"""Learning rate as a function of the update."""

import math


def inverse_square_root(update: int, warmup: int) -> float:
    """Return the share of the peak rate at an update, counted from 1.

    Rises linearly to 1 at the end of the warm-up, then falls with the square root of the update.
    """
    warmup = max(warmup, 1)
    return min(update / warmup, math.sqrt(warmup / update))
