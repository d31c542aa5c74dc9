"""Measures beyond the paper's, words as units and matched budgets, against plain computations."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from iada.config.method import AugmentConfig, Measure
from iada.data.windows.batch import Batch, Role
from iada.errors import ModelError
from iada.method.importance import MEASURES, importance, measure_tokens
from iada.method.measuring import measure_batch
from iada.method.objective import AugmentedObjective
from iada.method.perturbation import Drop, Replace, Vocabulary
from iada.models.observation import Observer

Build = Callable[..., Any]
SPECIAL = frozenset(range(6))
# Even ids begin words, odd ones continue them: 10 11 | 12 | 13 ...
WORDS = Vocabulary(
    owner="test",
    size=40,
    reserved_ids=SPECIAL,
    word_starts=tuple(number % 2 == 0 for number in range(40)),
)
ROLES = ("source_roles", "target_roles")
MEASURED: list[Any] = [name for name, measure in MEASURES.items() if measure.is_measured]


def _by_hand(model: Any, batch: Batch, labels: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return embeddings and their gradients per stream; the loss is each row's mean NLL."""
    model.eval()
    table = model.get_input_embeddings()
    source, target = (
        table(batch[name]).detach().requires_grad_()  # type: ignore[literal-required]
        for name in ("input_ids", "decoder_input_ids")
    )
    logits = model(
        inputs_embeds=source,
        attention_mask=batch["attention_mask"],
        decoder_inputs_embeds=target,
    ).logits
    losses = [
        cross_entropy(logits[row][labels[row] >= 0], labels[row][labels[row] >= 0])
        for row in range(len(labels))
    ]
    gradients = torch.autograd.grad(torch.stack(losses).sum(), (source, target))
    return list(zip((source, target), gradients, strict=True))


def test_gradient_times_input_is_the_size_of_their_product(tiny_model: Build, batch: Batch) -> None:
    model = tiny_model()
    found = importance(model, batch, "grad_input")
    for phi, (embeddings, gradients) in zip(
        found, _by_hand(model, batch, batch["labels"]), strict=True
    ):
        torch.testing.assert_close(phi, torch.einsum("rld,rld->rl", embeddings, gradients).abs())


def test_the_embedding_norm_is_that_of_the_lookup(tiny_model: Build, batch: Batch) -> None:
    model = tiny_model()
    table = model.get_input_embeddings().weight
    source, target = importance(model, batch, "embedding_norm")
    torch.testing.assert_close(source, table[batch["input_ids"]].norm(dim=-1))
    torch.testing.assert_close(target, table[batch["decoder_input_ids"]].norm(dim=-1))


@pytest.mark.parametrize("computation", ["fused", "plain"])
def test_surprisal_is_the_nll_of_the_token_itself(
    computation: Any, tiny_model: Build, batch: Batch
) -> None:
    model = tiny_model(dropout=False).eval()
    config = AugmentConfig(measure="surprisal", alpha=1.0, p_context=0.2, p_current=0.1)
    objective = AugmentedObjective(model, config, replacement=Drop(5), computation=computation)
    source, target = measure_tokens(
        objective.observer, batch, config, projection=objective.projection
    )
    logits = model(
        input_ids=batch["input_ids"],
        attention_mask=batch["attention_mask"],
        decoder_input_ids=batch["decoder_input_ids"],
    ).logits
    surprisal = -logits.log_softmax(dim=-1)
    # Row 0 reads <s> 20 21 <sep> 22 23 24: 22 is predicted at 3 and read at 4.
    for position, token in ((4, 22), (5, 23), (6, 24)):
        expected = surprisal[0, position - 1, token]
        torch.testing.assert_close(target.values[0, position], expected)
    assert source.known is not None
    assert target.known is not None
    assert not source.known.any()
    # Labels are on the current sentence: neither context nor <s> has a score.
    eligible = batch["target_roles"] != Role.SPECIAL
    assert target.known[eligible].equal(batch["target_roles"][eligible] == Role.CURRENT)
    assert not target.known[:, 0].any()
    p_source, p_target = objective.probabilities(batch, None)
    torch.testing.assert_close(
        p_source[batch["source_roles"] == Role.CURRENT],
        torch.full((9,), 0.1, dtype=torch.float64),
    )
    context = batch["target_roles"] == Role.CONTEXT
    assert p_target[context].tolist() == pytest.approx([0.2] * int(context.sum()))
    current = batch["target_roles"][0] == Role.CURRENT
    order = target.values[0, current].argsort()
    assert p_target[0, current].argsort().tolist() == order.tolist()


def test_the_first_entry_of_the_vocabulary_has_a_surprisal_like_any_other(
    tiny_model: Build, batch: Batch
) -> None:
    labels, ids = batch["labels"].clone(), batch["decoder_input_ids"].clone()
    labels[0, 3] = ids[0, 4] = 0
    changed: Batch = {**batch, "labels": labels, "decoder_input_ids": ids}
    model = tiny_model(dropout=False).eval()
    objective = AugmentedObjective(model, AugmentConfig(measure="surprisal"), replacement=Drop(5))
    _, target = measure_tokens(objective.observer, changed, objective.config)
    assert target.known is not None
    assert target.known[0, 4]
    assert target.values[0, 4] > 0


@pytest.mark.parametrize("computation", ["fused", "plain"])
def test_the_context_gradient_is_that_of_the_current_loss_at_the_context(
    computation: Any, tiny_model: Build, batch: Batch
) -> None:
    model = tiny_model(dropout=False)
    only_current = batch["labels"].clone()
    # Now all target tokens are in the loss, as with `windows.loss_on: all`.
    everything = torch.full_like(only_current, -100)
    everything[:, :-1] = batch["decoder_input_ids"][:, 1:]
    everything[everything == 0] = -100
    everything = torch.where(only_current >= 0, only_current, everything)
    assert (everything >= 0).sum() > (only_current >= 0).sum()
    wide: Batch = {**batch, "labels": everything}
    config = AugmentConfig(measure="context_gradient", alpha=1.0, p_current=0.3)
    objective = AugmentedObjective(model, config, replacement=Drop(5), computation=computation)
    scores = measure_tokens(objective.observer, wide, config, projection=objective.projection)
    probabilities = objective.probabilities(wide, None)
    for found, p, (_, gradients), name in zip(
        scores, probabilities, _by_hand(model, batch, only_current), ROLES, strict=True
    ):
        roles = batch[name]  # type: ignore[literal-required]
        torch.testing.assert_close(found.values, gradients.norm(dim=-1))
        assert found.known is not None
        assert found.known.equal(roles == Role.CONTEXT)
        current = p[roles == Role.CURRENT]
        assert current.tolist() == pytest.approx([0.3] * len(current))
        # The last row has two context sentences on either side.
        assert len(p[2][roles[2] == Role.CONTEXT].unique()) > 1


@pytest.mark.parametrize("measure", MEASURED)
def test_every_measure_gives_rows_what_single_instances_get(
    measure: Measure, tiny_model: Build, batch: Batch, single_batches: list[Batch]
) -> None:
    model = tiny_model()
    together = importance(model, batch, measure)
    for row, single in enumerate(single_batches):
        for side, alone in enumerate(importance(model, single, measure)):
            torch.testing.assert_close(
                together[side][row, : alone.shape[1]], alone[0], rtol=1e-6, atol=1e-9
            )


@pytest.mark.parametrize("measure", MEASURED)
@pytest.mark.parametrize("importance_pass", ["reuse", "separate"])
def test_every_measure_trains_and_fused_equals_plain(
    measure: Measure, importance_pass: Any, tiny_model: Build, batch: Batch
) -> None:
    results = []
    for computation in ("fused", "plain"):
        model = tiny_model()
        config = AugmentConfig(
            measure=measure,
            importance_pass=importance_pass,
            alpha=2.0,
            p_context=0.4,
            p_current=0.4,
            budget="matched",
        )
        objective = AugmentedObjective(
            model, config, replacement=Replace(40, SPECIAL), computation=computation
        )
        forwards: list[int] = []
        model.register_forward_pre_hook(lambda _, __, seen=forwards: seen.append(1))
        torch.manual_seed(9)
        losses = objective(batch)
        losses.total.backward()
        # A contrast cannot be read off the training pass, and takes two.
        passes = {"reuse": 2, "separate": 3}[importance_pass]
        assert len(forwards) == (4 if MEASURES[measure].needs == "contrast" else passes)
        gradient = model.get_input_embeddings().weight.grad
        results.append((losses.total.detach(), gradient))
    torch.testing.assert_close(results[0], results[1], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("measure", ["tnorm", "random"])
def test_a_matched_budget_reaches_the_objective(
    measure: Measure, tiny_model: Build, batch: Batch
) -> None:
    config = AugmentConfig(
        measure=measure, alpha=3.0, p_context=0.3, p_current=0.1, budget="matched"
    )
    objective = AugmentedObjective(tiny_model(), config, replacement=Drop(5))
    for p, name in zip(objective.probabilities(batch, None), ROLES, strict=True):
        roles = batch[name]  # type: ignore[literal-required]
        for role, initial in ((Role.CONTEXT, 0.3), (Role.CURRENT, 0.1)):
            for row in range(len(roles)):
                chosen = p[row][roles[row] == role]
                if len(chosen):
                    assert chosen.mean().item() == pytest.approx(initial, abs=1e-6)
                if len(chosen) > 2:
                    assert chosen.std().item() > 0.01


def test_pieces_of_a_word_share_their_probability(tiny_model: Build, batch: Batch) -> None:
    config = AugmentConfig(unit="word", alpha=2.0, p_context=0.5, p_current=0.5)
    objective = AugmentedObjective(tiny_model(dropout=False), config, vocabulary=WORDS)
    source, target = objective.probabilities(batch, None)
    # Source of row 0: 10 11 | 12 <sep> 13 | 14; of row 1: 15 | 16 17 15.
    assert source[0, 0] == source[0, 1] != source[0, 2]
    assert source[0, 2] != source[0, 4]
    assert source[1, 1] == source[1, 2] == source[1, 3] != source[1, 0]
    # Decoder input of row 0: <s> 20 21 <sep> 22 23 | 24.
    assert target[0, 1] == target[0, 2]
    assert target[0, 4] == target[0, 5] != target[0, 6]


def test_dropped_words_are_dropped_whole(tiny_model: Build, batch: Batch) -> None:
    config = AugmentConfig(
        unit="word", measure="uniform", replacement="drop", p_context=0.5, p_current=0.5
    )
    objective = AugmentedObjective(tiny_model(), config, replacement=Drop(5), vocabulary=WORDS)
    seen: list[Tensor] = []
    objective.model.register_forward_pre_hook(
        lambda _, __, inputs: seen.append(inputs["input_ids"]), with_kwargs=True
    )
    for key in range(12):
        keyed: Batch = {**batch, "noise_key": (0, key)}
        objective(keyed)
        dropped = seen[-1] == 5
        assert dropped[0, 0] == dropped[0, 1]
        assert dropped[1, 1] == dropped[1, 2] == dropped[1, 3]
    kept = torch.stack(seen[1::2]) == 5
    # Words do not share their fate with their neighbours.
    assert (kept[:, 0, 1] != kept[:, 0, 2]).any()


def test_words_are_refused_where_no_tokenizer_tells_them(tiny_model: Build) -> None:
    with pytest.raises(ModelError, match="MarianMTModel does not tell"):
        AugmentedObjective(tiny_model(), AugmentConfig(unit="word"), replacement=Drop(5))


def test_measuring_words_gives_what_training_draws_from(tiny_model: Build, batch: Batch) -> None:
    model = tiny_model(dropout=False)
    config = AugmentConfig(unit="word", alpha=2.0, importance_pass="separate", budget="matched")
    objective = AugmentedObjective(model, config, vocabulary=WORDS)
    observer = Observer(model)
    groups = measure_batch(observer, batch, config, seed=1, word_starts=objective.word_starts)
    for group, p in zip(groups.values(), objective.probabilities(batch, None), strict=True):
        torch.testing.assert_close(group.probability, p)
