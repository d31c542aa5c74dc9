"""Checkpoints that can be trusted: no pickles, checksums, and never half of one.

A checkpoint is written into a hidden folder, flushed to the disk and then renamed. It holds the
model as `transformers` saves it, the Trainer's progress in `trainer_state.json`, and as pairs of
JSON and safetensors the states of optimiser, schedule, gradient scaler and random generators:

config.json model.safetensors trainer_state.json manifest.json
optimizer.{json,safetensors} schedule.json random_0.{json,safetensors} (one pair per process)

and with `augment.importance_pass: lagged` the kept scores in importance.{json,safetensors}.
"""

import json
import logging
import random
import shutil
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import Trainer
from transformers.trainer import TRAINER_STATE_NAME, TRAINING_ARGS_NAME
from transformers.trainer_callback import ExportableState

from iada.errors import RunError
from iada.method.lagged import ScoreMemory
from iada.models.pretrained import has_adapters, load_adapter_weights
from iada.runs.folder import write_manifest
from iada.storage import remove_folder, sync, sync_folder

logger = logging.getLogger(__name__)

OPTIMIZER, SCHEDULE, SCALER, RANDOM = "optimizer", "schedule", "scaler", "random_{}"
IMPORTANCE = "importance"


def save_state(folder: Path, name: str, state: object) -> None:
    """Write a nested state as `name.json`, and its tensors and arrays as `name.safetensors`."""
    tensors: dict[str, Tensor] = {}
    packed = _pack(state, "", tensors)
    if tensors:
        save_file(tensors, folder / f"{name}.safetensors")
    (folder / f"{name}.json").write_text(json.dumps(packed, allow_nan=False), encoding="utf-8")


def load_state(folder: Path, name: str) -> Any:
    """Read what `save_state` wrote; tensors come to the CPU."""
    packed = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    file = folder / f"{name}.safetensors"
    return _unpack(packed, load_file(file) if file.is_file() else {})


def _pack(value: object, path: str, tensors: dict[str, Tensor]) -> object:
    """Return a value as JSON holds it; what JSON lacks becomes an object with one key, its kind."""
    match value:
        case Tensor():
            tensors[path] = value.detach().contiguous().cpu()
            return {"tensor": path}
        case np.ndarray():
            tensors[path] = torch.from_numpy(np.ascontiguousarray(value))
            return {"array": path}
        case dict():
            items = [[key, _pack(held, f"{path}/{key}", tensors)] for key, held in value.items()]
            return {"dict": items}
        case list() | tuple():
            members = [_pack(held, f"{path}/{n}", tensors) for n, held in enumerate(value)]
            return {"tuple": members} if isinstance(value, tuple) else members
        case bool() | int() | float() | str() | None:
            return value
    raise TypeError(f"a checkpoint cannot hold {type(value).__name__} at {path}")


def _unpack(packed: object, tensors: dict[str, Tensor]) -> Any:
    match packed:
        case {"tensor": str(path)}:
            return tensors[path]
        case {"array": str(path)}:
            return tensors[path].numpy()
        case {"dict": list(items)}:
            return {key: _unpack(held, tensors) for key, held in items}
        case {"tuple": list(members)}:
            return tuple(_unpack(held, tensors) for held in members)
        case list():
            return [_unpack(held, tensors) for held in packed]
    return packed


def random_state() -> dict[str, Any]:
    """Return the states of all global random generators."""
    state = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "cpu": torch.random.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.random.get_rng_state_all()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Restore what `random_state` returned; generators of devices that are gone are left out."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.random.set_rng_state(state["cpu"])
    cuda = state.get("cuda", [])
    if cuda and len(cuda) == torch.cuda.device_count():
        torch.cuda.random.set_rng_state_all(cuda)


class CheckpointTrainer(Trainer):
    """A Trainer with checkpoints as described above."""

    score_memory: ScoreMemory | None = None
    """Importance from earlier draws, where it is kept."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        update = self.state.global_step
        self.store_flos()
        folder = Path(self._get_output_dir(trial))
        path, staging = folder / f"checkpoint-{update}", folder / f".checkpoint-{update}.staged"
        if self.args.should_save:
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir(parents=True)
        if self.score_memory is not None:
            self.score_memory.share(self.args.device)
        self.accelerator.wait_for_everyone()
        self.save_model(str(staging), _internal_call=True)
        if not self.args.save_only_model:
            self._save_scores(staging)
            self._save_optimizer_and_scheduler(str(staging))
            self._save_scaler(str(staging))
            self._save_rng_state(str(staging))
        self.accelerator.wait_for_everyone()
        if self.state.best_global_step:
            best = folder / f"checkpoint-{self.state.best_global_step}"
            if best == path or best.is_dir():
                self.state.best_model_checkpoint = str(best)
        if self.args.should_save:
            self._save_progress(staging)
            write_manifest(staging)
            sync_folder(staging)
            if path.exists():
                remove_folder(path)
            staging.rename(path)
            sync(folder)
            self._remove_old_checkpoints(folder)
        self.accelerator.wait_for_everyone()
        if self.args.push_to_hub:
            self._push_from_checkpoint(str(path))

    def _save_progress(self, folder: Path) -> None:
        """Write the Trainer's state, with the counters of its callbacks."""
        callbacks = cast(dict[str, Any], self.state.stateful_callbacks)
        for callback in (*self.callback_handler.callbacks, self.control):
            if isinstance(callback, ExportableState):
                callbacks[type(callback).__name__] = callback.state()
        self.state.save_to_json(str(folder / TRAINER_STATE_NAME))

    def _remove_old_checkpoints(self, folder: Path) -> None:
        """Keep the newest checkpoints up to the limit, and in any case the newest and the best."""
        limit = self.args.save_total_limit
        if not limit or limit < 0:
            return
        kept = {
            f"checkpoint-{self.state.global_step}",
            Path(self.state.best_model_checkpoint or "").name,
        }
        numbered = {int(path.name.split("-")[1]): path for path in folder.glob("checkpoint-[0-9]*")}
        others = [numbered[n] for n in sorted(numbered) if numbered[n].name not in kept]
        surplus = len(numbered) - max(limit, len(kept - {""}))
        for path in others[: max(surplus, 0)]:
            remove_folder(path)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        super()._save(output_dir, state_dict)
        # A pickle of settings that the run folder holds as text.
        folder = Path(output_dir or str(self.args.output_dir))
        (folder / TRAINING_ARGS_NAME).unlink(missing_ok=True)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if self.args.should_save:
            save_state(Path(output_dir), OPTIMIZER, cast(Any, self.optimizer).state_dict())
            save_state(Path(output_dir), SCHEDULE, cast(Any, self.lr_scheduler).state_dict())

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        folder = Path(checkpoint)
        self._load_scores(folder)
        if not (folder / f"{OPTIMIZER}.json").is_file() and (folder / "optimizer.pt").is_file():
            if self.args.should_save:
                logger.warning(
                    "%s was written by iada 0.1.0; the next checkpoint has the new format.", folder
                )
            # Reads tensors and plain values alone: `weights_only=True`.
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        cast(Any, self.optimizer).load_state_dict(load_state(folder, OPTIMIZER))
        cast(Any, self.lr_scheduler).load_state_dict(load_state(folder, SCHEDULE))

    def _save_scores(self, folder: Path) -> None:
        if self.score_memory is not None and self.args.should_save:
            save_state(folder, IMPORTANCE, self.score_memory.state())

    def _load_scores(self, folder: Path) -> None:
        if self.score_memory is None:
            return
        if not (folder / f"{IMPORTANCE}.json").is_file():
            raise RunError(
                f"{folder} keeps no importance scores, so that a run with `augment.importance_pass:"
                " lagged` cannot go on from it. Resume with the setting that wrote it."
            )
        self.score_memory.load(load_state(folder, IMPORTANCE))

    def _save_scaler(self, output_dir: str) -> None:
        scaler = getattr(self.accelerator, "scaler", None)
        if scaler is not None and self.args.should_save:
            save_state(Path(output_dir), SCALER, scaler.state_dict())

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        target = self.model if model is None else model
        if has_adapters(target):
            load_adapter_weights(target, Path(resume_from_checkpoint))
        else:
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_best_model(self) -> None:
        if has_adapters(self.model):
            load_adapter_weights(self.model, Path(str(self.state.best_model_checkpoint)))
        else:
            super()._load_best_model()

    def _load_scaler(self, checkpoint: str | None) -> None:
        scaler = getattr(self.accelerator, "scaler", None)
        if scaler is not None and checkpoint is not None:
            scaler.load_state_dict(load_state(Path(checkpoint), SCALER))

    def _save_rng_state(self, output_dir: str) -> None:
        name = RANDOM.format(self.args.process_index)
        save_state(Path(output_dir), name, random_state())

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        folder, name = Path(checkpoint), RANDOM.format(self.args.process_index)
        if (folder / f"{name}.json").is_file():
            set_random_state(load_state(folder, name))
        elif list(folder.glob("rng_state*.pth")):
            super()._load_rng_state(checkpoint)
        else:
            # The number of processes was changed, and the user has accepted that.
            logger.warning("%s has no random state of process %d.", folder, self.args.process_index)

    def _load_callback_state(self) -> None:
        """Restore the counters of callbacks, but not their settings: those given now hold."""
        callbacks = cast(dict[str, Any], self.state.stateful_callbacks)
        for callback in self.callback_handler.callbacks:
            stored = callbacks.get(type(callback).__name__)
            if isinstance(callback, ExportableState) and isinstance(stored, dict):
                for attribute, value in stored.get("attributes", {}).items():
                    setattr(callback, attribute, value)

    def _init_training_state(self, *arguments: Any) -> tuple[int, int]:
        counted: tuple[int, int] = super()._init_training_state(*arguments)
        if self.state.best_global_step:
            # By number: the recorded path is no longer true once a run folder was moved.
            best = Path(str(self.args.output_dir)) / f"checkpoint-{self.state.best_global_step}"
            if best.is_dir():
                self.state.best_model_checkpoint = str(best)
        return counted

    def _finalize_training(self, *arguments: Any) -> Any:
        # With a limit of 1 the Trainer removes the newest checkpoint unless it is the best, and
        # without it nobody could tell that the run has reached its end.
        limit, self.args.save_total_limit = self.args.save_total_limit, None
        try:
            return super()._finalize_training(*arguments)  # type: ignore[no-untyped-call]
        finally:
            self.args.save_total_limit = limit
