"""What a run writes and shows while it trains, and when it stops."""

import json
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm
from transformers import EarlyStoppingCallback, TrainerCallback
from transformers.integrations.integration_utils import get_reporting_integration_callbacks

from iada.errors import ConfigError
from iada.storage import append_line, write_bytes

logger = logging.getLogger(__name__)

_VALIDATION = {"eval_nll": "dev_nll", "eval_s_bleu": "dev_s_bleu", "eval_d_bleu": "dev_d_bleu"}
_NAMES = {**_VALIDATION, "grad_norm": "gradient_norm"}
_TERMS = ("loss", "original", "perturbed", "agreement")
_KEPT = (*_TERMS, *_VALIDATION.values(), "learning_rate", "gradient_norm")


class MetricsFile(TrainerCallback):
    """Append one JSON object per log line to `metrics.jsonl`, on the main process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._started = time.perf_counter()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Drop lines that a resumed run will write again."""
        if not state.is_world_process_zero or not self.path.exists():
            return
        lines = self.path.read_bytes().splitlines()
        kept = [line for line in lines if _update_of(line) <= state.global_step]
        if kept:
            self._started -= json.loads(kept[-1])["seconds"]
        if kept != lines:
            write_bytes(self.path, b"".join(line + b"\n" for line in kept))

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Write what the log line says."""
        if not state.is_world_process_zero or logs is None:
            return
        named = {_NAMES.get(key, key): value for key, value in logs.items()}
        values = {key: named[key] for key in _KEPT if key in named}
        if not values:
            return
        record = {"update": state.global_step, "epoch": round(state.epoch or 0.0, 4)}
        record["seconds"] = round(time.perf_counter() - self._started, 2)
        append_line(self.path, json.dumps(record | values, allow_nan=False))


class Progress(TrainerCallback):
    """Show updates, loss and validation NLL: as a bar on a terminal, otherwise line by line."""

    def __init__(self, description: str) -> None:
        self.description = description
        self._bar: tqdm[Any] | None = None
        self._shown: dict[str, str] = {}
        self._last_log = self._began = (0.0, 0)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Name the device, and open the bar at the update where training begins."""
        if not state.is_world_process_zero:
            return
        self._last_log = self._began = (time.perf_counter(), state.global_step)
        logger.info(
            "%s: training on %s, from update %d to at most %d",
            self.description,
            _describe_devices(args),
            state.global_step,
            state.max_steps,
        )
        if sys.stderr.isatty():
            self._bar = tqdm(
                total=state.max_steps,
                initial=state.global_step,
                desc=self.description,
                unit="update",
                dynamic_ncols=True,
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Advance by one update."""
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.n)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Show the newest loss and validation NLL."""
        if not state.is_world_process_zero or logs is None:
            return
        for key, name in (("loss", "loss"), ("eval_nll", "dev")):
            if key in logs:
                self._shown[name] = f"{logs[key]:.3f}"
        if self._bar is not None:
            if "loss" in logs:
                self._shown["tokens/s"] = f"{self._token_rate(state, logs):,.0f}"
            self._bar.set_postfix(self._shown, refresh=False)
        elif "loss" in logs:
            logger.info("%s: %s", self.description, self._describe_update(state, logs))
        elif "eval_nll" in logs:
            position = f"update {state.global_step}/{state.max_steps}"
            scores = f"dev NLL {logs['eval_nll']:.3f}"
            if "eval_s_bleu" in logs:
                scores += f", s-BLEU {logs['eval_s_bleu']:.2f}, d-BLEU {logs['eval_d_bleu']:.2f}"
            logger.info("%s: %s, %s", self.description, position, scores)

    def _describe_update(self, state: Any, logs: Any) -> str:
        rate = self._token_rate(state, logs)
        # The mean since the beginning also covers validations and checkpoints.
        elapsed = self._last_log[0] - self._began[0]
        seconds = elapsed / max(state.global_step - self._began[1], 1)
        left = _describe_seconds(seconds * (state.max_steps - state.global_step))
        return (
            f"update {state.global_step}/{state.max_steps}, loss {logs['loss']:.3f}, "
            f"{rate:,.0f} loss tokens/s, {left} left"
        )

    def _token_rate(self, state: Any, logs: Any) -> float:
        """Return the loss tokens per second since the last log line."""
        now = time.perf_counter()
        rate: float = logs.get("loss_tokens", 0) / max(now - self._last_log[0], 1e-9)
        self._last_log = (now, state.global_step)
        return rate

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()


def _describe_devices(args: Any) -> str:
    if args.device.type == "cpu":
        device = f"the CPU ({torch.get_num_threads()} threads)"
    elif args.device.type == "cuda":
        device = torch.cuda.get_device_name(args.device)
    else:
        device = args.device.type
    return f"{args.world_size} processes, each on {device}" if args.world_size > 1 else device


def _describe_seconds(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def early_stopping(patience: int, min_delta: float) -> TrainerCallback:
    """Return the callback that stops after `patience` validations without a better metric.

    It counts also where it never stops (`patience` 0), because a resumed run may set a limit.
    """
    return EarlyStoppingCallback(patience or sys.maxsize, min_delta)


def check_trackers(names: Sequence[str]) -> None:
    """Refuse trackers that cannot be used, before anything is read or written.

    Raises:
        ConfigError: Transformers does not know a name, or its package is missing.
    """
    for name in names:
        try:
            (tracker,) = get_reporting_integration_callbacks([name])  # type: ignore[no-untyped-call]
            tracker()
        except (ValueError, RuntimeError, ImportError) as error:
            reason = " ".join(str(error).split())
            raise ConfigError(
                f"`train.report_to` names {name!r}, which cannot be used here: {reason} Install "
                "what it needs, or remove the name."
            ) from None


def _update_of(line: bytes) -> int:
    """Return the update of a metrics line; an incomplete line counts as never written."""
    try:
        return int(json.loads(line.decode("utf-8"))["update"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return sys.maxsize
