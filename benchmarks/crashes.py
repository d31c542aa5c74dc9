"""Kill training inside the writing of checkpoints, resume it, and compare with an unbroken run.

    python benchmarks/crashes.py [--kills 100] [--seed 1]

A tiny model is trained on the mini corpus and saved after every update, so that most of the time
goes into checkpoints. Each kill (SIGKILL) waits until the hidden folder of a checkpoint appears and
then a random part of the time that writing one takes. A run is killed several times before it may
end; its model and its metrics must then be byte for byte those of a run that was never killed.
"""

import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import tyro

from iada.config.data import SubwordConfig
from iada.config.model import ModelConfig
from iada.config.run import RunConfig, mini_run
from iada.data.mini import MiniConfig, write_mini_corpus
from iada.runs.folder import RunFolder
from iada.training.train import train

UPDATES = 40
KILLS_PER_RUN = 5


@dataclass(frozen=True)
class Options:
    """How often, and where the numbers go."""

    kills: int = 100
    """Kills in all."""
    seed: int = 1
    """Seed of the moments."""
    output: Path = Path("benchmarks/results/crashes.json")
    """Where the numbers go."""


def configure(corpus: Path, output: Path) -> RunConfig:
    """Return a run that hardly does anything but save."""
    config = mini_run("iada_replace_gnorm", corpus=corpus, output=output, updates=UPDATES)
    return replace(
        config,
        subwords=SubwordConfig(vocabulary_size=450),
        model=ModelConfig(
            dim=16, feed_forward=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.1
        ),
        train=replace(config.train, max_tokens=512, validate_every=1, log_every=1),
    )


def start(config: RunConfig) -> int:
    """Train in a child that has everything imported already; return its number."""
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        train(config, resume=RunFolder(config.output).config_file.is_file())
        os._exit(0)
    return child


def wait(folder: RunFolder, child: int, *, writing: bool) -> bool:
    """Wait until a checkpoint is being written, or none is; return whether the child still runs."""
    while any(folder.checkpoints.glob(".checkpoint-*.staged")) != writing:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.0002)
    return True


def measure(config: RunConfig) -> float:
    """Train without a kill and return the median time that writing a checkpoint takes."""
    folder, child, times = RunFolder(config.output), start(config), []
    while wait(folder, child, writing=True):
        began = time.perf_counter()
        if not wait(folder, child, writing=False):
            break
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def kill_and_finish(config: RunConfig, draw: random.Random, kills: int, duration: float) -> int:
    """Kill a run so many times, let it end, and return how many kills hit a checkpoint."""
    folder = RunFolder(config.output)
    hits = 0
    for _ in range(kills):
        child = start(config)
        # Not always the first checkpoint. What an earlier kill has left is removed first.
        alive = all(
            wait(folder, child, writing=writing)
            for _ in range(1 + draw.randrange(4))
            for writing in (False, True)
        )
        if alive:
            time.sleep(draw.uniform(0, duration))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            hits += any(folder.checkpoints.glob(".checkpoint-*.staged"))
    _, status = os.waitpid(start(config), 0)
    if status:
        raise SystemExit(f"{config.output} did not end: status {status}")
    return hits


def outcome(config: RunConfig) -> dict[str, bytes]:
    """Return what must not depend on kills."""
    folder = RunFolder(config.output)
    lines = folder.metrics_file.read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) | {"seconds": 0} for line in lines]
    files = {path.name: path.read_bytes() for path in folder.model.iterdir()}
    return files | {"metrics": json.dumps(records).encode()}


def main(options: Options) -> None:
    """Run, compare and write the counts."""
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        sizes = MiniConfig(
            train_documents=12, dev_documents=2, test_documents=2, contrastive_per_cell=1
        )
        corpus = write_mini_corpus(root / "corpus", sizes)
        whole = configure(corpus, root / "whole")
        duration = measure(whole)
        expected = outcome(whole)
        done = hits = different = 0
        while done < options.kills:
            config = configure(corpus, root / f"killed-{done}")
            kills = min(KILLS_PER_RUN, options.kills - done)
            hits += kill_and_finish(config, draw, kills, duration)
            different += outcome(config) != expected
            done += kills
            print(
                f"{done} kills, {hits} inside a checkpoint, {different} runs differ",
                file=sys.stderr,
            )
    result = {"kills": done, "inside_a_checkpoint": hits, "runs_that_differ": different}
    options.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result))
    if different:
        raise SystemExit(1)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
