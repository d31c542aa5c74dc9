"""Steps of one process among several that train together; started by `scaling.py`."""

import json
import statistics
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from ours import objective_and_batch, stock_model
from torch.nn.parallel import DistributedDataParallel
from workload import Shape

from iada.training.memory import keep_freed_memory


def main(request: dict[str, Any]) -> None:
    """Print the median seconds of a step, from the first process."""
    torch.set_num_threads(1)
    keep_freed_memory()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    shape = Shape(**request["shape"])
    model = stock_model(shape)
    objective, make_batch = objective_and_batch(model, shape, request)
    wrapper = DistributedDataParallel(model) if dist.get_world_size() > 1 else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    seconds = []
    for _ in range(request["rounds"] + 1):
        dist.barrier()
        started = time.perf_counter()
        losses = objective(make_batch(), module=wrapper)
        (losses.total / losses.count).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()
        seconds.append(time.perf_counter() - started)
    if dist.get_rank() == 0:
        print(json.dumps({"seconds": statistics.median(seconds[1:])}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
