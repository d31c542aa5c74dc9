"""Importance that is read off the training gradient and used at the next draw."""

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import Module

from iada.config.method import AugmentConfig
from iada.data.windows.batch import Batch, Role
from iada.errors import ConfigError, DataError, RunError
from iada.method.importance import importance
from iada.method.lagged import ScoreMemory
from iada.method.losses import nll_sum, symmetric_kl
from iada.method.objective import AugmentedObjective
from iada.method.perturbation import Replace
from iada.method.selection import replacement_probability, standardize

Build = Callable[..., Any]
ROLES = ("source_roles", "target_roles")
HALF = 2.0**-10
"""Relative error of a float16."""


@pytest.fixture
def drawn(batch: Batch) -> Batch:
    """The batch as windows 4, 0 and 2 of a data set of six."""
    return {**batch, "numbers": np.array([4, 0, 2])}


def _lengths(batch: Batch) -> Any:
    """(windows, streams) of six windows, of which the batch holds three."""
    lengths = np.full((6, 2), 3)
    lengths[batch["numbers"], 0] = batch["attention_mask"].sum(dim=1)
    # The last label of a row stands at its last token.
    lengths[batch["numbers"], 1] = [int(r.nonzero().max()) + 1 for r in batch["labels"] >= 0]
    return lengths


def _objective(
    model: Any, batch: Batch, *, computation: Any = "fused", **settings: Any
) -> AugmentedObjective:
    defaults: dict[str, Any] = {
        "importance_pass": "lagged",
        "alpha": 1.0,
        "p_context": 0.2,
        "p_current": 0.3,
    }
    config = AugmentConfig(**(defaults | settings))
    return AugmentedObjective(
        model,
        config,
        replacement=Replace(40, range(6)),
        computation=computation,
        memory=ScoreMemory(_lengths(batch), decay=config.lagged_decay),
    )


def _gradients_by_hand(objective: AugmentedObjective, batch: Batch) -> list[Tensor]:
    """Return the gradient of the whole loss at the embeddings of the original view, per stream."""
    model: Any = objective.model
    seen: list[dict[str, Tensor]] = []
    handle = model.register_forward_pre_hook(lambda _, __, k: seen.append(k), with_kwargs=True)
    objective(batch)
    handle.remove()
    perturbed = {key: seen[-1][key] for key in ("input_ids", "decoder_input_ids")}
    assert not perturbed["input_ids"].equal(batch["input_ids"])
    table, mask = model.get_input_embeddings().weight.detach(), batch["attention_mask"]
    source, target = (
        table[batch[name]].requires_grad_()  # type: ignore[literal-required]
        for name in ("input_ids", "decoder_input_ids")
    )
    original = model(inputs_embeds=source, attention_mask=mask, decoder_inputs_embeds=target).logits
    other = model(**perturbed, attention_mask=mask).logits
    in_loss = batch["labels"] >= 0
    labels = batch["labels"][in_loss]
    loss = (
        nll_sum(original[in_loss], labels, smoothing=0.1)
        + nll_sum(other[in_loss], labels, smoothing=0.1)
        + symmetric_kl(original[in_loss], other[in_loss])
    )
    return list(torch.autograd.grad(loss, (source, target)))


def _expected(gradients: Tensor, roles: Tensor) -> Tensor:
    """The probabilities that the norms of some gradients lead to."""
    psi = standardize(gradients.norm(dim=-1), roles, alpha=1.0)
    return replacement_probability(psi, roles, p_context=0.2, p_current=0.3)


@pytest.mark.parametrize("computation", ["fused", "plain"])
def test_the_next_draw_follows_the_gradient_of_the_draw_before(
    computation: Any, tiny_model: Build, drawn: Batch
) -> None:
    objective = _objective(tiny_model(dropout=False), drawn, computation=computation)
    gradients = _gradients_by_hand(objective, drawn)
    objective(drawn).total.backward()
    with torch.no_grad():
        for parameter in objective.model.parameters():
            parameter.mul_(1.5)
    # The weights are others now; what counts is the gradient of the draw before.
    original = objective.observer.forward(drawn)
    for p, by_hand, name in zip(
        objective.probabilities(drawn, original), gradients, ROLES, strict=True
    ):
        roles = drawn[name]  # type: ignore[literal-required]
        torch.testing.assert_close(p.double(), _expected(by_hand, roles), rtol=0, atol=4 * HALF)
        fresh = importance(objective.model, drawn, "gnorm")[ROLES.index(name)]
        other = standardize(fresh, roles, alpha=1.0)
        wrong = replacement_probability(other, roles, p_context=0.2, p_current=0.3)
        assert (p - wrong).abs().max() > 0.01


def test_gradient_times_input_is_kept_too(tiny_model: Build, drawn: Batch) -> None:
    model = tiny_model(dropout=False)
    objective = _objective(model, drawn, measure="grad_input")
    gradient, _ = _gradients_by_hand(objective, drawn)
    embedding = model.get_input_embeddings()(drawn["input_ids"])
    assert objective.memory is not None
    objective(drawn).total.backward()
    kept, _ = objective.memory.recall(drawn, 0, drawn["input_ids"].shape[1])
    expected = (gradient * embedding).sum(dim=-1).abs()
    ordinary = drawn["source_roles"] != Role.SPECIAL
    for row in range(3):
        own = expected[row, ordinary[row]]
        found = kept[row, ordinary[row]].double()
        torch.testing.assert_close(found, own / own.mean(), rtol=HALF, atol=1e-6)


@pytest.mark.parametrize("start", ["tnorm", "uniform"])
def test_a_first_draw_has_the_scores_of_the_start(
    start: Any, tiny_model: Build, drawn: Batch
) -> None:
    model = tiny_model(dropout=False)
    objective = _objective(model, drawn, lagged_start=start)
    original = objective.observer.forward(drawn)
    found = objective.probabilities(drawn, original)
    like = AugmentConfig(measure=start, alpha=1.0, p_context=0.2, p_current=0.3)
    plain = AugmentedObjective(model, like, replacement=Replace(40, range(6)))
    expected = plain.probabilities(drawn, plain.observer.forward(drawn))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, check_dtype=False)


def test_windows_with_and_without_scores_share_a_batch(tiny_model: Build, drawn: Batch) -> None:
    objective = _objective(tiny_model(dropout=False), drawn)
    original = objective.observer.forward(drawn)
    before = objective.probabilities(drawn, original)
    objective(drawn).total.backward()
    after = objective.probabilities(drawn, original)
    assert objective.memory is not None
    assert objective.memory.known.tolist() == [True, False, True, False, True, False]
    objective.memory.known[0] = False
    mixed = objective.probabilities(drawn, original)
    for p, old, new in zip(mixed, before, after, strict=True):
        assert p[1].equal(old[1])
        torch.testing.assert_close(p[[0, 2]], new[[0, 2]], check_dtype=False)
        assert not new[1].equal(old[1])


def test_the_scores_do_not_depend_on_the_neighbours_in_the_batch(
    tiny_model: Build, drawn: Batch, single_batches: list[Batch]
) -> None:
    together = _objective(tiny_model(dropout=False), drawn, p_context=0.0, p_current=0.0)
    together(drawn).total.backward()
    alone = _objective(tiny_model(dropout=False), drawn, p_context=0.0, p_current=0.0)
    for number, single in zip([4, 0, 2], single_batches, strict=True):
        alone({**single, "numbers": np.array([number])}).total.backward()
    for stream, ids in enumerate(("input_ids", "decoder_input_ids")):
        width = drawn[ids].shape[1]  # type: ignore[literal-required]
        one, other = (
            objective.memory.recall(drawn, stream, width)[0]
            for objective in (together, alone)
            if objective.memory is not None
        )
        torch.testing.assert_close(one, other, rtol=2 * HALF, atol=0)
        assert (one > 0).any(dim=1).all()


def test_windows_that_lie_side_by_side_keep_their_own_scores(
    tiny_model: Build, drawn: Batch
) -> None:
    kept = []
    for numbers in ([4, 0, 2], [1, 0, 2]):
        given: Batch = {**drawn, "numbers": np.array(numbers)}
        objective = _objective(tiny_model(dropout=False), given)
        objective(given).total.backward()
        assert objective.memory is not None
        widths = enumerate((given["input_ids"].shape[1], given["decoder_input_ids"].shape[1]))
        kept.append([objective.memory.recall(given, *stream)[0] for stream in widths])
    for apart, adjacent in zip(*kept, strict=True):
        assert adjacent.any(dim=1).all()
        assert adjacent.equal(apart)


def test_a_moving_average_weighs_the_draws(tiny_model: Build, drawn: Batch) -> None:
    model = tiny_model(dropout=False)
    averaged = _objective(model, drawn, lagged_decay=0.75)
    newest = _objective(model, drawn)
    width = drawn["input_ids"].shape[1]
    kept = []
    for _ in range(2):
        for objective in (averaged, newest):
            objective(drawn).total.backward()
        assert newest.memory is not None
        kept.append(newest.memory.recall(drawn, 0, width)[0])
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.5)
    assert averaged.memory is not None
    found, _ = averaged.memory.recall(drawn, 0, width)
    expected = 0.75 * kept[0] + 0.25 * kept[1]
    torch.testing.assert_close(found, expected, rtol=3 * HALF, atol=1e-6)
    assert (kept[0] - kept[1]).abs().max() > 0.05


def test_evaluation_leaves_no_scores(tiny_model: Build, drawn: Batch) -> None:
    objective = _objective(tiny_model(), drawn)
    objective.model.eval()
    objective(drawn).total.backward()
    assert objective.memory is not None
    assert not objective.memory.known.any()


def test_updates_before_the_first_perturbation_leave_scores(
    tiny_model: Build, drawn: Batch
) -> None:
    objective = _objective(tiny_model(), drawn, start_update=5)
    objective(drawn, update=0).total.backward()
    assert objective.memory is not None
    assert objective.memory.known.sum() == 3


def test_no_pass_more_than_tnorm_needs(
    tiny_model: Build, drawn: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = _objective(tiny_model(), drawn)
    forwards = []
    objective.model.register_forward_pre_hook(lambda *_: forwards.append(1))

    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("a gradient was taken")

    monkeypatch.setattr(torch.autograd, "grad", refuse)
    for _ in range(2):
        objective(drawn).total.backward()
    assert len(forwards) == 4


def test_the_graph_is_freed_after_the_backward_pass(tiny_model: Build, drawn: Batch) -> None:
    objective = _objective(tiny_model(), drawn)
    gc.disable()
    try:
        losses = objective(drawn)
        node = weakref.ref(losses.total)
        losses.total.backward()
        del losses
        assert node() is None
    finally:
        gc.enable()


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_a_compiled_model_leaves_the_same_scores(tiny_model: Build, drawn: Batch) -> None:
    kept = []
    for compiled in (False, True):
        model = tiny_model(dropout=False)
        objective = _objective(model, drawn)
        module: Any = torch.compile(model, backend="aot_eager") if compiled else None
        assert compiled == isinstance(module, Module)
        objective(drawn, module=module).total.backward()
        assert objective.memory is not None
        kept.append(objective.memory.recall(drawn, 1, drawn["decoder_input_ids"].shape[1])[0])
    torch.testing.assert_close(kept[0], kept[1], rtol=2 * HALF, atol=1e-6)
    assert kept[0].any()


def test_a_restored_memory_is_the_same_to_the_bit(
    tiny_model: Build, drawn: Batch, tmp_path: Path
) -> None:
    objective = _objective(tiny_model(), drawn)
    objective(drawn).total.backward()
    assert objective.memory is not None
    state = objective.memory.state()
    other = ScoreMemory(_lengths(drawn), folder=tmp_path / "new")
    other.load(state)
    for stream, ids in enumerate(("input_ids", "decoder_input_ids")):
        width = drawn[ids].shape[1]  # type: ignore[literal-required]
        one, two = (m.recall(drawn, stream, width) for m in (objective.memory, other))
        assert one[0].equal(two[0])
        assert one[1].equal(two[1])
        assert one[0].any()
    # The file has no name: nothing is left behind.
    assert list((tmp_path / "new").iterdir()) == []
    with pytest.raises(RunError, match=r"keeps importance of 6 windows .* now has 5 windows"):
        ScoreMemory(_lengths(drawn)[:5]).load(state)


def test_a_process_claims_only_the_windows_it_has_drawn_itself(
    tiny_model: Build, drawn: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores that were restored or exchanged are everybody's: a later draw elsewhere wins."""
    objective = _objective(tiny_model(), drawn)
    objective(drawn).total.backward()
    assert objective.memory is not None
    restored = ScoreMemory(_lengths(drawn))
    restored.load(objective.memory.state())
    exchanged: list[Tensor] = []
    first_of_two = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_rank=lambda: 0,
        get_world_size=lambda: 2,
        ReduceOp=torch.distributed.ReduceOp,
        all_reduce=lambda values, **_: exchanged.append(values.clone()),
    )
    monkeypatch.setattr("iada.method.lagged.distributed", first_of_two)
    owners = []
    for memory in (objective.memory, objective.memory, restored):
        exchanged.clear()
        memory.share(torch.device("cpu"))
        owners.append(exchanged[0].tolist())
    # 2 is nobody.
    assert owners == [[0, 2, 0, 2, 0, 2], [2] * 6, [2] * 6]


def test_batches_that_cannot_be_looked_up_are_refused(tiny_model: Build, drawn: Batch) -> None:
    objective = _objective(tiny_model(), drawn)
    nameless: Any = {key: value for key, value in drawn.items() if key != "numbers"}
    with pytest.raises(DataError, match=r"does not say which windows.*importance_pass: reuse"):
        objective(nameless)
    with pytest.raises(DataError, match=r"9 tokens long, but the longest of its windows has 3"):
        objective({**drawn, "numbers": np.array([1, 3, 5])})
    with pytest.raises(ValueError, match="needs a `ScoreMemory`"):
        AugmentedObjective(
            tiny_model(),
            AugmentConfig(importance_pass="lagged"),
            replacement=Replace(40, range(6)),
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"measure": "tnorm"}, r"augment.measure.*gnorm or grad_input"),
        ({"weight_original": 0.0}, r"augment.weight_original.*gradient of a loss on the original"),
        ({"normalize": "none"}, r"augment.normalize.*standard"),
        ({"bpe_dropout": 0.1}, r"augment.bpe_dropout.*other pieces at every draw"),
        ({"joint_update": 3}, r"augment.joint_update.*do not read the original view"),
        ({"gnorm_smoothing": 0.1}, r"augment.gnorm_smoothing.*its own smoothing"),
        ({"lagged_decay": 1.0}, r"augment.lagged_decay.*below 1"),
    ],
)
def test_settings_that_cannot_work_together_are_refused(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        AugmentConfig(importance_pass="lagged", **settings)
