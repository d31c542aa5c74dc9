"""How the cost of a training step grows: window length, vocabulary, batch, model, processes.

    python benchmarks/scaling.py [--parts vocabulary processes] [--rounds 5]

One quantity varies at a time, from the small shape; one thread per process. Seconds are medians of
processor time; the systems take turns with stock Hugging Face Marian, as in `step.py`. A straight
line is fitted to the seconds over each quantity. Several processes train through `torchrun` with
gloo on one machine, each with its own batches and one thread, so perfect scaling multiplies the
tokens per second by their number; these are seconds by the clock, and updates of one process and
of all take turns. Parts that an earlier call left in the output folder and that this one does not
measure are kept.
"""

import json
import os
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
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

    parts: tuple[str, ...] = (
        *("window length", "vocabulary", "windows in a batch", "dim"),
        "processes",
    )
    """Which quantities to vary."""
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
    processes: int = 2
    """Number of processes that train together; at most one per core."""
    accumulations: tuple[int, ...] = (1, 8)
    """Micro-batches per update of several processes."""
    rounds: int = 5
    """Steps of each system; of several processes, updates."""
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
    report = earlier(options.output)
    for name, shapes in varied.items():
        if name in options.parts:
            report["seconds"][name], report["peak_megabytes"][name] = measure(
                name, shapes, options.rounds
            )
            report["fits"][name] = fit(report["seconds"][name])
    if "processes" in options.parts:
        report["processes"] = rates(start, options)
    save("scaling", {**report, "start": asdict(start)}, options.output)
    if report["seconds"]:
        draw_lines(report["seconds"], options.output / "scaling.svg", unit="seconds of a step")
    for name, points in report["seconds"].items():
        print(f"\nseconds by {name}\n{_table(points)}")
        for system, line in report["fits"][name].items():
            print(f"{system}: {line['intercept']:.3f} + {line['slope']:.3g} n, R² {line['r2']:.4f}")
    if found := report["processes"]:
        rows = [
            [name, f"{rate['one']:.0f}", f"{rate['all']:.0f}", f"{rate['times']:.2f}"]
            for name, rate in found.items()
        ]
        print(f"\ntokens per second\n{table([['', 'one process', 'all', 'times'], *rows])}")


def earlier(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what earlier calls measured."""
    report: dict[str, dict[str, Any]] = {
        key: {} for key in ("seconds", "peak_megabytes", "fits", "processes")
    }
    path = folder / "scaling.json"
    if path.is_file():
        found = json.loads(path.read_text(encoding="utf-8"))
        report |= {key: _numbered(found[key]) for key in report if key in found}
    return report


def _numbered(value: Any) -> Any:
    """Turn keys back into the numbers that JSON made text of."""
    if not isinstance(value, dict):
        return value
    return {int(k) if k.isdigit() else k: _numbered(v) for k, v in value.items()}


def fit(points: Points) -> dict[str, dict[str, float]]:
    """Fit a straight line to each system's seconds: slope, intercept, share of variance."""
    lines = {}
    for system, row in points.items():
        sizes, seconds = np.array(list(row)), np.array(list(row.values()))
        slope, intercept = np.polyfit(sizes, seconds, 1)
        unexplained = np.square(seconds - slope * sizes - intercept).sum()
        total = np.square(seconds - seconds.mean()).sum()
        r2 = 1 - float(unexplained / total)
        lines[system] = {"slope": float(slope), "intercept": float(intercept), "r2": r2}
    return lines


def rates(shape: Shape, options: Options) -> dict[str, dict[str, float]]:
    """Return tokens per second of one process and of all, for each system and accumulation."""
    processes = min(options.processes, os.cpu_count() or 1)
    found = {}
    for accumulation in options.accumulations:
        for name, request in SYSTEMS.items():
            if request["system"] != "iada":
                continue
            settings = {**request, "accumulation": accumulation, "rounds": options.rounds}
            rounds = distributed_rounds(shape, settings, processes)
            tokens = 2 * shape.windows * shape.length
            one, together = (statistics.median(r[side] for r in rounds) for side in ("one", "all"))
            found[f"{name}, {accumulation} per update"] = {
                "processes": processes,
                "rounds": len(rounds),
                "one": tokens / one,
                "all": processes * tokens / together,
                # Of the two sides of one round: between rounds the machine changes.
                "times": statistics.median(processes * r["one"] / r["all"] for r in rounds),
            }
            print(f"{name}, {accumulation} per update: done", file=sys.stderr)
    return found


def measure(name: str, shapes: dict[int, Shape], rounds: int) -> tuple[Points, Points]:
    """Return seconds and peak memory of every system at every size."""
    seconds: Points = {system: {} for system in SYSTEMS}
    memory: Points = {system: {} for system in SYSTEMS}
    for size, shape in shapes.items():
        requests = {s: {**request, "shape": asdict(shape)} for s, request in SYSTEMS.items()}
        workers = {system: Worker("ours.py", request) for system, request in requests.items()}
        samples = [{s: worker.step() for s, worker in workers.items()} for _ in range(rounds)]
        for system, worker in workers.items():
            seconds[system][size] = statistics.median(s[system].cpu for s in samples)
            memory[system][size] = worker.stop()
        print(f"{name} {size}: done", file=sys.stderr)
    return seconds, memory


def distributed_rounds(
    shape: Shape, request: dict[str, Any], processes: int
) -> list[dict[str, float]]:
    """Return the seconds of a micro-batch in every round, of one process and of all together."""
    argument = json.dumps({**request, "shape": asdict(shape)})
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, f"--nproc_per_node={processes}", str(FOLDER / "distributed.py"), argument],
        env=os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("[{")]
    rounds: list[dict[str, float]] = json.loads(lines[-1])
    return rounds


def _table(points: Points) -> str:
    sizes = list(next(iter(points.values())))
    digits = 0 if max(max(row.values()) for row in points.values()) > 100 else 2
    rows = [[name, *(f"{row[n]:.{digits}f}" for n in sizes)] for name, row in points.items()]
    return table([["", *map(str, sizes)], *rows])


if __name__ == "__main__":
    main(parse_dataclass(Options, sys.argv[1:], program="benchmarks/scaling.py"))
