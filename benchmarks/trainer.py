"""Tokens per second of `IadaTrainer` on a real corpus, beside the bare steps on the same batches.

    python benchmarks/trainer.py [--data ../shared/data/bcontrast] [--updates 20]

The recipe's model, windows and batches, one thread. One process trains as `iada train` does:
loader, collation, noise, clipping, schedule, log lines, callbacks; only validation and checkpoints
are left out. The other has the same batches ready and makes nothing but the mathematics of the same
updates: losses, backward pass, clipping, optimizer. They take turns, update by update; the share is
the median over updates.
"""

import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from measuring import RESULTS, Worker, save, table
from training_sides import run_config

from iada.cli.parsing import parse_dataclass
from iada.config.data import DataConfig
from iada.config.run import RunConfig, load_run_config
from iada.data.prepared.prepare import Preparation, prepare
from iada.data.windows.sampler import TokenBatchSampler
from iada.runs.corpus import load_corpus


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to measure."""

    recipe: Path = Path("recipes/bcontrast/config.yaml")
    """Model, windows and training settings."""
    data: Path = Path("../shared/data/bcontrast")
    """Folder with train and dev files, documents parted by blank lines."""
    prepared: Path = Path(".cache/trainer/prepared")
    """Where the prepared corpus is kept between calls."""
    methods: tuple[str, ...] = ("doc2doc", "iada_replace_tnorm", "iada_replace_gnorm")
    """Named systems to train."""
    updates: int = 20
    """Updates of each side."""
    log_every: int = 5
    """Updates between two log lines."""
    output: Path = RESULTS
    """Folder of the numbers."""


@dataclass(frozen=True)
class Measurement:
    """One method."""

    tokens_per_second: float
    """Source and target tokens of the trainer by processor time, padding not counted."""
    bare_tokens_per_second: float
    share: float
    """Median over updates of the bare steps' time to the trainer's."""
    cpu_share: float
    """The same for the processor time."""


def main(options: Options) -> None:
    if not (options.data / "train.en").is_file():
        print(f"{options.data} holds no train.en: nothing to measure.")
        return
    subwords = load_run_config(options.recipe).subwords
    prepare(Preparation(DataConfig(folder=options.data), subwords, options.prepared))
    results = {method: measure(method, options) for method in options.methods}
    save(
        "trainer",
        {
            "corpus": options.data.name,
            "recipe": str(options.recipe),
            "updates": options.updates,
            "log_every": options.log_every,
            "results": {method: asdict(result) for method, result in results.items()},
        },
        options.output,
    )
    rows = [
        (
            method,
            f"{result.tokens_per_second:.0f}",
            f"{result.bare_tokens_per_second:.0f}",
            f"{result.share:.1%}",
            f"{result.cpu_share:.1%}",
        )
        for method, result in results.items()
    ]
    print(table([("", "trainer, tokens/s", "bare steps, tokens/s", "share", "CPU share"), *rows]))


def measure(method: str, options: Options) -> Measurement:
    """Let both sides take turns."""
    request = {
        "method": method,
        "recipe": str(options.recipe),
        "data": str(options.data),
        "prepared": str(options.prepared),
        "updates": options.updates + 1,
        "log_every": options.log_every,
    }
    with (
        Worker("training_sides.py", request | {"side": "bare"}) as bare,
        Worker("training_sides.py", request | {"side": "trainer"}) as trainer,
    ):
        pairs = [(bare.step(), trainer.step()) for _ in range(options.updates)]
        bare.stop()
        trainer.stop()
    tokens = measured_tokens(run_config(request), options.updates)
    return Measurement(
        tokens_per_second=tokens / sum(side.cpu for _, side in pairs),
        bare_tokens_per_second=tokens / sum(side.cpu for side, _ in pairs),
        share=statistics.median(b.seconds / t.seconds for b, t in pairs),
        cpu_share=statistics.median(b.cpu / t.cpu for b, t in pairs),
    )


def measured_tokens(config: RunConfig, updates: int) -> int:
    """Count the tokens of the updates after the first, which is the warm-up."""
    lengths = load_corpus(config).train.lengths()
    train = config.train
    sampler = TokenBatchSampler(lengths, max_tokens=train.max_tokens, seed=config.seed)
    batches = sampler.plan(0)[train.accumulation : (updates + 1) * train.accumulation]
    return sum(int(lengths[batch].sum()) for batch in batches)


if __name__ == "__main__":
    main(parse_dataclass(Options, sys.argv[1:], program="benchmarks/trainer.py"))
