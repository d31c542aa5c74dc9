"""In a step our code never asks a device for a number: the host would wait for the answer."""

import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

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

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        """Begin with tensors that stand for those on a device; what is made of them does too."""
        super().__init__()
        self.found: list[str] = []
        # Kept, so that no other tensor gets their memory.
        self.kept = list(tensors)
        self.places = {_place(tensor) for tensor in self.kept}

    def is_there(self, tensor: Tensor) -> bool:
        """Whether a tensor stands for one on a device; random numbers for the host do not."""
        return _place(tensor) in self.places

    def note(self, name: str) -> None:
        """Remember a question, unless it is one that the library asks."""
        files = [frame.filename for frame in traceback.extract_stack()]
        asker = next(f for f in reversed(files) if "/iada/" in f or "/transformers/" in f)
        # Whether a mask has padding at all: Transformers asks it in every forward pass.
        if not asker.endswith("transformers/masking_utils.py"):
            self.found.append(f"{name} in {asker}")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        masks = name in ("index", "index_put", "index_put_") and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        given = [a for a in tree_leaves((args, kwargs)) if isinstance(a, Tensor)]
        there = any(map(self.is_there, given))
        if there and (name in WAITING or masks):
            self.note(name)
        result = func(*args, **(kwargs or {}))
        if there:
            made = [r for r in tree_leaves(result) if isinstance(r, Tensor)]
            self.kept += made
            self.places |= {*map(_place, made)}
        return result


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@contextmanager
def watched(model: Any, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Collect what the host asks of the tensors of a model and a batch, and of their results."""
    values = [value for value in batch.values() if isinstance(value, Tensor)]
    tensors = [*model.parameters(), *model.buffers(), *values]
    with monkeypatch.context() as patch, Watch(tensors) as watch:
        for name in ("tolist", "item", "__bool__"):
            original = getattr(Tensor, name)

            def noted(self: Tensor, *given: Any, name: str = name, original: Any = original) -> Any:
                if watch.is_there(self):
                    watch.note(name)
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
        with watched(objective.model, given, monkeypatch) as found:
            losses = objective(given)
            (losses.total / losses.count).backward()
        assert found == []


def test_positions_that_nobody_counted_are_asked_for(
    tiny_model: Build, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = AugmentedObjective(
        tiny_model(), augmentation("doc2doc"), replacement=Replace(40, range(6))
    )
    with watched(objective.model, batch, monkeypatch) as found:
        objective(batch)
    assert any(question.startswith("nonzero in ") for question in found)
