"""Logits that GNorm computes are not computed again for the losses."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from iada.config.method import AugmentConfig
from iada.data.windows.batch import Batch
from iada.method import kept_logits
from iada.method.kept_logits import KeptLogits, project
from iada.method.objective import AugmentedObjective
from iada.method.perturbation import Replace

STATES, WEIGHT = torch.randn(5, 3), torch.randn(7, 3)


def test_what_was_put_is_taken_once_and_for_its_own_states_alone() -> None:
    memory, logits = KeptLogits(), STATES @ WEIGHT.T
    memory.begin(STATES, WEIGHT)
    memory.put(logits[:2])
    memory.put(logits[2:])
    taken = memory.take(STATES)
    assert taken is not None
    assert taken.equal(logits)
    assert memory.take(STATES) is None
    for other in (STATES.clone(), STATES[:4], STATES.view(torch.int32)):
        memory.begin(STATES, WEIGHT)
        assert memory.take(other) is None


@pytest.mark.parametrize("chunk", [1, 2, 3, 5])
def test_only_what_fits_is_kept(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_logits, "CPU_KEPT_BYTES", 3 * 4 * len(WEIGHT))
    memory, logits = KeptLogits(), STATES @ WEIGHT.T
    memory.begin(STATES, WEIGHT)
    for start in range(0, 5, chunk):
        memory.put(logits[start : start + chunk])
    taken = memory.take(STATES)
    assert taken is not None
    assert taken.equal(logits[:3])


def test_the_memory_is_made_once_and_grows_when_it_must() -> None:
    memory = KeptLogits()

    def place(states: Tensor, weight: Tensor) -> int:
        memory.begin(states, weight)
        memory.put(torch.zeros(len(states), len(weight), dtype=weight.dtype))
        taken = memory.take(states)
        assert taken is not None
        assert taken.shape == (len(states), len(weight))
        return taken.data_ptr()

    first = place(STATES, WEIGHT)
    assert place(STATES[:2], WEIGHT) == first
    assert place(STATES, WEIGHT) == first
    place(torch.randn(6, 3), WEIGHT)
    place(STATES, torch.randn(9, 3))
    place(STATES, WEIGHT.bfloat16())


@pytest.mark.parametrize("known", [None, 0, 2, 5])
def test_known_logits_are_copied_and_the_others_computed(known: int | None) -> None:
    given = None if known is None else torch.full((known, 7), 3.0)
    found = project(STATES, WEIGHT, given, out=torch.empty(5, 7))
    expected = STATES @ WEIGHT.T
    expected[: known or 0] = 3.0
    assert torch.allclose(found, expected)


@pytest.mark.parametrize("rows", [0, 3, 1000])
def test_losses_and_gradients_do_not_depend_on_what_is_kept(
    rows: int, tiny_model: Callable[..., Any], batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model()
    element = next(model.parameters()).element_size()

    def run(kept: int) -> tuple[list[Tensor], int]:
        monkeypatch.setattr(kept_logits, "CPU_KEPT_BYTES", kept * element * 40)
        torch.manual_seed(1)
        model.zero_grad()
        objective = AugmentedObjective(
            model, AugmentConfig(measure="gnorm"), replacement=Replace(40, range(6))
        )
        multiplied: list[int] = []

        def count(states: Tensor, weight: Tensor, known: Any, *, out: Tensor) -> Tensor:
            multiplied.append(len(states) - (0 if known is None else len(known)))
            return project(states, weight, known, out=out)

        monkeypatch.setattr("iada.method.chunks.project", count)
        losses = objective(batch)
        losses.total.backward()  # type: ignore[no-untyped-call]
        objective.observer.remove()
        gradients = [one.grad.clone() for one in model.parameters() if one.grad is not None]
        return [losses.total.detach(), *gradients], sum(multiplied)

    (expected, all_rows), (found, some_rows) = run(0), run(rows)
    for value, other in zip(expected, found, strict=True):
        assert torch.allclose(value, other, rtol=1e-9, atol=1e-9)
    tokens = int((batch["labels"] >= 0).sum())
    # Those of GNorm, and of both views.
    assert all_rows == 3 * tokens
    assert some_rows == 3 * tokens - min(rows, tokens)
