"""One seed, many independent streams of random numbers, each with a name.

A stream depends on the seed and its name alone, so drawing more numbers for one purpose never
shifts another, and a resumed or distributed run finds its place by name instead of by state.
"""

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def derive_seed(seed: int, *names: str | int) -> int:
    """Return a seed in [0, 2**63) that is the same on every machine, Python and run.

    Args:
        seed: the seed of the run.
        names: what the numbers are for, for example `"perturb", update, rank`.
    """
    # JSON keeps ("a", "b") and ("ab",), and 1 and "1", apart. `hash()` changes with the process.
    text = json.dumps([seed, *names])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(
    seed: int, *names: str | int, device: "str | torch.device" = "cpu"
) -> "torch.Generator":
    """Return a new generator at the beginning of the named stream."""
    import torch

    return torch.Generator(device).manual_seed(derive_seed(seed, *names))
