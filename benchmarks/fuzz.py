"""Throw broken inputs at everything that reads what others wrote.

    python benchmarks/fuzz.py [--inputs 10000] [--seed 1]

Each input is a small file, or the files of a folder, spoilt by a generator with a seed of its own:
corpora in every format, contrastive sets, recipes, run folders, prepared corpora, encodings,
results, journals, hypotheses, locks and command lines. It must be read, or refused in one line. A
traceback, more than 30 s of processor time and more than 1 GB of memory are findings; the input of
each is kept. The targets are in `tests/fuzz/targets.py`; `guided.py` there searches by coverage.
"""

import json
import logging
import math
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fuzz"))

from broken_files import TookTooLong, spoil, time_limit
from targets import TARGETS, pack, try_target

SECONDS = 30
MEGABYTES = 1000


@dataclass(frozen=True)
class Options:
    """How many inputs, and where the findings go."""

    inputs: int = 10_000
    """Inputs in all. Command lines, slow to parse, get a quarter of the share of others."""
    seed: int = 1
    """Seed of the first input."""
    targets: tuple[str, ...] = tuple(TARGETS)
    """Which readers."""
    findings: Path = Path("build/fuzz")
    """Folder that gets the inputs of findings, as `tests/fuzz/regressions` keeps them."""
    output: Path = Path("benchmarks/results/fuzz.json")
    """Where the counts go."""


@dataclass
class Outcome:
    """What one target made of its inputs."""

    read: int = 0
    refused: int = 0
    tracebacks: int = 0
    hangs: int = 0
    slowest: float = 0.0
    """Seconds of processor time."""


def attack(name: str, inputs: int, options: Options) -> tuple[Outcome, Counter[str]]:
    """Spoil the files of a target and let it read them; return counts and kinds of tracebacks."""
    outcome, kinds, files = Outcome(), Counter[str](), TARGETS[name].files()
    for seed in range(options.seed, options.seed + inputs):
        spoilt = spoil(files, seed)
        with tempfile.TemporaryDirectory() as folder:
            began = time.process_time()
            try:
                with time_limit(SECONDS), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    refusal = try_target(name, spoilt, Path(folder))
            except TookTooLong:
                outcome.hangs += 1
                keep(options.findings / name / f"slow-{seed}", pack(spoilt))
            # Panics of libraries in Rust are no `Exception`.
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                outcome.tracebacks += 1
                kind = describe(error)
                if kind not in kinds:
                    keep(options.findings / name / str(seed), pack(spoilt))
                kinds[kind] += 1
            else:
                outcome.read += refusal is None
                outcome.refused += refusal is not None
            outcome.slowest = max(outcome.slowest, time.process_time() - began)
    return outcome, kinds


def describe(error: BaseException) -> str:
    """Name an error and the last line of ours that it passed."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/iada/" in frame.filename] or frames
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
    return f"{type(error).__name__} at {where}: {str(error)[:100]}"


def keep(path: Path, content: bytes) -> None:
    """Save the input of a finding."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def main(options: Options) -> None:
    """Attack every target and write the counts."""
    logging.disable(logging.CRITICAL)
    shutil.rmtree(options.findings, ignore_errors=True)
    shares = {name: 0.25 if name.startswith("flags") else 1.0 for name in options.targets}
    results: dict[str, Any] = {}
    for name, share in shares.items():
        inputs = math.ceil(options.inputs * share / sum(shares.values()))
        outcome, kinds = attack(name, inputs, options)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        results[name] = vars(outcome) | {"slowest": round(outcome.slowest, 2)}
        print(f"{name}: {results[name]}, at most {memory} MB so far", flush=True)
        for kind, count in kinds.most_common():
            print(f"    {count} x {kind}", flush=True)
    total = {
        "inputs": sum(
            one[key]
            for one in results.values()
            for key in ("read", "refused", "tracebacks", "hangs")
        ),
        "tracebacks": sum(one["tracebacks"] for one in results.values()),
        "hangs": sum(one["hangs"] for one in results.values()),
        "megabytes": memory,
    }
    print(json.dumps(total))
    content = total | {"seed": options.seed, "targets": results}
    options.output.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    if total["tracebacks"] or total["hangs"] or memory > MEGABYTES:
        raise SystemExit(1)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
