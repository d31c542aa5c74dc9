"""`iada experiment`, killed at random moments and run again, gives the same results."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iada.cli.experiment import parse
from iada.experiments.definitions import build_experiment
from iada.experiments.grid import build_grid, open_base
from iada.experiments.plan import Ranges, with_rows

KILLS = 2


@pytest.mark.exhaustive
def test_a_killed_experiment_is_completed_to_the_same_results(
    mini_corpus: Path,
    tmp_path: Path,
    killed_runs: Any,
    write_toy_recipe: Callable[[int, int], Path],
) -> None:
    recipe = write_toy_recipe(30, 3)
    result = f"{tmp_path.name}-toy/alpha_sweep/results.json"

    def command(output: Path) -> list[str]:
        return [
            "experiment",
            "alpha_sweep",
            *("--alphas", "0", "1"),
            *("--rows", "alpha_0", "alpha_1"),
            f"--data={recipe}",
            f"--output={output}",
            f"--contrastive={mini_corpus / 'contrastive.json'}",
        ]

    config = parse(command(tmp_path)[1:])
    whole = build_experiment("alpha_sweep", Ranges(alphas=config.alphas))
    experiment = with_rows(whole, config.rows)
    first = build_grid(open_base(config), [experiment], config.seeds).tasks[0].folder
    # Written with the first update.
    trace = f"/{first.relative_to(tmp_path)}/metrics.jsonl"
    outputs: Iterator[Path] = killed_runs(command, trace, KILLS, result)
    expected = (next(outputs) / result).read_bytes()
    kills = resumed = 0
    for output in outputs:
        resumed += any(output.glob("*/runs/*/seed-1/checkpoints/*/trainer_state.json"))
        again = subprocess.run(
            [sys.executable, "-m", "iada", *command(output)], capture_output=True, check=False
        )
        assert again.returncode == 0, again.stderr.decode()
        assert (output / result).read_bytes() == expected
        kills += 1
    assert kills == KILLS
    # A kill before the first checkpoint leaves nothing to go on from.
    assert resumed > 0
