"""`iada train`: train a model from a recipe."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iada.cli.parsing import RunCommand, parse_run_command, require_corpus

EXAMPLES = (
    "iada train recipe.yaml --dry_run",
    "iada train recipe.yaml",
    "iada train recipe.yaml --augment.alpha 0.3 --seed 2 --output runs/alpha-0.3",
    "iada train runs/mine/config.yaml --resume",
)


@dataclass(frozen=True, kw_only=True)
class TrainCommand(RunCommand):
    """Train a model. Runs alike under `accelerate launch` and `torchrun`."""

    resume: bool = False
    """Continue the run of `--output` from its newest complete checkpoint."""
    accept_changes: bool = False
    """Resume although the corpus, a version or the hardware has changed since the run began."""
    dry_run: bool = False
    """Read the corpus, print the plan and the resolved configuration, and stop. A few updates are
    timed to say how long the run will take."""


def parse(arguments: Sequence[str]) -> TrainCommand:
    """Parse the arguments of `iada train`."""
    return parse_run_command(TrainCommand, arguments, program="iada train", examples=EXAMPLES)


def run(command: TrainCommand) -> Path:
    """Train, and return the run folder."""
    if not command.resume:
        # What is wrong with paths is said before anything that takes long to import.
        require_corpus(command.config.data)

    import yaml

    from iada.config.base import to_mapping
    from iada.runs.environment import process_state
    from iada.training.train import describe_plan, train

    if command.dry_run:
        print(describe_plan(command.config))
        mapping = to_mapping(command.config)
        print(f"\n{yaml.safe_dump(mapping, sort_keys=False, allow_unicode=True)}", end="")
        return command.config.output
    try:
        folder = train(command.config, resume=command.resume, accept_changes=command.accept_changes)
    except KeyboardInterrupt:
        config_file = command.config.output / "config.yaml"
        if config_file.is_file():
            print(f"Continue with: iada train {config_file} --resume", file=sys.stderr)
        raise
    if process_state().is_main_process:
        print(folder.path)
    return folder.path
