"""What a run writes while it trains, and when it stops."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm
from transformers import EarlyStoppingCallback, TrainerCallback

_NAMES = {"eval_nll": "dev_nll", "grad_norm": "gradient_norm"}
_KEPT = ("loss", "original", "perturbed", "agreement", "dev_nll", "learning_rate", "gradient_norm")


class MetricsFile(TrainerCallback):
    """Append one JSON object per log line to `metrics.jsonl`, on the main process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._started = time.perf_counter()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Drop lines that a resumed run will write again."""
        if not state.is_world_process_zero or not self.path.exists():
            return
        lines = self.path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if _update_of(line) <= state.global_step]
        if kept:
            self._started -= json.loads(kept[-1])["seconds"]
        self.path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")

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
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record | values) + "\n")


class ProgressBar(TrainerCallback):
    """Show updates, loss and validation NLL on a terminal."""

    def __init__(self, description: str) -> None:
        self.description = description
        self._bar: tqdm[Any] | None = None
        self._shown: dict[str, str] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Open the bar at the update where training begins."""
        self._bar = tqdm(
            total=state.max_steps,
            initial=state.global_step,
            desc=self.description,
            unit="update",
            disable=not (state.is_world_process_zero and sys.stderr.isatty()),
            dynamic_ncols=True,
        )

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Advance by one update."""
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.n)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Show the newest loss and validation NLL."""
        if self._bar is None or logs is None:
            return
        for key, name in (("loss", "loss"), ("eval_nll", "dev")):
            if key in logs:
                self._shown[name] = f"{logs[key]:.3f}"
        self._bar.set_postfix(self._shown, refresh=False)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()


def early_stopping(patience: int, min_delta: float) -> list[TrainerCallback]:
    """Return the callback that stops after `patience` validations without a better NLL."""
    if patience == 0:
        return []
    return [EarlyStoppingCallback(patience, min_delta)]


def _update_of(line: str) -> int:
    """Return the update of a metrics line; a line cut short by a kill counts as never written."""
    try:
        return int(json.loads(line)["update"])
    except (ValueError, KeyError, TypeError):
        return sys.maxsize
