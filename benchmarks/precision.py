"""Validation NLL of the same trainings in float32 and in bf16.

    python benchmarks/precision.py [--seeds 1 2 3] [--updates 4000] [--runs FOLDER]

BConTrasT's recipe, shortened to `--updates`; seed by seed, first float32, then bf16, one thread.
Runs lie in `--runs` and are continued by the same command; what is finished is written after every
run. Validation is computed in the precision of its run, as `iada train` does; the weights of the
last checkpoint are validated once more in float32, so that the last column compares the models and
not the arithmetic of the measurement.
"""

import json
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from measuring import RESULTS, save, table

from iada.cli.parsing import parse_dataclass
from iada.config.data import DataConfig
from iada.config.method import Method
from iada.config.run import RunConfig, load_run_config
from iada.models.pretrained import start_model
from iada.runs.corpus import load_corpus
from iada.runs.folder import RunFolder
from iada.training.train import make_trainer, train

Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to train."""

    recipe: Path = Path("recipes/bcontrast/config.yaml")
    """Model, windows and training settings."""
    data: Path = Path("../shared/data/bcontrast")
    """Folder with train and dev files, documents parted by blank lines."""
    runs: Path = Path(".cache/precision")
    """Where the runs lie."""
    method: Method = "iada_replace_gnorm"
    """Named system."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the trainings."""
    updates: int = 4000
    """Updates of each."""
    validate_every: int = 100
    """Updates between two validations."""
    output: Path = RESULTS
    """Folder of the numbers."""


def main(options: Options) -> None:
    if not (options.data / "train.en").is_file():
        print(f"{options.data} holds no train.en: nothing to train on.")
        return
    rows: list[dict[str, Any]] = []
    for seed in options.seeds:
        for precision in ("fp32", "bf16"):
            rows.append(finished(configure(options, seed, precision)))
            settings = {"updates": options.updates, "method": options.method}
            save(
                "precision",
                {"corpus": options.data.name, **settings, "results": rows},
                options.output,
            )
            print(shown(rows), flush=True)


def configure(options: Options, seed: int, precision: Precision) -> RunConfig:
    config = load_run_config(options.recipe, method=options.method)
    return replace(
        config,
        seed=seed,
        output=options.runs / f"{options.method}-{options.updates}-{precision}-{seed}",
        data=DataConfig(folder=options.data),
        train=replace(
            config.train,
            precision=precision,
            max_updates=options.updates,
            validate_every=options.validate_every,
            patience=0,
            keep_checkpoints=1,
            threads=1,
        ),
    )


def finished(config: RunConfig) -> dict[str, Any]:
    """Train, or finish training, and return what came out."""
    begun = time.process_time()
    resumed = config.output.is_dir()
    folder = train(config, resume=resumed)
    lines = map(json.loads, folder.metrics_file.read_text(encoding="utf-8").splitlines())
    nll = {line["update"]: line["dev_nll"] for line in lines if "dev_nll" in line}
    return {
        "seed": config.seed,
        "precision": config.train.precision,
        "dev_nll": nll,
        "best": min(nll.values()),
        "in_float32": validated(config, folder),
        # Of a resumed training, this process has seen the end only.
        "processor_seconds": None if resumed else round(time.process_time() - begun),
    }


def validated(config: RunConfig, folder: RunFolder) -> float:
    """Return the validation NLL of a finished model in float32."""
    plain = replace(config, train=replace(config.train, precision="fp32"))
    corpus = load_corpus(plain)
    model = start_model(plain, corpus.subwords, folder.model)
    torch.set_num_threads(1)
    trainer = make_trainer(plain, corpus, model, RunFolder(folder.path / "validation"))
    model.load_state_dict(type(model).from_pretrained(folder.model).state_dict())
    return trainer.evaluate()["eval_nll"]


def shown(rows: list[dict[str, Any]]) -> str:
    lines = [
        (
            f"seed {row['seed']}, {row['precision']}",
            f"{row['best']:.4f}",
            f"{row['in_float32']:.4f}",
            "resumed" if row["processor_seconds"] is None else str(row["processor_seconds"]),
        )
        for row in rows
    ]
    return table([("", "lowest dev NLL", "in float32", "CPU s"), *lines])


if __name__ == "__main__":
    main(parse_dataclass(Options, sys.argv[1:], program="benchmarks/precision.py"))
