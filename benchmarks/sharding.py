"""Translate one file by one, two and three processes: the same bytes, and how much sooner.

    python benchmarks/sharding.py RUN --input test.en [--processes 1 2 3] [--rounds 3]

Every process has one thread. Rounds alternate between the numbers of processes, so that all of them
meet the same state of the machine, and the fastest round counts. `seconds` is what the command says
of the translation, `wall` the whole command with its imports and the launcher.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Options:
    """What to translate, how often, and where the numbers go."""

    run: Annotated[Path, tyro.conf.Positional]
    """Run folder with a trained model."""
    input: Path
    """Documents to translate."""
    processes: tuple[int, ...] = (1, 2, 3)
    """Numbers of processes; the first is what the others are compared with."""
    rounds: int = 3
    """Translations by each number of processes."""
    output: Path = FOLDER / "results" / "sharding.json"
    """Where the numbers go."""


def translate(options: Options, processes: int, output: Path) -> dict[str, Any]:
    """Translate once; return the times and a hash of the translation."""
    command = [sys.executable]
    if processes > 1:
        launcher = ["-m", "torch.distributed.run", "--standalone"]
        command += [*launcher, f"--nproc_per_node={processes}"]
    command += ["-m", "iada", "translate", str(options.run)]
    command += ["--input", str(options.input), "--output", str(output)]
    began = time.perf_counter()
    subprocess.run(
        command, check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    wall = time.perf_counter() - began
    details = json.loads(output.with_name(f"{output.name}.json").read_text(encoding="utf-8"))
    digest = hashlib.sha256(output.read_bytes()).hexdigest()
    return {"wall": wall, "seconds": float(details["seconds"]), "sha256": digest}


def main(options: Options) -> None:
    """Translate in turns, compare and write the numbers."""
    rounds: dict[int, list[dict[str, Any]]] = {count: [] for count in options.processes}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for count, found in rounds.items():
                found.append(translate(options, count, Path(folder) / f"{number}-{count}.txt"))
                shown = {key: found[-1][key] for key in ("wall", "seconds")}
                print(f"{count} processes: {json.dumps(shown)}", file=sys.stderr, flush=True)
    digests = {one["sha256"] for found in rounds.values() for one in found}
    best = {
        count: {key: min(one[key] for one in found) for key in ("wall", "seconds")}
        for count, found in rounds.items()
    }
    first = best[options.processes[0]]
    result = {
        "input": options.input.name,
        "identical": len(digests) == 1,
        "processes": {
            count: {key: round(value, 2) for key, value in times.items()}
            | {"times_as_fast": {key: round(first[key] / times[key], 2) for key in times}}
            for count, times in best.items()
        },
    }
    options.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result))
    if len(digests) > 1:
        raise SystemExit("The translations differ.")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
