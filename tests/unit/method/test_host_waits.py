"""Between two updates the host never asks a device for a number: it would wait for the answer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from iada.config.method import AugmentConfig, augmentation
from iada.data.windows.batch import Batch
from iada.method.lagged import ScoreMemory
from iada.method.objective import AugmentedObjective
from iada.method.perturbation import Replace

Build = Callable[..., Any]
WAITING = {
    "_local_scalar_dense",
    "nonzero",
    "is_nonzero",
    "masked_select",
    "_unique2",
    "equal",
    "repeat_interleave",
}
"""Operators whose result, or its size, the host must know."""


class Watch(TorchDispatchMode):
    """Note operators that would wait for a device."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        masks = name in ("index", "index_put", "index_put_") and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        if name in WAITING or masks:
            self.found.append(name)
        return func(*args, **(kwargs or {}))


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Collect what the host asks of tensors."""
    with monkeypatch.context() as patch, Watch() as watch:
        for name in ("tolist", "item", "__bool__"):
            original = getattr(Tensor, name)

            def noted(self: Tensor, *given: Any, name: str = name, original: Any = original) -> Any:
                watch.found.append(name)
                return original(self, *given)

            patch.setattr(Tensor, name, noted)
        yield watch.found


def _counted(batch: Batch) -> Batch:
    in_loss = batch["labels"] >= 0
    return {
        **batch,
        "numbers": np.array([0, 1, 2]),
        "positions": in_loss.reshape(-1).nonzero().squeeze(1),
        "loss_width": int(in_loss.sum(dim=1).max()),
    }


CONFIGS = {
    "gnorm": AugmentConfig(),
    "tnorm": AugmentConfig(measure="tnorm"),
    "lagged": AugmentConfig(importance_pass="lagged"),
    "matched": AugmentConfig(budget="matched", alpha=1.0),
    "surprisal": AugmentConfig(measure="surprisal"),
    "random": AugmentConfig(measure="random"),
    "doc2doc": augmentation("doc2doc"),
    "simcut": augmentation("simcut"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_step_of_the_objective_asks_nothing(
    name: str, tiny_model: Build, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = CONFIGS[name]
    memory = None
    if name == "lagged":
        sides = (batch["attention_mask"], batch["decoder_input_ids"] != 0)
        memory = ScoreMemory(np.stack([side.sum(dim=1).numpy() for side in sides], axis=1))
    objective = AugmentedObjective(
        tiny_model(), config, replacement=Replace(40, range(6)), memory=memory
    )
    given = _counted(batch)
    for _ in range(2):
        with watched(monkeypatch) as found:
            losses = objective(given)
            (losses.total / losses.count).backward()
        assert found == []


def test_positions_that_nobody_counted_are_asked_for(
    tiny_model: Build, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = AugmentedObjective(
        tiny_model(), augmentation("doc2doc"), replacement=Replace(40, range(6))
    )
    with watched(monkeypatch) as found:
        objective(batch)
    assert "nonzero" in found
