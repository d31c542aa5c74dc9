"""Lookups and the output projection of a tied weight leave one gradient."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from iada.config.method import AugmentConfig
from iada.data.windows.batch import Batch
from iada.method.objective import AugmentedObjective
from iada.method.perturbation import Replace
from iada.models.savings import TiedWeight

Build = Callable[..., Any]


class _Model(nn.Module):
    def __init__(self, padding: int | None = None) -> None:
        super().__init__()
        self.lookup = nn.Embedding(6, 4, padding_idx=padding, dtype=torch.float64)
        self.head = nn.Linear(4, 6, bias=False, dtype=torch.float64)
        self.head.weight = self.lookup.weight

    def forward(self, *ids: Tensor) -> Tensor:
        return torch.stack([self.lookup(row).tanh() for row in ids]).sum(dim=0)


def _gradient(model: _Model, ids: list[Tensor], weight: Callable[[], Tensor]) -> Tensor:
    model.zero_grad()
    states = model(*ids)
    (states @ weight().T).square().sum().backward()
    assert model.lookup.weight.grad is not None
    return model.lookup.weight.grad.clone()


@pytest.mark.parametrize("padding", [None, 0])
def test_the_gradient_is_that_of_separate_uses(padding: int | None) -> None:
    torch.manual_seed(1)
    model = _Model(padding)
    # Rows that occur twice in one lookup, in both, and not at all.
    ids = [torch.tensor([1, 1, 0, 4]), torch.tensor([1, 2, 0, 0])]
    expected = _gradient(model, ids, lambda: model.head.weight)
    tied = TiedWeight.of(model.head, [model.lookup, model.lookup])
    assert tied is not None

    def carried() -> Tensor:
        assert tied.in_use is not None
        return tied.in_use

    with tied.carried(model):
        found = _gradient(model, ids, carried)
    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-12)
    # A projection with the weight itself is part of the sum all the same.
    with tied.carried(model):
        found = _gradient(model, ids, lambda: model.head.weight)
    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert tied.in_use is None
    tied.remove()
    assert not model.lookup._forward_hooks


def test_gradients_add_up_over_micro_batches() -> None:
    torch.manual_seed(1)
    model = _Model()
    tied = TiedWeight.of(model.head, [model.lookup])
    assert tied is not None
    ids = [torch.tensor([1, 1, 0, 4])]
    once = _gradient(model, ids, lambda: model.head.weight)
    model.zero_grad()
    for _ in range(2):
        with tied.carried(model):
            states = model(*ids)
            assert tied.in_use is not None
            loss = (states @ tied.in_use.T).square().sum()
        # The backward pass of a trainer comes later.
        loss.backward()
    assert torch.allclose(model.lookup.weight.grad, 2 * once, rtol=1e-12, atol=1e-12)


def test_other_lookups_are_left_alone() -> None:
    class Scaled(nn.Embedding):
        pass

    head = nn.Linear(4, 6, bias=False)
    own, scaled = nn.Embedding(6, 4), Scaled(6, 4)
    scaled.weight = head.weight
    assert TiedWeight.of(head, [own, scaled]) is None


@pytest.mark.parametrize("architecture", ["marian", "t5"])
@pytest.mark.parametrize("measure", ["gnorm", "tnorm"])
def test_an_update_has_the_same_gradients_and_fewer_large_matrices(
    architecture: str,
    measure: Any,
    tiny_model: Build,
    batch: Batch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = tiny_model(architecture)

    def gradients(*, gathered: bool) -> tuple[list[Tensor], int]:
        if not gathered:
            monkeypatch.setattr(TiedWeight, "of", lambda *_: None)
        torch.manual_seed(1)
        model.zero_grad()
        objective = AugmentedObjective(
            model, AugmentConfig(measure=measure), replacement=Replace(40, range(6))
        )
        assert (objective.observer.tied_weight is not None) == gathered
        with torch.profiler.profile() as profile:
            objective(batch).total.backward()
        objective.observer.remove()
        calls = sum(e.count for e in profile.key_averages() if "embedding_dense" in e.key)
        return [p.grad.clone() for p in model.parameters() if p.grad is not None], calls

    found, few = gradients(gathered=True)
    expected, many = gradients(gathered=False)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    assert many - few == 4
