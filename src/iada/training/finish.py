"""What a run leaves when it has reached its end: one model, ready to use and to share.

It is the best checkpoint or, with `train.average`, the mean of the last ones where that validates
better. `model/` appears as a whole, with its tokenizer and a model card. A run that was killed
after its last update leaves the same when it is resumed.
"""

import json
import logging
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor
from transformers import GenerationConfig

from iada.config.run import RunConfig
from iada.config.train import TrainConfig
from iada.data.tokens.pretrained_subwords import load_subwords
from iada.data.tokens.subwords import SubwordEncoding
from iada.errors import RunError
from iada.evaluation.model_card import CARD, render_card
from iada.models.pretrained import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    has_adapters,
    load_adapter_weights,
    load_merged,
    set_adapter_weights,
)
from iada.runs.environment import process_state
from iada.runs.folder import AVERAGING, Checkpoint, RunFolder, changed_at, weight_files
from iada.storage import sha256, staged_folder, write_json
from iada.training.trainer import IadaTrainer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Averaging:
    """An average of checkpoints beside the best of them, as `averaging.json` keeps it."""

    update: int
    """Last update of the run."""
    asked: int
    """Value of `train.average`."""
    checkpoints: tuple[str, ...]
    """What was averaged."""
    metric: str
    best: dict[str, float]
    """Validation scores of the best checkpoint."""
    average: dict[str, float]
    """Validation scores of the average."""
    kept: Literal["best", "average"]

    def describe(self) -> str:
        """Say it in one line."""
        values = ", ".join(
            f"dev {name} {self.best[name]:.4f} (best checkpoint), {value:.4f} (average)"
            for name, value in self.average.items()
        )
        chosen = "the average" if self.kept == "average" else "the best checkpoint"
        return f"Average of {', '.join(self.checkpoints)}: {values}. The model is {chosen}."


def average_weights(checkpoints: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of the weights of checkpoints, computed in float64 one tensor at a time.

    Raises:
        RunError: they do not belong to one model of one configuration.
    """
    first, *others = checkpoints
    for name in ("config.json", ADAPTER_CONFIG):
        for other in others:
            if _read(first / name) != _read(other / name):
                raise RunError(
                    f"{first} and {other} cannot be averaged: their {name} differ. Average "
                    "checkpoints of one run with one configuration."
                )
    names = [[file.name for file in weight_files(path)] for path in checkpoints]
    mean: dict[str, Tensor] = {}
    for file in names[0]:
        readers = [_open(path / file) for path in checkpoints]
        keys = [sorted(reader.keys()) for reader in readers]
        if names.count(names[0]) < len(names) or keys.count(keys[0]) < len(keys):
            raise RunError(
                f"{first.parent} holds checkpoints with different weights, which cannot be "
                "averaged. Average checkpoints of one run with one configuration."
            )
        for key in keys[0]:
            mean[key] = _mean([reader.get_tensor(key) for reader in readers], key)
    return mean


def _read(path: Path) -> object:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error}") from None


def _mean(tensors: Sequence[Tensor], name: str) -> Tensor:
    first = tensors[0]
    if any(other.shape != first.shape or other.dtype != first.dtype for other in tensors):
        raise RunError(f"{name} has different shapes or types in the checkpoints to average.")
    if not first.is_floating_point():
        return first
    total = torch.zeros_like(first, dtype=torch.float64)
    for tensor in tensors:
        total += tensor
    return (total / len(tensors)).to(first.dtype)


def choose_weights(trainer: IadaTrainer, folder: RunFolder, train: TrainConfig) -> Averaging | None:
    """Put the better of best checkpoint and average into the trainer's model; None without any.

    Every process takes part in the validation.
    """
    last = folder.last_checkpoint(say=False) if train.average else None
    if last is None:
        return None
    chosen = folder.complete_checkpoints(train.average)
    if len(chosen) < train.average and process_state().is_main_process:
        logger.warning(
            "`train.average` is %d, but the run has %d complete checkpoints to average.",
            train.average,
            len(chosen),
        )
    model = trainer.augmented_objective.model
    load_checkpoint(model, last.best)
    best = trainer.validate()
    set_weights(model, average_weights(chosen))
    average = trainer.validate()
    sign = -1 if train.metric == "nll" else 1
    is_better = sign * average[train.metric] > sign * best[train.metric]
    keeps = is_better or train.average_keep == "always"
    if not keeps:
        load_checkpoint(model, last.best)
    names = tuple(path.name for path in chosen)
    kept: Literal["best", "average"] = "average" if keeps else "best"
    found = Averaging(last.update, train.average, names, train.metric, best, average, kept)
    if process_state().is_main_process:
        logger.info("%s", found.describe())
    return found


def load_checkpoint(model: Any, folder: Path) -> None:
    """Set a model to the weights of a checkpoint."""
    if has_adapters(model):
        load_adapter_weights(model, folder)
    else:
        set_weights(model, {k: v for f in weight_files(folder) for k, v in load_file(f).items()})


def set_weights(model: Any, weights: dict[str, Tensor]) -> None:
    """Set a model, or its adapters, to weights by the names under which they are saved."""
    if has_adapters(model):
        set_adapter_weights(model, weights)
        return
    # Tied weights are saved once; buffers that can be rebuilt are not saved at all.
    found = model.load_state_dict(weights, strict=False)
    if found.unexpected_keys:
        raise RunError(f"Weights of another model: {', '.join(found.unexpected_keys[:3])}.")


def is_exported(folder: RunFolder, config: RunConfig, checkpoint: Checkpoint) -> bool:
    """Whether `model/` is already what a run that has reached its end leaves."""
    if not folder.has_model():
        return False
    if config.train.average:
        made = _read(folder.model / AVERAGING)
        wanted = {"update": checkpoint.update, "asked": config.train.average}
        return isinstance(made, dict) and wanted.items() <= made.items()
    best = weight_files(checkpoint.best)
    if config.train.lora.rank and config.train.lora.merge:
        # Merged weights cannot be compared with adapters.
        own = weight_files(folder.model)
        is_merged = not (folder.model / ADAPTER_CONFIG).is_file()
        return is_merged and changed_at(own) >= changed_at(best)
    pairs = [(folder.model / file.name, file) for file in best]
    return all(own.is_file() and sha256(own) == sha256(file) for own, file in pairs)


def copy_checkpoint(folder: RunFolder, checkpoint: Checkpoint) -> None:
    """Make `model/` from the files of the best checkpoint, without loading it."""
    with staged_folder(folder.model) as staging:
        for pattern in ("*config.json", "*model*.safetensors*"):
            for path in checkpoint.best.glob(pattern):
                shutil.copyfile(path, staging / path.name)
        load_subwords(folder.tokenizer).save(staging)
        (staging / CARD).write_text(render_card(folder, staging), encoding="utf-8")
    logger.info("Model saved in %s", folder.model)


def save_model(
    folder: RunFolder,
    model: Any,
    subwords: SubwordEncoding,
    *,
    merge: bool,
    averaging: Averaging | None = None,
) -> None:
    """Write `model/`: weights, configuration, tokenizer and model card."""
    with staged_folder(folder.model) as staging, warnings.catch_warnings():
        # Sinusoidal positions are not saved; the library warns although it rebuilds them itself.
        warnings.simplefilter("ignore")
        model.save_pretrained(staging)
        if has_adapters(model):
            model.config.save_pretrained(staging)
            model.generation_config.save_pretrained(staging)
            if merge:
                _merge(staging, model.generation_config)
        subwords.save(staging)
        if averaging is not None:
            write_json(staging / AVERAGING, asdict(averaging))
        (staging / CARD).write_text(render_card(folder, staging), encoding="utf-8")
    logger.info("Model saved in %s", folder.model)


def _merge(folder: Path, generation_config: GenerationConfig) -> None:
    """Replace the adapters of a folder by the model with them merged in."""
    merged = load_merged(folder)
    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        (folder / name).unlink()
    merged.generation_config = generation_config
    merged.save_pretrained(folder)
