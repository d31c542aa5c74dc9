from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch
from torch.nn.functional import cross_entropy

from iada.config.method import AugmentConfig, Measure
from iada.data.windows.batch import Batch
from iada.method.importance import (
    MEASURES,
    Evidence,
    ImportanceMeasure,
    importance,
    measure_tokens,
)
from iada.method.objective import AugmentedObjective
from iada.method.perturbation import Drop
from iada.method.selection import Scores, standardize
from iada.models.observation import Observer

ARCHITECTURES = ["marian", "bart", "mbart", "m2m100", "t5"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("measure", ["tnorm", "gnorm"])
def test_a_batch_gives_what_single_instances_give(
    architecture: str,
    measure: Any,
    tiny_model: Callable[..., Any],
    batch: Batch,
    single_batches: list[Batch],
) -> None:
    model = tiny_model(architecture)
    together = importance(model, batch, measure)
    for row, single in enumerate(single_batches):
        alone = importance(model, single, measure)
        for side in (0, 1):
            length = alone[side].shape[1]
            torch.testing.assert_close(
                together[side][row, :length], alone[side][0], rtol=1e-6, atol=1e-9
            )


def test_gnorm_agrees_with_central_finite_differences(
    tiny_model: Callable[..., Any], single_batches: list[Batch]
) -> None:
    labels = single_batches[0]["labels"].clone()
    # The first entry of a vocabulary is a token like any other.
    labels[0, 3] = 0
    batch: Batch = {**single_batches[0], "labels": labels}
    model = tiny_model().eval()

    def nll(shift_source: torch.Tensor, shift_target: torch.Tensor) -> float:
        # Marian scales inside the stack, so `inputs_embeds` are the lookup outputs.
        table = model.get_input_embeddings()
        with torch.no_grad():
            logits = model(
                inputs_embeds=table(batch["input_ids"]) + shift_source,
                attention_mask=batch["attention_mask"],
                decoder_inputs_embeds=table(batch["decoder_input_ids"]) + shift_target,
            ).logits
        loss = cross_entropy(logits[labels >= 0], labels[labels >= 0], reduction="sum")
        return loss.item() / int((labels >= 0).sum())

    shapes = [(*batch[name].shape, 16) for name in ("input_ids", "decoder_input_ids")]  # type: ignore[literal-required]
    step = 1e-5
    for side, phi in enumerate(importance(model, batch, "gnorm")):
        for position in range(shapes[side][1]):
            gradient = []
            for coordinate in range(16):
                shifts = [torch.zeros(shape, dtype=torch.float64) for shape in shapes]
                shifts[side][0, position, coordinate] = step
                upper = nll(*shifts)
                shifts[side][0, position, coordinate] = -step
                gradient.append((upper - nll(*shifts)) / (2 * step))
            numeric = torch.tensor(gradient, dtype=torch.float64).norm().item()
            assert phi[0, position].item() == pytest.approx(numeric, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_padding_has_no_gradient_and_real_tokens_have(
    architecture: str, tiny_model: Callable[..., Any], batch: Batch
) -> None:
    source, target = importance(tiny_model(architecture), batch, "gnorm")
    padding = batch["attention_mask"] == 0
    assert source[padding].eq(0).all()
    assert source[~padding].gt(0).all()
    # The second row has 4 decoder inputs, the batch 8.
    assert target[1, 4:].eq(0).all()
    assert target[1, :4].gt(0).all()


def test_a_repeated_type_has_one_score_per_position(
    tiny_model: Callable[..., Any], single_batches: list[Batch]
) -> None:
    # The second window's source is 15 16 17 15.
    source, target = importance(tiny_model(), single_batches[1], "gnorm")
    assert abs(source[0, 0] - source[0, 3]).item() > 1e-6
    assert abs(target[0, 1] - target[0, 3]).item() > 1e-6


def test_importance_carries_no_graph_and_touches_no_parameter_gradient(
    tiny_model: Callable[..., Any], batch: Batch
) -> None:
    model = tiny_model()
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.full_like(parameter, 7.0)
    for measure in ("tnorm", "gnorm"):
        for scores in importance(model, batch, measure):
            assert not scores.requires_grad
    assert all(p.grad.eq(7).all() for p in model.parameters() if p.requires_grad)
    assert model.training


def test_z_scores_of_gnorm_ignore_the_scale_of_the_loss(
    tiny_model: Callable[..., Any], batch: Batch
) -> None:
    model = tiny_model().eval()
    observer = Observer(model)
    observation = observer.forward(batch)
    scores = measure_tokens(observer, batch, AugmentConfig(), original=observation)
    phi = [stream.values for stream in scores]
    loss = 1000 * observation.logits.logsumexp(-1).sum()
    for weight in (1.0, 1000.0):
        labels = batch["labels"]
        loss = weight * cross_entropy(observation.logits, labels[labels >= 0], reduction="sum")
        scaled = torch.autograd.grad(loss, observation.embeddings, retain_graph=True)
        for side, roles in enumerate((batch["source_roles"], batch["target_roles"])):
            torch.testing.assert_close(
                standardize(scaled[side].norm(dim=-1), roles, alpha=1.0),
                standardize(phi[side], roles, alpha=1.0),
            )
    observer.remove()


def test_smoothing_of_the_measured_loss_changes_gnorm(
    tiny_model: Callable[..., Any], batch: Batch
) -> None:
    observer = Observer(tiny_model().eval())
    observation = observer.forward(batch)
    plain, smooth = (
        measure_tokens(
            observer, batch, AugmentConfig(gnorm_smoothing=smoothing), original=observation
        )
        for smoothing in (0.0, 0.5)
    )
    assert not torch.allclose(plain[0].values, smooth[0].values)
    observer.remove()


def test_random_and_uniform_are_not_measured_on_a_model(
    tiny_model: Callable[..., Any], batch: Batch
) -> None:
    with pytest.raises(ValueError, match="not measured on a model"):
        importance(tiny_model(), batch, "random")


def test_embeddings_that_are_frozen_still_have_a_gradient_norm(
    tiny_model: Callable[..., Any], batch: Batch
) -> None:
    model = tiny_model()
    expected = importance(model, batch, "gnorm")
    model.get_input_embeddings().requires_grad_(False)
    for embedding in (model.get_encoder().embed_tokens, model.get_decoder().embed_tokens):
        embedding.weight.requires_grad_(False)
    for ours, theirs in zip(importance(model, batch, "gnorm"), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_every_measure_that_can_be_configured_is_in_the_table() -> None:
    assert MEASURES.keys() == {*get_args(Measure)}


def test_a_further_measure_is_a_function_and_a_line_in_the_table(
    tiny_model: Callable[..., Any], batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def length(evidence: Evidence) -> tuple[Scores, ...]:
        return tuple(
            Scores(torch.arange(ids.shape[1]).expand(ids.shape).double()) for ids in evidence.ids()
        )

    monkeypatch.setitem(MEASURES, "position", ImportanceMeasure("nothing", length))
    config = AugmentConfig(measure="position", alpha=1.0)  # type: ignore[arg-type]
    objective = AugmentedObjective(tiny_model(), config, replacement=Drop(5))
    source, _ = objective.probabilities(batch, None)
    # The last row: 18 <sep> 19 10 <sep> 30 31 32; later context is more important and kept.
    assert source[2, 0] > source[2, 2] > source[2, 3] > 0
    assert source[2, 5] < source[2, 6] < source[2, 7]
    assert objective(batch).perturbed is not None


def test_tokens_without_a_score_get_the_initial_probability(
    tiny_model: Callable[..., Any], batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def some(evidence: Evidence) -> tuple[Scores, ...]:
        streams = evidence.ids()
        values = [torch.arange(ids.shape[1]).expand(ids.shape).double() for ids in streams]
        # In the second row, 15 16 17 15, only the first two tokens have scores: 0 and 1.
        return tuple(Scores(value, known=value < 2) for value in values)

    monkeypatch.setitem(MEASURES, "some", ImportanceMeasure("nothing", some))
    config = AugmentConfig(measure="some", alpha=1.0, p_current=0.5)  # type: ignore[arg-type]
    objective = AugmentedObjective(tiny_model(), config, replacement=Drop(5))
    source, _ = objective.probabilities(batch, None)
    below, above = torch.sigmoid(torch.tensor([-1.0, 1.0])).tolist()
    assert source[1, :4].tolist() == pytest.approx([below, above, 0.5, 0.5])
