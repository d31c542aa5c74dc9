"""Updates of one process among several that train together; started by `scaling.py`.

Rounds alternate: the first process updates alone while the others sleep, then all update together.
So both sides of a round meet the same state of the machine.
"""

import contextlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from ours import objective_and_batch, our_model
from torch.nn.parallel import DistributedDataParallel
from workload import Shape

from iada.runs.environment import keep_freed_memory


def main(request: dict[str, Any]) -> None:
    """Print the seconds of a micro-batch, its share of the update included, for every round."""
    torch.set_num_threads(1)
    keep_freed_memory()
    dist.init_process_group("gloo")
    shape = Shape(**request["shape"])
    accumulation: int = request["accumulation"]

    def updater(*, together: bool) -> Callable[[], None]:
        """Return an update of a model of its own."""
        torch.manual_seed(0)
        model = our_model(shape)
        objective, make_batch = objective_and_batch(model, shape, request)
        wrapper = DistributedDataParallel(model) if together else None
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

        def update() -> None:
            for number in range(accumulation):
                # As the trainer does: gradients are exchanged in the last backward pass alone.
                apart = number < accumulation - 1
                with wrapper.no_sync() if wrapper and apart else contextlib.nullcontext():
                    losses = objective(make_batch(), module=wrapper)
                    (losses.total / losses.count).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()

        return update

    def seconds(update: Callable[[], None]) -> float:
        dist.barrier()
        started = time.perf_counter()
        update()
        dist.barrier()
        return (time.perf_counter() - started) / accumulation

    together = updater(together=True)
    alone = updater(together=False) if dist.get_rank() == 0 else lambda: None
    # The first updates find memory; they do not count.
    seconds(alone)
    seconds(together)
    rounds = [{"one": seconds(alone), "all": seconds(together)} for _ in range(request["rounds"])]
    if dist.get_rank() == 0:
        print(json.dumps(rounds), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
