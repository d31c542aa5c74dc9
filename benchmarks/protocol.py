"""The measured side: a process that makes one training step whenever it is told to.

Each system runs in a process of its own, which gives it its own peak memory and allocator, while
the steps of different systems alternate, so that all of them see the same noise. Needs PyTorch
only.
"""

import json
import resource
import sys
import time
from collections.abc import Callable

import torch

PROBE_SIZE = 2048
PROBE_OPERATIONS = 2.0 * PROBE_SIZE**3


def serve(step: Callable[[], None]) -> None:
    """Warm up, then answer each line on standard input with the seconds of one step.

    Also with the processor time of the step and of a large matrix product before it.
    """
    matrix = torch.randn(PROBE_SIZE, PROBE_SIZE)
    torch.mm(matrix, matrix)
    step()
    _say({"ready": True})
    for line in sys.stdin:
        if line.strip() == "stop":
            break
        used = time.process_time()
        torch.mm(matrix, matrix)
        probe = time.process_time() - used
        used, started = time.process_time(), time.perf_counter()
        step()
        seconds = time.perf_counter() - started
        _say({"seconds": seconds, "cpu": time.process_time() - used, "probe": probe})
    # Linux counts in kilobytes.
    _say({"peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024})


def _say(message: dict[str, float | bool]) -> None:
    print(json.dumps(message), flush=True)
