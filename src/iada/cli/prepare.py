"""`iada prepare`: check a corpus, learn its encoding, and store its tokens for training."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from iada.cli.parsing import RunCommand, parse_run_command, require_corpus
from iada.errors import ConfigError, DataError

if TYPE_CHECKING:
    from iada.data.prepared.prepare import Preparation
    from iada.data.prepared.prepared_corpus import PreparedCorpus

EXAMPLES = (
    "iada prepare recipe.yaml --data.prepared corpus/prepared",
    "iada prepare recipe.yaml --data.prepared corpus/prepared --show 3",
)


@dataclass(frozen=True, kw_only=True)
class PrepareCommand(RunCommand):
    """Check a corpus and turn it into the folder of `--data.prepared`.

    A killed run is resumed when the command is given again.
    """

    strict: bool = False
    """Refuse a corpus with errors; otherwise what is right is kept and the rest counted."""
    show: int = 0
    """Print this many worked windows: tokens, roles and what counts in the loss."""
    workers: int = 0
    """Number of processes; 0 means one per core."""
    dry_run: bool = False
    """Print the plan and stop."""


def parse(arguments: Sequence[str]) -> PrepareCommand:
    """Parse the arguments of `iada prepare`."""
    return parse_run_command(PrepareCommand, arguments, program="iada prepare", examples=EXAMPLES)


def run(command: PrepareCommand) -> Path:
    """Prepare, and return the folder."""
    config = command.config
    if config.data.prepared is None:
        raise ConfigError(
            "`data.prepared` is empty, so there is no folder to write. "
            "Set it in the recipe, or give `--data.prepared FOLDER`."
        )
    if command.show < 0 or command.workers < 0:
        raise ConfigError("`--show` and `--workers` must be 0 or more.")
    if not command.dry_run:
        # What is wrong with paths is said before anything that takes long to import.
        require_corpus(replace(config.data, prepared=None))

    from iada.data.prepared.prepare import Preparation, prepare
    from iada.runs.corpus import pretrained_subwords

    preparation = Preparation(
        config.data,
        config.subwords,
        config.data.prepared,
        windows=config.windows,
        augment=config.augment,
        pretrained=pretrained_subwords(config),
        strict=command.strict,
        workers=command.workers,
    )
    if command.dry_run:
        print(_plan(preparation))
        return preparation.output

    def show(corpus: "PreparedCorpus") -> None:
        print(_windows(corpus, command))

    corpus = prepare(preparation, show if command.show else None)
    print(corpus.summary())
    print(corpus.path)
    return corpus.path


def _plan(preparation: "Preparation") -> str:
    from iada.data.prepared.prepare import finished_stages

    lines: list[tuple[str, str]] = []
    for split in preparation.splits:
        for path in dict.fromkeys(preparation.data.paths(split)):
            size = f"{path.stat().st_size:,} bytes" if path.is_file() else "MISSING"
            lines.append((split, f"{path} ({size})"))
    settings = preparation.subwords
    encoding = (
        f"{settings.vocabulary_size:,} pieces"
        if settings.merges is None
        else f"{settings.merges:,} merges"
    )
    encoding = f"{encoding}, pretokenize: {settings.pretokenize}"
    if preparation.pretrained is not None:
        encoding = f"the tokenizer of {preparation.pretrained.settings.model}"
    stages = finished_stages(preparation)
    lines += [
        ("format", preparation.data.format),
        ("encoding", encoding),
        ("processes", str(preparation.processes)),
        ("already done", ", ".join(stages) or "nothing"),
        ("prepared folder", str(preparation.output)),
    ]
    return "\n".join(f"{name:<17}{value}" for name, value in lines)


def _windows(corpus: "PreparedCorpus", command: PrepareCommand) -> str:
    from iada.data.windows.windows import Windows, describe_window
    from iada.runs.corpus import run_frame

    subwords = corpus.subwords()
    store = corpus.store("train", subwords)
    frame = run_frame(command.config, subwords)
    windows = Windows(store, command.config.windows, frame=frame)
    if not len(windows):
        raise DataError("The training split has no window to show: no sentence pair has two sides.")
    shown = range(min(command.show, len(windows)))
    return "\n\n".join(describe_window(windows[0, index], subwords) for index in shown)
