"""Limits of the system: one line, exit code 2, nothing lost, and a rerun that ends as it would."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from iada.config.run import load_run_config
from iada.training.train import train

# The limit holds between the imports and the exit: what is tested is our own files, not Python's.
LIMITED = """
import os, resource, sys
from iada.cli.main import main
import iada.training.train
import transformers.models.marian.modeling_marian
limit, value, arguments = getattr(resource, sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
if limit == resource.RLIMIT_NOFILE:
    value += max(map(int, os.listdir("/proc/self/fd")))
before = resource.getrlimit(limit)
resource.setrlimit(limit, (value, before[1]))
code = main(arguments)
resource.setrlimit(limit, before)
sys.exit(code)
"""


def _run_limited(limit: str, value: int, *arguments: str) -> str:
    """Run `iada` under a limit and return the line of its error."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, limit, str(value), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 2, done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    return line


@pytest.mark.parametrize(
    ("limit", "value", "expected"),
    [
        # Configuration and encoding fit; the weights of a checkpoint do not.
        ("RLIMIT_FSIZE", 40_000, "File too large. Raise the limit on the size of files"),
        ("RLIMIT_NOFILE", 0, "Too many open files. Raise the limit on open files"),
    ],
)
def test_a_run_that_hits_a_limit_ends_in_one_line_and_can_be_continued(
    write_toy_recipe: Callable[[int, int], Path],
    tmp_path: Path,
    limit: str,
    value: int,
    expected: str,
) -> None:
    recipe = write_toy_recipe(2, 1)
    straight, limited = tmp_path / "straight", tmp_path / "limited"
    arguments = ("train", str(recipe), "--train.threads", "1")
    line = _run_limited(limit, value, *arguments, "--output", str(limited))
    assert expected in line
    config = load_run_config(recipe)
    config = replace(config, train=replace(config.train, threads=1))
    train(replace(config, output=straight))
    train(replace(config, output=limited), resume=(limited / "config.yaml").exists())
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (limited / "model" / name).read_bytes() == (straight / "model" / name).read_bytes()
    assert not list(limited.rglob(".*"))
