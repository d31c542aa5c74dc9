"""Updates of one process among several that train together; started by `scaling.py`."""

import contextlib
import json
import statistics
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from ours import objective_and_batch, our_model
from torch.nn.parallel import DistributedDataParallel
from workload import Shape

from iada.training.memory import keep_freed_memory


def main(request: dict[str, Any]) -> None:
    """Print the median seconds of a micro-batch, its share of the update included."""
    torch.set_num_threads(1)
    keep_freed_memory()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    shape = Shape(**request["shape"])
    model = our_model(shape)
    objective, make_batch = objective_and_batch(model, shape, request)
    wrapper = DistributedDataParallel(model) if dist.get_world_size() > 1 else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def update(micro_batches: int) -> float:
        dist.barrier()
        started = time.perf_counter()
        for number in range(micro_batches):
            # As the trainer does: gradients are exchanged in the last backward pass alone.
            apart = wrapper is not None and number < micro_batches - 1
            with wrapper.no_sync() if wrapper and apart else contextlib.nullcontext():
                losses = objective(make_batch(), module=wrapper)
                (losses.total / losses.count).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()
        return (time.perf_counter() - started) / micro_batches

    update(1)
    seconds = [update(request["accumulation"]) for _ in range(request["updates"])]
    if dist.get_rank() == 0:
        print(json.dumps({"seconds": statistics.median(seconds)}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
