"""Speed of windows, batches and collation in one process, and how much of a batch is padding.

    python benchmarks/batches.py [--corpora europarl bcontrast] [--epochs 5]

Opens each prepared corpus, or prepares it on the first call. Then, for each way of cutting windows:
seconds to cut them, seconds to plan an epoch, tokens per second through PyTorch's loader as the
trainer uses it, the padded share of all tokens of an epoch, and the number of shapes that its
batches have. A token is a source or target token that is not padding. Rates are medians over
epochs, each over its first batches, planning included. The last row collates the first row's
windows one by one.
"""

import json
import platform
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from iada.cli.parsing import parse_dataclass
from iada.config.data import DataConfig, SubwordConfig, WindowConfig
from iada.data.prepared.prepare import Preparation, prepare
from iada.data.prepared.store import TokenStore
from iada.data.windows.batch import Collator, Window, round_up
from iada.data.windows.conditions import context_noise
from iada.data.windows.sampler import TokenBatchSampler
from iada.data.windows.windows import Windows

CONFIGS = {
    "context 3": WindowConfig(),
    "context 3, 2 noisy": WindowConfig(noisy_context=2),
    "sentences": WindowConfig(context=0),
    "context 3, stride 4": WindowConfig(stride=4),
    "multires": WindowConfig(strategy="multires"),
}
VOCABULARIES = {"europarl": 32_000, "bcontrast": 4000}
"""Pieces of each corpus's encoding, as in its recipe."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to measure."""

    data: Path = Path("../shared/data")
    """Folder of corpora: train, dev and test files, documents parted by blank lines."""
    corpora: tuple[str, ...] = ("europarl", "bcontrast")
    """Names of folders in it: see `VOCABULARIES`."""
    prepared: Path = Path(".cache/batches")
    """Where the prepared corpora are kept between calls."""
    max_tokens: int = 4096
    """Budget of a batch."""
    length_multiple: int = 1
    """What lengths are padded to a multiple of."""
    epochs: int = 5
    """Number of epochs to measure."""
    batches: int = 1500
    """Number of batches to measure in each epoch, at most."""
    output: Path = Path("benchmarks/results/batches.json")
    """Where the numbers go."""


@dataclass(frozen=True)
class Measurement:
    """One way of cutting windows."""

    windows: int
    batches: int
    cut_seconds: float
    plan_seconds: float
    tokens_per_second: float
    padded_share: float
    shapes: int


class OneByOne:
    """Windows without the short cut for whole batches."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows

    def __getitem__(self, key: tuple[int, int]) -> Window:
        return self.windows[key]

    def __len__(self) -> int:
        return len(self.windows)


def main(options: Options) -> None:
    reports = {}
    for name in options.corpora:
        if not (options.data / name / "train.en").is_file():
            print(f"{options.data / name} holds no train.en: left out.", file=sys.stderr)
            continue
        reports[name] = measure_corpus(name, options)
    if not reports:
        return
    report = {
        "max_tokens": options.max_tokens,
        "length_multiple": options.length_multiple,
        "epochs": options.epochs,
        "batches_per_epoch": options.batches,
        "machine": {
            "processor": platform.machine(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
        },
        "corpora": reports,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def measure_corpus(name: str, options: Options) -> dict[str, Any]:
    """Measure all ways of cutting windows on a corpus, and print them."""
    preparation = Preparation(
        DataConfig(folder=options.data / name),
        SubwordConfig(vocabulary_size=VOCABULARIES[name]),
        options.prepared / name,
    )
    corpus = prepare(preparation)
    subwords = corpus.subwords()
    store = corpus.store("train", subwords)
    results = {name: measure(store, config, options) for name, config in CONFIGS.items()}
    first, config = next(iter(CONFIGS.items()))
    results[f"{first}, one by one"] = measure(store, config, options, one_by_one=True)
    print(f"\n{name}\n{table(results)}")
    return {
        "sentence_pairs": len(store),
        "vocabulary": len(subwords),
        "results": {name: asdict(result) for name, result in results.items()},
    }


def measure(
    store: TokenStore, config: WindowConfig, options: Options, *, one_by_one: bool = False
) -> Measurement:
    started = time.perf_counter()
    windows = Windows(store, config, noise=context_noise(config))
    cut_seconds = time.perf_counter() - started
    lengths = windows.lengths()
    started = time.perf_counter()
    multiple = options.length_multiple
    sampler = TokenBatchSampler(
        lengths, max_tokens=options.max_tokens, seed=1, length_multiple=multiple
    )
    plan = sampler.plan(0)
    plan_seconds = time.perf_counter() - started
    dataset: Any = OneByOne(windows) if one_by_one else windows
    loader: DataLoader[Any] = DataLoader(
        dataset, batch_sampler=sampler, collate_fn=Collator(store.special.pad, multiple)
    )
    shapes = [
        (len(batch), *round_up(lengths[batch].max(axis=0), multiple).tolist()) for batch in plan
    ]
    padded = sum(rows * (source + target) for rows, source, target in shapes)
    rates = list(epoch_rates(loader, sampler, lengths, options))
    return Measurement(
        windows=len(windows),
        batches=len(plan),
        cut_seconds=cut_seconds,
        plan_seconds=plan_seconds,
        tokens_per_second=statistics.median(rates),
        padded_share=1 - int(lengths.sum()) / padded,
        shapes=len(set(shapes)),
    )


def epoch_rates(
    loader: "DataLoader[Any]", sampler: TokenBatchSampler, lengths: Any, options: Options
) -> Iterator[float]:
    """Yield the tokens per second of each epoch."""
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        started = time.perf_counter()
        for _ in islice(loader, options.batches):
            pass
        seconds = time.perf_counter() - started
        measured = np.concatenate(sampler.plan(epoch)[: options.batches])
        yield int(lengths[measured].sum()) / seconds


def table(results: dict[str, Measurement]) -> str:
    header = ("windows", "number", "cut (s)", "plan (s)", "tokens/s", "padding", "shapes")
    rows = [
        (
            name,
            f"{result.windows:,}",
            f"{result.cut_seconds:.2f}",
            f"{result.plan_seconds:.2f}",
            f"{result.tokens_per_second:,.0f}",
            f"{result.padded_share:.1%}",
            f"{result.shapes:,}",
        )
        for name, result in results.items()
    ]
    return "\n".join(
        f"{row[0]:<24}" + "".join(f"{cell:>13}" for cell in row[1:]) for row in (header, *rows)
    )


if __name__ == "__main__":
    main(parse_dataclass(Options, sys.argv[1:], program="benchmarks/batches.py"))
