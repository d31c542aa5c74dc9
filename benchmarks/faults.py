"""Fail at every write, flush, rename and removal of a command, give it again, and compare.

    python benchmarks/faults.py [--commands train prepare translate experiment] [--minutes 60]

The tests walk every point of `prepare`, `train` and `translate`, but only a sample of an experiment
(`tests/invariance/test_faults.py`); this walks all points of all of them, on the same tiny corpus.
After each fault the command is given again on a sound disk and must leave the expected bytes. The
results tell how far the walk has come: the same command goes on there, after it has been back to
the points where something was wrong.
"""

import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "invariance"))

from faulty_disk import COMMANDS, Command, Kind, count_points, make_corpus, recover

KINDS: tuple[Kind, ...] = ("error", "cut")


@dataclass(frozen=True)
class Options:
    """What to walk, and where the numbers go."""

    commands: tuple[str, ...] = tuple(COMMANDS)
    """What to walk; results of others stay in the file."""
    minutes: float = 60.0
    """Most time for all of it."""
    output: Path = Path("benchmarks/results/faults.json")
    """Where the numbers go."""


def walk(command: Command, root: Path, record: dict[str, Any], deadline: float) -> Iterator[None]:
    """Visit the points that a record does not hold yet, and note each."""
    root.mkdir()
    points, expected = count_points(command, root / "sound")
    if record.get("points") != len(points):
        # The command has changed.
        sorts = Counter(point.partition(" ")[0] for point in points)
        record.clear()
        record.update(points=len(points), sorts=dict(sorts.most_common()))
    for kind in KINDS:
        found = record.setdefault(kind, {"visited": 0, "recovered": 0, "problems": {}})
        # After the word "at" of `recover`: where something was wrong the last time.
        again = [int(where.split()[2]) for where in found["problems"]]
        for point in [*again, *range(found["visited"], len(points))]:
            if time.monotonic() > deadline:
                return
            where, problem = recover(command, root / "broken", kind, point, expected)
            shutil.rmtree(root / "broken")
            found["problems"].pop(where, None)
            found["visited"] = max(found["visited"], point + 1)
            if problem:
                found["problems"][where] = problem
                print(f"{where}: {problem}", file=sys.stderr, flush=True)
            found["recovered"] = found["visited"] - len(found["problems"])
            yield


def main(options: Options) -> None:
    """Walk, and write the numbers after every point."""
    deadline = time.monotonic() + 60 * options.minutes
    results: dict[str, dict[str, Any]] = {}
    if options.output.is_file():
        results = json.loads(options.output.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as temporary:
        corpus = make_corpus(Path(temporary) / "corpus")
        for name in options.commands:
            record = results.setdefault(name, {})
            for _ in walk(COMMANDS[name](corpus), Path(temporary) / name, record, deadline):
                text = json.dumps(results, indent=2, ensure_ascii=False)
                options.output.write_text(text + "\n", encoding="utf-8")
            print(f"{name}: {json.dumps(record)}", file=sys.stderr, flush=True)
    if any(results[name][kind]["problems"] for name in options.commands for kind in KINDS):
        raise SystemExit(1)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
