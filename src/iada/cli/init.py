"""`iada init`: look at a corpus and this machine, and write a recipe that fits both.

The size of the model and of the vocabulary follows from the number of training pairs, the number
of updates from the time that the run may take: a few updates are timed on this machine. Everything
is written to one commented YAML file, to be edited or used as it is.
"""

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from iada.cli.parsing import parse_dataclass
from iada.config.base import require
from iada.config.data import Boundaries, DataConfig
from iada.config.method import Method, augmentation
from iada.config.run import RunConfig
from iada.errors import DataError, RunError

if TYPE_CHECKING:
    from iada.runs.corpus import Corpus
    from iada.training.estimate import Estimate

_SPLITS = ("train", "dev", "test")
_ONE_FILE = ("tsv", "jsonl", "csv", "bars", "pairs", "parquet", "tmx", "xlf", "xliff", "po")
"""Endings of files that hold both sides."""
HOLD_OUT = 0.1
"""Share of the documents for validation where there are no files for it."""
ENOUGH_UPDATES = 500
"""Updates below which a smaller model is tried; a guess, not tuned."""
_SEPARATORS: dict[str, Boundaries] = {"": "blank_line", "<d>": "marker"}

EXAMPLES = (
    "iada init corpus",
    "iada init corpus --source fr --target en --minutes 20",
)


@dataclass(frozen=True, kw_only=True)
class InitCommand:
    """Write a recipe for a corpus, fitted to its size and to this machine."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """Folder with `train`, `dev` and `test` files: `train.en` and `train.de`, or `train.tsv`.
    Without `dev` files, documents are held out for validation and test."""
    output: Path = Path("recipe.yaml")
    """Recipe to write."""
    run: Path | None = None
    """Run folder that the recipe names; by default `runs/` and the name of the corpus folder."""
    source: str | None = None
    """Language code of the source side; by default `en` if there is one, else the first."""
    target: str | None = None
    """Language code of the target side; by default the other one."""
    method: Method = "iada_replace_gnorm"
    """System to train."""
    minutes: float = 30.0
    """How long the training may take on this machine."""

    def __post_init__(self) -> None:
        require(self.minutes > 0, "minutes", "above 0", self.minutes)


@dataclass(frozen=True)
class Size:
    """A model for corpora of some size."""

    pairs: int
    """Up to this many training sentence pairs."""
    pieces: int
    dim: int
    layers: int
    max_tokens: int
    rate: float
    """Peak learning rate."""
    dropout: float


SIZES = (
    Size(6_000, pieces=1_500, dim=96, layers=2, max_tokens=1024, rate=3e-3, dropout=0.1),
    Size(25_000, pieces=3_000, dim=128, layers=2, max_tokens=1536, rate=3e-3, dropout=0.1),
    Size(120_000, pieces=6_000, dim=192, layers=3, max_tokens=2048, rate=2e-3, dropout=0.1),
    Size(500_000, pieces=12_000, dim=256, layers=4, max_tokens=4096, rate=1e-3, dropout=0.2),
)
"""Models for a CPU or a small corpus, smallest first; above the last, the paper's Transformer."""


def parse(arguments: Sequence[str]) -> InitCommand:
    """Parse the arguments of `iada init`."""
    return parse_dataclass(InitCommand, arguments, program="iada init", examples=EXAMPLES)


def run(command: InitCommand) -> Path:
    """Write the recipe, and say what it will take."""
    if command.output.exists():
        raise RunError(f"{command.output} already exists. Choose another `--output`.")
    data = find_corpus(command.folder, source=command.source, target=command.target)

    # What is wrong with the corpus is said before anything that takes long to import.
    from iada.data.formats.readers import read_split

    documents = read_split(data, "train")
    pairs = sum(len(document.source.sentences) for document in documents)
    print(
        f"{command.folder}: {len(documents):,} training documents, {pairs:,} sentence pairs, "
        f"{data.source_language} → {data.target_language}."
    )
    if len(documents) < 2:
        raise DataError(
            f"{command.folder} has {len(documents)} training document. Documents are separated by "
            "blank lines or `<d>` lines; without them there is no context to learn from."
        )
    begun = time.perf_counter()
    # What `iada train` imports, so that the time it takes is counted.
    import iada.training.train  # noqa: F401
    from iada.storage import write_text
    from iada.training.estimate import duration

    to_import = time.perf_counter() - begun
    output = command.run or Path("runs") / command.folder.resolve().name
    base = partial(fitting_run, data, method=command.method, output=output)
    config, corpus, timed = largest_that_learns(base, pairs, command.minutes, to_import)
    epoch = math.ceil(_batches(config, corpus) / config.train.accumulation)
    config = with_updates(config, timed, epoch=epoch, minutes=command.minutes)
    estimate = replace(
        timed,
        updates=config.train.max_updates,
        validate_every=config.train.validate_every,
    )
    command.output.parent.mkdir(parents=True, exist_ok=True)
    write_text(command.output, recipe_text(config, estimate.describe(), pairs=pairs))
    print(f"{len(corpus.train):,} training windows, {epoch:,} updates per epoch.")
    print(
        f"Training will take about {duration(estimate.seconds)} ({estimate.seconds:.0f} s): "
        f"{estimate.describe()}."
    )
    if estimate.seconds > 1.2 * 60 * command.minutes:
        print(
            f"That is more than the {duration(60 * command.minutes)} of `--minutes`, which are too "
            "few for this corpus on this machine."
        )
    print(f"Wrote {command.output}. Next:\n  iada train {command.output}")
    return command.output


def find_corpus(folder: Path, *, source: str | None, target: str | None) -> DataConfig:
    """Recognise the files of a corpus by their names, and document boundaries by a look inside.

    Raises:
        DataError: no training and validation files were recognised.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder. Give the folder that holds the corpus.")
    for suffix in _ONE_FILE:
        if (folder / f"train.{suffix}").is_file():
            named = _column_languages(folder / f"train.{suffix}")
            source = source or ("en" if "en" in named or len(named) != 2 else named[0])
            others = [code for code in named if code != source]
            return DataConfig(
                folder=folder,
                source_language=source,
                target_language=target or (others[0] if len(others) == 1 else "de"),
                train=f"train.{suffix}",
                dev=f"dev.{suffix}",
                test=f"test.{suffix}",
                hold_out=0.0 if (folder / f"dev.{suffix}").is_file() else HOLD_OUT,
            )
    names = [path.name for path in folder.iterdir()]
    languages = {
        split: {m[1] for name in names if (m := re.fullmatch(rf"{split}\.([a-z]{{2,3}})", name))}
        for split in _SPLITS
    }
    has_dev = len(languages["train"] & languages["dev"]) > 1
    found = sorted(languages["train"] & languages["dev"] if has_dev else languages["train"])
    if len(found) < 2:
        raise DataError(
            f"{folder} has no `train` files in two languages (train.en and train.de), and no "
            f"file such as train.tsv or train.jsonl. "
            f"Found: {', '.join(sorted(names)[:10]) or 'nothing'}."
        )
    source = source or ("en" if "en" in found else found[0])
    target = target or next(language for language in found if language != source)
    for language in (source, target):
        if language not in found:
            raise DataError(
                f"{folder} has no train.{language}{f' and dev.{language}' if has_dev else ''}."
            )
    boundaries = _boundaries(folder / f"train.{source}")
    return DataConfig(
        folder=folder,
        source_language=source,
        target_language=target,
        boundaries=boundaries,
        hold_out=0.0 if has_dev else HOLD_OUT,
    )


def fitting_run(data: DataConfig, pairs: int, *, method: Method, output: Path) -> RunConfig:
    """Return a run whose model suits the number of training pairs; its updates are not final."""
    base = RunConfig(output=output, method=method, data=data, augment=augmentation(method))
    size = next((size for size in SIZES if pairs <= size.pairs), None)
    if size is None:
        return base
    return replace(
        base,
        subwords=replace(base.subwords, vocabulary_size=size.pieces),
        # Small models need every label that they can get, so all sentences of a window count.
        windows=replace(base.windows, stride=4, loss_on="all", max_length=256, on_long="leave_out"),
        model=replace(
            base.model,
            dim=size.dim,
            feed_forward=2 * size.dim,
            heads=4,
            encoder_layers=size.layers,
            decoder_layers=size.layers,
            dropout=size.dropout,
            max_positions=512,
        ),
        train=replace(
            base.train,
            max_tokens=size.max_tokens,
            accumulation=1,
            learning_rate=size.rate,
            clip_norm=1.0,
            warmup_updates=300,
            keep_checkpoints=1,
            threads=1,
        ),
    )


def largest_that_learns(
    fitting: Callable[[int], RunConfig], pairs: int, minutes: float, to_import: float
) -> tuple[RunConfig, "Corpus", "Estimate"]:
    """Return the run that suits a corpus, or a smaller one where the time is too short for it.

    Args:
        fitting: gives a run for a number of training pairs.
        pairs: how many the corpus has.
        minutes: how long the training may take.
        to_import: seconds until programs are loaded.
    """
    from iada.runs.corpus import load_corpus
    from iada.training.estimate import duration, estimate_time

    *larger, smallest = suited_pairs(pairs)
    for suited in (*larger, smallest):
        config = fitting(suited)
        begun = time.perf_counter()
        corpus = load_corpus(config)
        to_start = to_import + time.perf_counter() - begun
        timed = estimate_time(config, corpus, to_start=to_start)
        affordable = affordable_updates(timed, minutes)
        if suited == smallest or affordable >= ENOUGH_UPDATES:
            break
        print(
            f"{duration(60 * minutes)} are enough for {affordable:,} updates of the model that "
            f"suits {suited:,} pairs ({config.model.dim} dimensions): a smaller one is tried."
        )
    return config, corpus, timed


def suited_pairs(pairs: int) -> list[int]:
    """Return the size of a corpus and those that smaller models would suit, largest first."""
    return [pairs, *(size.pairs for size in reversed(SIZES) if size.pairs < pairs)]


def affordable_updates(timed: "Estimate", minutes: float) -> int:
    """Return how many updates there is time for beside everything else that a run does."""
    seconds = 60 * minutes
    beside = timed.seconds_to_start + timed.seconds_to_finish
    beside += _validations(timed, seconds) * timed.seconds_per_validation
    return int(max(seconds - beside, seconds / 2) / timed.seconds_per_update)


def _validations(timed: "Estimate", seconds: float) -> int:
    return int(min(20, max(4, seconds / 6 / timed.seconds_per_validation)))


def with_updates(config: RunConfig, timed: "Estimate", *, epoch: int, minutes: float) -> RunConfig:
    """Choose how long to train: as long as it may take, but at most 60 epochs.

    Up to twenty validations see when the model has learned enough; they get a sixth of the time at
    most. The warm-up is a tenth of the run at most.
    """
    validations = _validations(timed, 60 * minutes)
    updates = min(max(affordable_updates(timed, minutes), 20), max(60 * epoch, 200))
    # The last validation is that of the last update, not one more.
    every = updates // validations
    updates = every * validations
    train = replace(
        config.train,
        max_updates=updates,
        warmup_updates=min(config.train.warmup_updates, max(updates // 10, 1)),
        validate_every=every,
        patience=5,
    )
    return replace(config, train=train)


def recipe_text(config: RunConfig, estimate: str, *, pairs: int) -> str:
    """Write a run as commented YAML; keys that have their defaults are left out."""
    data, model, train, windows = config.data, config.model, config.train, config.windows
    defaults = RunConfig()
    lines = [
        f"# {pairs:,} sentence pairs; {estimate}.",
        f"method: {config.method}  # `doc2doc` is the plain system to compare with.",
        f"output: {config.output}",
        "data:",
        f"  folder: {data.folder}",
        f"  source_language: {data.source_language}",
        f"  target_language: {data.target_language}",
    ]
    if data.train != defaults.data.train:
        lines += [f"  {split}: {getattr(data, split)}" for split in _SPLITS]
    elif data.boundaries != defaults.data.boundaries:
        lines.append(f"  boundaries: {data.boundaries}")
    if data.hold_out:
        lines.append(
            f"  hold_out: {data.hold_out}  # Share of documents for validation, and for testing."
        )
    lines += [
        "subwords:",
        f"  vocabulary_size: {config.subwords.vocabulary_size}",
        "windows:",
        f"  stride: {windows.stride}  # 1 is the paper's: every sentence is once the current one.",
        f"  loss_on: {windows.loss_on}",
        f"  max_length: {windows.max_length}",
        f"  on_long: {windows.on_long}  # Longer sentences are left out of training and counted.",
        "model:  # More data deserves a larger model.",
        *(
            f"  {name}: {getattr(model, name)}"
            for name in ("dim", "feed_forward", "heads", "encoder_layers", "decoder_layers")
        ),
        f"  dropout: {model.dropout}  # Raise it if the validation NLL rises early.",
        f"  max_positions: {model.max_positions}",
        "train:",
        *(
            f"  {name}: {getattr(train, name)}"
            for name in (
                *("max_tokens", "accumulation", "learning_rate", "warmup_updates", "clip_norm"),
                *("max_updates", "validate_every", "patience", "keep_checkpoints", "threads"),
            )
        ),
    ]
    return "\n".join(lines) + "\n"


def _column_languages(path: Path) -> list[str]:
    """Return the columns of a table that are named like languages, in their order."""
    separator = {".tsv": "\t", ".csv": ","}.get(path.suffix)
    if separator is None:
        return []
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        names = [name.strip().strip('"') for name in next(lines, "").split(separator)]
    return [name for name in names if re.fullmatch("[a-z]{2,3}", name)]


def _boundaries(path: Path) -> Boundaries:
    """Return what separates the documents of a text file, by its first separator line."""
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        for line in lines:
            if (found := _SEPARATORS.get(line.strip())) is not None:
                return found
    return "none"


def _batches(config: RunConfig, corpus: "Corpus") -> int:
    from iada.data.windows.sampler import TokenBatchSampler

    lengths = corpus.train.planned_lengths()
    sampler = TokenBatchSampler(
        lengths,
        max_tokens=config.train.max_tokens,
        seed=config.seed,
        length_multiple=config.train.length_multiple,
    )
    return len(sampler)
