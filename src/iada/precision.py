"""Where half precision ends: losses, norms and statistics are computed in float32 or better."""

import torch
from torch import Tensor


def at_least_float32(values: Tensor) -> Tensor:
    """Return float64 as it is and everything narrower as float32."""
    return values if values.dtype == torch.float64 else values.float()
