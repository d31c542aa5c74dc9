"""The measuring side: processes that take turns, medians, tables, results and plots."""

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import matplotlib
import torch
from matplotlib.figure import Figure
from protocol import PROBE_OPERATIONS

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"


@dataclass(frozen=True)
class Sample:
    """One step."""

    seconds: float
    cpu: float
    """Processor time of the step: that of one thread, so it is what a free core would need."""
    probe: float
    """Processor time of the matrix product."""

    def utilisation(self, operations: float) -> float:
        """Operations per processor second, as a share of what a large matrix product reaches."""
        return operations / self.cpu / (PROBE_OPERATIONS / self.probe)


class Worker:
    """A process that serves steps; see `protocol`."""

    def __init__(self, script: str, request: Mapping[str, Any], python: str | None = None) -> None:
        threads = {
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        self.process = subprocess.Popen(
            [python or sys.executable, str(FOLDER / script), json.dumps(request)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | threads,
        )
        self._read()

    def step(self) -> Sample:
        return Sample(**self._ask("step"))

    def stop(self) -> float:
        """End the process; return its peak memory in megabytes."""
        peak: float = self._ask("stop")["peak_megabytes"]
        self.process.wait()
        return peak

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def _ask(self, line: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            # Libraries greet on standard output too.
            if line.startswith("{"):
                return json.loads(line)
        raise RuntimeError(f"the process ended with code {self.process.wait()}")


@dataclass(frozen=True)
class Compared:
    """A system beside the reference, step by step."""

    seconds: float
    """Median of a step."""
    cpu: float
    """Median processor time of a step."""
    ratio: float
    """Median over rounds of its time to the reference's in the same round."""
    cpu_ratio: float
    """The same for the processor time, which other programs disturb less."""
    utilisation: float
    """Median share of the speed of a large matrix product."""
    tokens_per_second: float
    """Source and target tokens, by processor time."""
    peak_megabytes: float
    rounds: int
    memory_ratio: float | None = None


Results = dict[str, dict[str, Compared]]
"""Shape to system to numbers."""


def alternate(
    reference: Worker, other: Worker, *, rounds: int, operations: float, tokens: int
) -> Compared:
    """Let two systems take turns, and end the second."""
    pairs = [(reference.step(), other.step()) for _ in range(rounds)]
    cpu = statistics.median(s.cpu for _, s in pairs)
    return Compared(
        seconds=statistics.median(s.seconds for _, s in pairs),
        cpu=cpu,
        ratio=statistics.median(s.seconds / r.seconds for r, s in pairs),
        cpu_ratio=statistics.median(s.cpu / r.cpu for r, s in pairs),
        utilisation=statistics.median(s.utilisation(operations) for _, s in pairs),
        tokens_per_second=tokens / cpu,
        peak_megabytes=other.stop(),
        rounds=rounds,
    )


def earlier(name: str, folder: Path) -> Results:
    """Return what earlier calls left in a report."""
    path = folder / f"{name}.json"
    if not path.is_file():
        return {}
    results = json.loads(path.read_text(encoding="utf-8"))["results"]
    return {
        shape: {name: Compared(**row) for name, row in rows.items()}
        for shape, rows in results.items()
    }


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "threads": 1,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }


def save(name: str, report: Mapping[str, Any], folder: Path) -> Path:
    """Write a report as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), **report}, indent=2) + "\n", encoding="utf-8")
    return path


def table(rows: Sequence[Sequence[str]]) -> str:
    """Lay out rows; the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def style() -> Any:
    """Give the plots of one look, and the same bytes for the same numbers."""
    return matplotlib.rc_context(
        {
            "svg.hashsalt": "iada",
            "svg.fonttype": "none",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )


def draw_bars(
    panels: Mapping[str, Mapping[str, float]], path: Path, *, unit: str, line: float | None = None
) -> None:
    """Draw horizontal bars: one panel each, one bar per system."""
    height = 0.9 + 0.28 * max(len(bars) for bars in panels.values())
    with style():
        figure = Figure(figsize=(4.2 * len(panels), height), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, (title, bars) in zip(axes, panels.items(), strict=True):
            names = list(bars)[::-1]
            drawn = axis.barh(names, [bars[name] for name in names], color="#0072b2", height=0.7)
            axis.bar_label(drawn, fmt="%.2f", padding=2)
            axis.set_title(title, loc="left")
            axis.set_xlabel(unit)
            axis.margins(x=0.15)
            if line is not None:
                axis.axvline(line, color="#777777", linewidth=0.8)
        figure.savefig(path, format="svg", metadata={"Date": None})


def draw_lines(
    panels: Mapping[str, Mapping[str, Mapping[int, float]]], path: Path, *, unit: str
) -> None:
    """Draw one panel for each quantity that varies, one line per system."""
    colours = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#997700")
    with style():
        figure = Figure(figsize=(3.2 * len(panels), 3.0), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, (title, systems) in zip(axes, panels.items(), strict=True):
            for colour, (name, points) in zip(colours, systems.items(), strict=False):
                axis.plot(list(points), list(points.values()), "o-", color=colour, label=name)
            axis.set_xlabel(title)
            axis.set_ylabel(unit)
            axis.set_ylim(bottom=0)
        axes[0].legend(frameon=False)
        figure.savefig(path, format="svg", metadata={"Date": None})
