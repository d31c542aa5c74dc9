"""Kill commands, give them again, and compare with what an unbroken command leaves.

    python benchmarks/crashes.py [--kills 100] [--seed 1]

`prepare`, `train`, `translate` and `experiment` work on a tiny corpus. Kills (SIGKILL) come at
random moments; those of half the trainings are aimed: they wait until the hidden folder of a
checkpoint appears and then a random part of the time that writing one takes. A command is killed
several times before it may end; what it leaves must then be byte for byte what one leaves that was
never killed, but for times of day and durations.
"""

import contextlib
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import tyro

from iada.cli import experiment
from iada.config.base import to_mapping, write_yaml
from iada.config.data import SubwordConfig
from iada.config.experiment import ExperimentConfig
from iada.config.model import ModelConfig
from iada.config.run import RunConfig, mini_run
from iada.data.mini import MiniConfig, write_mini_corpus
from iada.data.prepared.prepare import Preparation, prepare
from iada.decoding.files import translate_file
from iada.decoding.translator import DocumentTranslator
from iada.runs.folder import RunFolder
from iada.training.train import train

UPDATES = 12
KILLS_PER_FOLDER = 5
SHARES = {"train, aimed": 0.3, "train": 0.1, "prepare": 0.2, "translate": 0.2, "experiment": 0.2}
"""Of all kills."""


@dataclass(frozen=True)
class Options:
    """How often, and where the numbers go."""

    kills: int = 100
    """Kills in all."""
    seed: int = 1
    """Seed of the moments."""
    commands: tuple[str, ...] = tuple(SHARES)
    """What to kill; results of others stay in the file."""
    output: Path = Path("benchmarks/results/crashes.json")
    """Where the numbers go."""


@dataclass(frozen=True)
class Scenario:
    """A command to kill."""

    run: Callable[[Path], object]
    """Works in a folder, or goes on there."""
    outcome: Callable[[Path], dict[str, bytes]]
    """Returns what must not depend on kills."""
    is_aimed: bool = False
    """Whether to kill inside the writing of checkpoints."""


def configure(corpus: Path, output: Path) -> RunConfig:
    """Return a run that hardly does anything but save."""
    config = mini_run("iada_replace_gnorm", corpus=corpus, output=output, updates=UPDATES)
    return replace(
        config,
        subwords=SubwordConfig(vocabulary_size=450),
        model=ModelConfig(
            dim=16, feed_forward=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.1
        ),
        train=replace(config.train, max_tokens=512, validate_every=1, log_every=1, threads=1),
    )


def scenarios(corpus: Path, root: Path) -> dict[str, Scenario]:
    """Return what is killed; the model that translates is trained here."""
    config = configure(corpus, root / "translator")
    # In a child: a process that has trained has threads, which its own children would lack.
    finish(start(Scenario(lambda _: train(config), files_of), root), root)
    translator = config.output
    recipe = root / "recipe.yaml"
    shared = to_mapping(replace(config, train=replace(config.train, max_updates=6)))
    shared["evaluate"] = {"resamples": 10}
    sections = ("data", "subwords", "windows", "model", "train", "decode", "evaluate")
    write_yaml(recipe, {name: shared[name] for name in sections})

    def run_training(folder: Path) -> None:
        run = replace(config, output=folder / "run")
        train(run, resume=RunFolder(run.output).config_file.is_file())

    def run_preparation(folder: Path) -> None:
        prepare(Preparation(config.data, config.subwords, folder / "store", workers=1))

    def run_translation(folder: Path) -> None:
        model = DocumentTranslator.load(translator)
        translate_file(model, corpus / "train.en", folder / "out.de", boundaries="blank_line")

    def run_experiment(folder: Path) -> None:
        experiment.run(
            ExperimentConfig(
                names=("alpha_sweep",),
                alphas=(0.0,),
                rows=("alpha_0",),
                data=str(recipe),
                output=folder / "out",
                contrastive=corpus / "contrastive.json",
                jobs=1,
            )
        )

    training = Scenario(run_training, trained_files)
    return {
        "train, aimed": replace(training, is_aimed=True),
        "train": training,
        "prepare": Scenario(run_preparation, lambda folder: files_of(folder / "store")),
        "translate": Scenario(run_translation, lambda folder: files_of(folder, "out.de")),
        "experiment": Scenario(
            run_experiment,
            lambda folder: files_of(
                folder, "results.json", "results.md", ".safetensors", "test.de"
            ),
        ),
    }


def files_of(folder: Path, *ends: str) -> dict[str, bytes]:
    """Return the files under a folder whose names end so."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name.endswith(ends or "")
    }


def trained_files(folder: Path) -> dict[str, bytes]:
    """Return the model and the metrics of a run, without times."""
    run = RunFolder(folder / "run")
    lines = run.metrics_file.read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) | {"seconds": 0} for line in lines]
    return files_of(run.model) | {"metrics": json.dumps(records).encode()}


def start(scenario: Scenario, folder: Path) -> int:
    """Work in a child that has everything imported already; return its number."""
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            log = os.open(folder.with_name(f"{folder.name}.log"), os.O_CREAT | os.O_WRONLY)
            os.dup2(log, 1)
            os.dup2(log, 2)
            scenario.run(folder)
            code = 0
        os._exit(code)
    return child


def is_writing(folder: Path) -> bool:
    """Whether a checkpoint is being written."""
    return any((folder / "run" / "checkpoints").glob(".checkpoint-*.staged"))


def wait(folder: Path, child: int, *, writing: bool) -> bool:
    """Wait until a checkpoint is being written, or none is; return whether the child still runs."""
    while is_writing(folder) != writing:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.001)
    return True


def measure(scenario: Scenario, folder: Path) -> float:
    """Do the work without a kill; return its time, or the median of writing a checkpoint."""
    began, child, times = time.perf_counter(), start(scenario, folder), []
    if not scenario.is_aimed:
        finish(child, folder)
        return time.perf_counter() - began
    while wait(folder, child, writing=True):
        began = time.perf_counter()
        if not wait(folder, child, writing=False):
            break
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def finish(child: int, folder: Path) -> None:
    """Wait for a child that must end well."""
    _, status = os.waitpid(child, 0)
    if status:
        raise SystemExit(f"{folder} did not end: status {status}. See {folder}.log.")


def kill(scenario: Scenario, folder: Path, draw: random.Random, duration: float) -> bool | None:
    """Start and kill; return whether a checkpoint was hit, and None if the work ended before."""
    child = start(scenario, folder)
    if scenario.is_aimed:
        # Not always the first checkpoint. What an earlier kill has left is removed first.
        for writing in (False, True) * (1 + draw.randrange(4)):
            if not wait(folder, child, writing=writing):
                return None
    time.sleep(draw.uniform(0, duration))
    if os.waitpid(child, os.WNOHANG)[0]:
        return None
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return is_writing(folder)


def attack(
    scenario: Scenario, root: Path, kills: int, draw: random.Random
) -> tuple[dict[str, int], list[str]]:
    """Kill so many times in all, and compare every folder with that of an unbroken command."""
    (root / "whole").mkdir(parents=True)
    duration = measure(scenario, root / "whole")
    expected = scenario.outcome(root / "whole")
    counts = {"kills": 0, "inside a checkpoint": 0, "folders": 0}
    different = []
    while counts["kills"] < kills:
        folder = root / str(counts["folders"])
        folder.mkdir()
        for _ in range(min(KILLS_PER_FOLDER, kills - counts["kills"])):
            hit = kill(scenario, folder, draw, duration)
            if hit is None:
                break
            counts["kills"] += 1
            counts["inside a checkpoint"] += hit
        finish(start(scenario, folder), folder)
        counts["folders"] += 1
        if scenario.outcome(folder) != expected:
            different.append(str(folder))
    return counts, different


def main(options: Options) -> None:
    """Kill, compare and write the counts."""
    draw = random.Random(options.seed)
    result: dict[str, dict[str, int]] = {}
    if options.output.is_file():
        result = json.loads(options.output.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        sizes = MiniConfig(
            train_documents=12, dev_documents=2, test_documents=2, contrastive_per_cell=1
        )
        corpus = write_mini_corpus(root / "corpus", sizes)
        known = scenarios(corpus, root)
        every = sum(SHARES[name] for name in options.commands)
        for number, name in enumerate(options.commands):
            kills = round(options.kills * SHARES[name] / every)
            counts, different = attack(known[name], root / str(number), kills, draw)
            result[name] = counts | {"different": len(different)}
            print(f"{name}: {json.dumps(result[name])} {' '.join(different)}", file=sys.stderr)
            options.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    if any(counts["different"] for counts in result.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
