"""The processes that share a run."""

import torch
from accelerate import PartialState


def on_cpu() -> bool:
    """Whether there is no accelerator to train on."""
    return not torch.accelerator.is_available()


def process_state() -> PartialState:
    """Return this process's place among the processes that `torchrun` or `accelerate` started.

    Without an accelerator this must be said: the library would otherwise see the processes as
    strangers, and each would train on all batches.
    """
    return PartialState(cpu=on_cpu())
