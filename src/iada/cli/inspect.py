"""`iada inspect`: importance and replacement probability of every token of a document pair.

With `--pos`, which parts of speech are perturbed in a whole split instead.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from iada.cli.parsing import find_positional, parse_dataclass, require_files
from iada.config.data import DataConfig
from iada.config.method import Measure
from iada.config.run import load_run_config
from iada.errors import ConfigError, DataError

EXAMPLES = (
    "iada inspect runs/mine --document 2 --html importance.html",
    "iada inspect runs/mine --source letter.en --target letter.de",
    "iada inspect runs/mine --data.folder moved/corpus",
)


@dataclass(frozen=True, kw_only=True)
class InspectCommand:
    """Show what importance-aware augmentation sees: a heat map of a document pair.

    With `--pos`, print which parts of speech are perturbed in the test split instead, as JSON.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folder of the model."""
    source: Path | None = None
    """Source file; by default the test split of the run's corpus."""
    target: Path | None = None
    """Its translation, line for line."""
    document: int = 1
    """Which document of the files, counted from 1."""
    measure: Measure | None = None
    """Importance measure; by default the run's, or gnorm for a heat map if it has none."""
    alpha: float | None = None
    """Spread of the importance; by default the run's."""
    html: Path | None = None
    """Also write the heat map to this HTML file."""
    pos: bool = False
    """Count parts of speech instead of drawing a heat map."""
    tagger: Literal["auto", "gold", "hanta"] = "auto"
    """With `--pos`: gold tags from `<source file>.pos`, HanTa (`pip install 'iada[pos]'`), or gold
    where there are any."""
    draws: int = 1
    """With `--pos`: how often every window is perturbed for the sampled shares."""

    data: DataConfig = field(default_factory=DataConfig)
    """The corpus; by default the run's own. If that has moved: `--data.folder FOLDER`."""

    def __post_init__(self) -> None:
        if (self.source is None) != (self.target is None):
            raise ConfigError("`--source` and `--target` go together.")
        if self.pos and self.source is not None:
            raise ConfigError(
                "`--pos` counts in the test split of the run's corpus. Leave out `--source` and "
                "`--target`, or call `iada.analysis.parts_of_speech.perturbed_shares`."
            )


def parse(arguments: Sequence[str]) -> InspectCommand:
    """Parse the arguments of `iada inspect`; the run's corpus is the default."""
    program = "iada inspect"
    folder = find_positional(arguments, InspectCommand)
    if folder is None or not (folder / "config.yaml").is_file():
        return parse_dataclass(InspectCommand, arguments, program=program, examples=EXAMPLES)
    default = InspectCommand(run=folder, data=load_run_config(folder / "config.yaml").data)
    return parse_dataclass(
        InspectCommand, arguments, program=program, examples=EXAMPLES, default=default
    )


def run(command: InspectCommand) -> Path | None:
    """Print the heat map; return the HTML file if one was asked for."""
    from iada.runs.folder import RunFolder

    config = RunFolder(command.run).config()
    data = config.data if command.data == DataConfig() else command.data
    # What is wrong with paths is said before anything that takes long to import.
    RunFolder(command.run).best_model()
    require_files(*((command.source, command.target) if command.source else data.paths("test")))

    from iada.analysis.importance_map import inspect, inspected_augmentation
    from iada.data.formats.readers import read_parallel, read_split
    from iada.report.heatmap import to_terminal, write_heat_map

    if command.pos:
        _print_shares(command, data)
        return None
    source = command.source or data.paths("test")[0]
    if command.source is not None and command.target is not None:
        boundaries = data.boundaries
        documents = read_parallel(command.source, command.target, boundaries=boundaries)
    else:
        documents = read_split(data, "test")
    if not 1 <= command.document <= len(documents):
        raise DataError(
            f"{source} has {len(documents)} documents; there is no document {command.document}."
        )
    document = documents[command.document - 1]
    views = inspect(command.run, [document], measure=command.measure, alpha=command.alpha)
    print(to_terminal(views, colour=sys.stdout.isatty()))
    if command.html is None:
        return None
    measure = inspected_augmentation(config.augment, command.measure, command.alpha).measure
    title = f"Importance ({measure}) in {document.name}"
    return write_heat_map(command.html, views, title)


def _print_shares(command: InspectCommand, data: DataConfig) -> None:
    from iada.analysis.parts_of_speech import perturbed_shares
    from iada.runs.folder import RunFolder

    augment = RunFolder(command.run).config().augment
    if command.measure is not None:
        augment = replace(augment, measure=command.measure)
    if command.alpha is not None:
        augment = replace(augment, alpha=command.alpha)
    shares = perturbed_shares(
        command.run, data, tagger=command.tagger, augment=augment, draws=command.draws
    )
    print(json.dumps(shares.to_mapping(), indent=2))
