"""The last decoder layer without what nobody reads: the same numbers, less work."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from iada.config.method import AugmentConfig
from iada.data.windows.batch import Batch
from iada.method.objective import AugmentedObjective
from iada.method.perturbation import Replace
from iada.models.observation import Observation, Observer

Build = Callable[..., Any]


def _counted(batch: Batch) -> Batch:
    """Add what our collator counts."""
    in_loss = batch["labels"] >= 0
    width = int(in_loss.sum(dim=1).max())
    positions = in_loss.reshape(-1).nonzero().squeeze(1)
    return {**batch, "positions": positions, "loss_width": width}


def _gradients(observation: Observation, model: Any) -> list[Tensor]:
    weights = torch.linspace(-1, 1, observation.logits.numel(), dtype=torch.float64)
    loss = (observation.logits.reshape(-1) * weights).sum()
    wanted = [p for p in model.parameters() if p.requires_grad]
    return list(torch.autograd.grad(loss, [*observation.embeddings, *wanted]))


def _scattered(batch: Batch) -> Batch:
    """Loss positions anywhere, and none in the second row."""
    labels = torch.full_like(batch["labels"], -100)
    labels[0, [0, 3]], labels[2, [1, 2, 5]] = 9, 8
    return {**batch, "labels": labels}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("change", [lambda batch: batch, _scattered], ids=["current", "anywhere"])
@pytest.mark.parametrize("padded", [True, False])
def test_cut_and_whole_layers_agree_in_values_and_gradients(
    attention: str, change: Any, padded: bool, tiny_model: Build, batch: Batch
) -> None:
    given = _counted(change(batch))
    if not padded:
        # Without padding the library leaves the mask to the attention.
        given["attention_mask"] = torch.ones_like(given["attention_mask"])
    model = tiny_model(dropout=False)
    model.set_attn_implementation(attention)
    observer = Observer(model)
    whole = observer.forward(given)
    seen: list[tuple[int, ...]] = []
    last = model.model.decoder.layers[-1]
    handle = last.fc1.register_forward_pre_hook(lambda _, i: seen.append(tuple(i[0].shape)))
    cut = observer.forward(given, needs_states=False)
    handle.remove()
    assert seen == [(3, given["loss_width"], 16)]
    assert given["loss_width"] < given["labels"].shape[1]
    torch.testing.assert_close(cut.logits, whole.logits, rtol=0, atol=1e-12)
    torch.testing.assert_close(cut.hidden, whole.hidden, rtol=0, atol=1e-12)
    for one, other in zip(_gradients(cut, model), _gradients(whole, model), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-11)
    assert (len(whole.states), len(cut.states)) == (2, 0)


@pytest.mark.parametrize("measure", ["gnorm", "tnorm", "surprisal", "uniform"])
def test_the_objective_is_the_same_and_both_views_are_cut_where_they_can_be(
    measure: Any, tiny_model: Build, batch: Batch
) -> None:
    results = []
    widths: list[list[int]] = []
    for given in (batch, _counted(batch)):
        model = tiny_model(dropout=False)
        config = AugmentConfig(measure=measure, alpha=1.0, p_context=0.3, p_current=0.3)
        objective = AugmentedObjective(model, config, replacement=Replace(40, range(6)))
        seen: list[int] = []
        last = model.model.decoder.layers[-1]
        last.fc1.register_forward_pre_hook(lambda _, i, seen=seen: seen.append(i[0].shape[1]))
        losses = objective(given)
        losses.total.backward()
        results.append((losses.total.detach(), [p.grad for p in model.parameters()]))
        widths.append(seen)
    torch.testing.assert_close(results[0], results[1], rtol=1e-9, atol=1e-10)
    whole, cut = batch["labels"].shape[1], int((batch["labels"] >= 0).sum(dim=1).max())
    assert widths[0] == [whole, whole]
    # TNorm reads the states of all tokens in the original view.
    assert widths[1] == [whole if measure == "tnorm" else cut, cut]


def test_recomputed_and_compiled_layers_and_other_models_are_left_whole(
    tiny_model: Build, batch: Batch, recompute_layers: Callable[[Any], None]
) -> None:
    model = tiny_model(dropout=False)
    recompute_layers(model)
    assert len(Observer(model).forward(_counted(batch), needs_states=False).states) == 2
    for architecture in ("bart", "t5"):
        other = Observer(tiny_model(architecture))
        assert len(other.forward(_counted(batch), needs_states=False).states) == 2
    dropping = tiny_model()
    dropping.config.decoder_layerdrop = 0.5
    assert len(Observer(dropping).forward(_counted(batch), needs_states=False).states) == 2
    plain = tiny_model()
    assert Observer(plain).forward(_counted(batch), needs_states=False).states == ()


def test_removed_hooks_leave_the_model_alone(tiny_model: Build, batch: Batch) -> None:
    model = tiny_model(dropout=False)
    observer = Observer(model)
    observer.remove()
    last = model.model.decoder.layers[-1]
    assert not last._forward_pre_hooks
    assert not last.self_attn._forward_pre_hooks
