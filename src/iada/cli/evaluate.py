"""`iada evaluate`: score translations."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from iada.cli.parsing import parse_dataclass
from iada.config.data import Boundaries
from iada.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class EvaluateCommand:
    """Score a run on its test split, or any hypothesis file against a reference file."""

    run: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = None
    """Run folder; what it has not yet translated is translated first."""
    hypothesis: Path | None = None
    """Translations to score, from any system; needs `--reference`."""
    reference: Path | None = None
    """Reference translations of the same lines."""
    boundaries: Boundaries = "blank_line"
    """What parts the documents of both files."""
    dry_run: bool = False
    """Say what would be scored and stop."""

    def __post_init__(self) -> None:
        given = [file is not None for file in (self.hypothesis, self.reference)]
        if (self.run is not None) == any(given):
            raise ConfigError("Give a run folder, or both `--hypothesis` and `--reference`.")
        if any(given) and not all(given):
            raise ConfigError("`--hypothesis` and `--reference` go together.")


def parse(arguments: Sequence[str]) -> EvaluateCommand:
    """Parse the arguments of `iada evaluate`."""
    return parse_dataclass(EvaluateCommand, arguments, program="iada evaluate")


def run(command: EvaluateCommand) -> Path | None:
    """Print the scores as JSON; for a run, also merge them into its `scores.json`."""
    from iada.evaluation.files import score_files
    from iada.evaluation.runs import score_run

    if command.run is not None:
        if command.dry_run:
            from iada.training.folder import RunFolder

            folder = RunFolder(command.run)
            _, reference = folder.config().data.paths("test")
            print(f"{folder.trained_model()}: translate and score {reference}")
            return None
        scores, path = score_run(command.run)
        print(json.dumps(scores, indent=2))
        return path
    if command.hypothesis is None or command.reference is None:
        raise ConfigError("Give a run folder, or both `--hypothesis` and `--reference`.")
    if command.dry_run:
        print(f"score {command.hypothesis} against {command.reference}")
        return None
    scores = score_files(command.hypothesis, command.reference, boundaries=command.boundaries)
    print(json.dumps(scores, indent=2))
    return None
