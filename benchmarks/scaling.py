"""How the cost of a training step grows: window length, vocabulary, batch, model, processes.

    python benchmarks/scaling.py [--rounds 5]

One quantity varies at a time, from the small shape; one thread per process. Seconds are medians;
the systems take turns with stock Hugging Face Marian, as in `step.py`. Several processes train
through `torchrun` with gloo on one machine, each with its own batch and one thread, so perfect
scaling multiplies the tokens per second by their number. Not more processes are started than
there are cores.
"""

import json
import os
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from measuring import FOLDER, RESULTS, Worker, draw_lines, save, table
from workload import SHAPES, Shape

from iada.cli.parsing import parse_dataclass

SYSTEMS: dict[str, dict[str, str]] = {
    "stock Hugging Face": {"system": "hf"},
    "plain training": {"system": "iada", "measure": "none"},
    "TNorm": {"system": "iada", "measure": "tnorm"},
    "GNorm": {"system": "iada", "measure": "gnorm"},
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to measure."""

    shape: str = "small"
    """Where everything starts: see `workload.SHAPES`."""
    lengths: tuple[int, ...] = (50, 100, 200, 400)
    """Tokens of a window, on each side; the batch keeps its number of tokens."""
    vocabularies: tuple[int, ...] = (4000, 8000, 16_000, 32_000)
    """Sizes of the vocabulary."""
    windows: tuple[int, ...] = (4, 8, 16, 32)
    """Rows of a batch."""
    dims: tuple[int, ...] = (128, 256, 512)
    """Widths of the model; feed-forward layers are four times as wide, heads have 64 dimensions."""
    processes: tuple[int, ...] = (1, 2)
    """Numbers of processes."""
    rounds: int = 5
    """Steps of each system."""
    output: Path = RESULTS
    """Folder of the numbers and the plot."""


Points = dict[str, dict[int, float]]
"""System to size to a number."""


def main(options: Options) -> None:
    start = SHAPES[options.shape]
    tokens = start.windows * start.length
    varied: dict[str, dict[int, Shape]] = {
        "window length": {
            n: replace(start, length=n, windows=max(1, tokens // n)) for n in options.lengths
        },
        "vocabulary": {n: replace(start, vocabulary=n) for n in options.vocabularies},
        "windows in a batch": {n: replace(start, windows=n) for n in options.windows},
        "dim": {
            n: replace(start, dim=n, feed_forward=4 * n, heads=max(1, n // 64))
            for n in options.dims
        },
    }
    seconds, memory = {}, {}
    for name, shapes in varied.items():
        seconds[name], memory[name] = measure(name, shapes, options.rounds)
    rates = {
        name: {count: distributed_rate(start, request, count, options.rounds) for count in counts}
        for name, request in SYSTEMS.items()
        if request["system"] == "iada"
        for counts in [[n for n in options.processes if n <= (os.cpu_count() or 1)]]
    }
    save(
        "scaling",
        {
            "rounds": options.rounds,
            "start": asdict(start),
            "seconds": seconds,
            "peak_megabytes": memory,
            "tokens_per_second_by_processes": rates,
        },
        options.output,
    )
    draw_lines(
        seconds,
        options.output / "scaling.svg",
        unit="seconds of a step",
    )
    for name, points in seconds.items():
        print(f"\nseconds by {name}\n{_table(points)}")
    print(f"\ntokens per second by processes\n{_table(rates)}")


def measure(name: str, shapes: dict[int, Shape], rounds: int) -> tuple[Points, Points]:
    """Return seconds and peak memory of every system at every size."""
    seconds: Points = {system: {} for system in SYSTEMS}
    memory: Points = {system: {} for system in SYSTEMS}
    for size, shape in shapes.items():
        requests = {s: {**request, "shape": asdict(shape)} for s, request in SYSTEMS.items()}
        workers = {system: Worker("ours.py", request) for system, request in requests.items()}
        samples = [{s: worker.step() for s, worker in workers.items()} for _ in range(rounds)]
        for system, worker in workers.items():
            seconds[system][size] = statistics.median(s[system].seconds for s in samples)
            memory[system][size] = worker.stop()
        print(f"{name} {size}: done", file=sys.stderr)
    return seconds, memory


def distributed_rate(shape: Shape, request: dict[str, Any], processes: int, rounds: int) -> float:
    """Return source and target tokens per second of all processes together."""
    argument = json.dumps({**request, "shape": asdict(shape), "rounds": rounds})
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, f"--nproc_per_node={processes}", str(FOLDER / "distributed.py"), argument],
        env=os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    seconds: float = json.loads(lines[-1])["seconds"]
    return processes * 2 * shape.windows * shape.length / seconds


def _table(points: Points) -> str:
    sizes = list(next(iter(points.values())))
    digits = 0 if max(max(row.values()) for row in points.values()) > 100 else 2
    rows = [[name, *(f"{row[n]:.{digits}f}" for n in sizes)] for name, row in points.items()]
    return table([["", *map(str, sizes)], *rows])


if __name__ == "__main__":
    main(parse_dataclass(Options, sys.argv[1:], program="benchmarks/scaling.py"))
