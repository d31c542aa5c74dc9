"""The run folder: what a run leaves behind, and what it refuses to overwrite.

It holds `config.yaml`, `environment.json`, `metrics.jsonl`, `tokenizer/`, `checkpoints/`,
`model/`, `translations/` and `scores.json`.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from iada.config.base import differences, to_mapping, write_yaml
from iada.config.run import RunConfig, load_run_config
from iada.errors import RunError
from iada.storage import write_json

MAY_CHANGE = (
    "output",
    "data.folder",
    "data.prepared",
    "train.max_updates",
    "train.patience",
    "train.min_delta",
    "train.keep_checkpoints",
    "train.log_every",
    "train.threads",
    "decode.",
    "evaluate.",
)
"""Keys that a resumed run may change: they do not touch the updates that were made."""


class RunFolder:
    """Paths of a run, and the rules for writing them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.yaml"
        self.environment_file = path / "environment.json"
        self.metrics_file = path / "metrics.jsonl"
        self.scores_file = path / "scores.json"
        self.checkpoints = path / "checkpoints"
        self.tokenizer = path / "tokenizer"
        self.model = path / "model"
        self.translations = path / "translations"

    def check_unused(self) -> None:
        """Refuse a folder that holds anything."""
        if self.path.is_dir() and any(self.path.iterdir()):
            raise RunError(
                f"{self.path} already holds files. Continue it with `--resume`, choose another "
                "`--output`, or remove it yourself."
            )

    def begin(self, config: RunConfig, environment: Mapping[str, object]) -> None:
        """Create the folder of a new run."""
        self.check_unused()
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.environment_file, environment)
        # Last: a folder with a configuration is one that can be resumed.
        write_yaml(self.config_file, to_mapping(config))

    def check_resumable(self, config: RunConfig) -> None:
        """Refuse to resume with another configuration than the run's own."""
        changed = [
            line for line in differences(self.config(), config) if not line.startswith(MAY_CHANGE)
        ]
        if changed:
            raise RunError(
                f"{self.path} was trained with another configuration: {'; '.join(changed)}. "
                "Resume with the saved values, or begin a new run with another `--output`."
            )

    def config(self) -> RunConfig:
        """Read the configuration of the run."""
        if not self.config_file.is_file():
            raise RunError(f"{self.path} is not a run folder: it has no config.yaml.")
        return load_run_config(self.config_file)

    def last_checkpoint(self) -> Path | None:
        """Return the newest complete checkpoint; one cut short by a kill does not count."""
        complete = []
        for folder in self.checkpoints.glob("checkpoint-*"):
            try:
                # Written last, so a checkpoint that has it has everything.
                state = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
            complete.append((int(state["global_step"]), folder))
        return max(complete)[1] if complete else None

    def trained_model(self) -> Path:
        """Return the folder of the finished model."""
        if not (self.model / "config.json").is_file():
            raise RunError(
                f"{self.path} holds no finished model. Train it to the end with "
                f"`iada train {self.config_file} --resume`."
            )
        return self.model
