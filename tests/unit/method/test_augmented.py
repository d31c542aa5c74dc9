from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from iada.config.method import METHOD_NAMES, AugmentConfig, augmentation
from iada.data.windows.batch import Batch, Role
from iada.errors import ModelError
from iada.method import chunks
from iada.method import losses as plain
from iada.method import objective as augmented
from iada.method.objective import AugmentedObjective
from iada.method.perturbation import Drop, Keep, Replace, Vocabulary, Zero
from iada.models.observation import Observer

SPECIAL = [0, 1, 2, 3, 4, 5]
ARCHITECTURES = ["marian", "bart", "mbart", "m2m100", "t5"]
Build = Callable[..., Any]


def _objective(model: Any, config: AugmentConfig, **settings: Any) -> AugmentedObjective:
    replacement = Drop(5) if config.replacement == "drop" else Replace(40, SPECIAL)
    return AugmentedObjective(model, config, replacement=replacement, **settings)


def _views(objective: AugmentedObjective, batch: Batch) -> list[dict[str, torch.Tensor]]:
    """Record the ids that every forward pass reads."""
    seen: list[dict[str, torch.Tensor]] = []

    def record(module: Any, args: Any, kwargs: Any) -> None:
        seen.append({key: value.clone() for key, value in kwargs.items() if "ids" in key})

    handle = objective.model.register_forward_pre_hook(record, with_kwargs=True)
    objective(batch)
    handle.remove()
    return seen


@pytest.mark.parametrize("measure", ["tnorm", "gnorm", "random"])
def test_alpha_zero_samples_exactly_like_word_replacement(
    measure: Any, tiny_model: Build, batch: Batch
) -> None:
    def perturbed(config: AugmentConfig) -> dict[str, torch.Tensor]:
        return _views(_objective(tiny_model(), config, seed=3), batch)[-1]

    plain = perturbed(replace(augmentation("word_replace"), p_context=0.4, p_current=0.4))
    config = AugmentConfig(measure=measure, alpha=0.0, p_context=0.4, p_current=0.4)
    for name, ids in perturbed(config).items():
        assert ids.equal(plain[name])
        assert not ids.equal(batch[name])  # type: ignore[literal-required]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("measure", ["tnorm", "gnorm"])
def test_without_noise_and_dropout_both_views_agree(
    architecture: str, measure: Any, tiny_model: Build, batch: Batch
) -> None:
    config = AugmentConfig(measure=measure, p_context=1e-12, p_current=1e-12)
    losses = _objective(tiny_model(architecture, dropout=False), config)(batch)
    assert losses.original is not None
    assert losses.perturbed is not None
    assert losses.agreement is not None
    assert losses.perturbed.item() == pytest.approx(losses.original.item(), rel=1e-12)
    assert losses.agreement.item() == pytest.approx(0, abs=1e-12)
    assert losses.total.item() == pytest.approx(2 * losses.original.item())
    assert losses.count.item() == int((batch["labels"] >= 0).sum())


@pytest.mark.parametrize("method", ["doc2doc", "iada_replace_tnorm", "iada_replace_gnorm"])
def test_more_padding_leaves_losses_and_gradients_as_they_are(
    method: Any, tiny_model: Build, batch: Batch
) -> None:
    fills = {"input_ids": 0, "decoder_input_ids": 0, "attention_mask": 0, "labels": -100}
    wide: dict[str, Any] = {**batch}
    for name in (*fills, "source_roles", "target_roles"):
        # `train.length_multiple: 16`.
        more = -wide[name].shape[1] % 16
        wide[name] = torch.nn.functional.pad(wide[name], (0, more), value=fills.get(name, 0))
    assert wide["labels"].shape != batch["labels"].shape
    config = replace(augmentation(method), p_context=1e-12, p_current=1e-12)
    found = []
    for given in (batch, wide):
        model = tiny_model(dropout=False)
        losses = _objective(model, config)(given)
        learned = [one for one in model.parameters() if one.requires_grad]
        found.append((losses.total, torch.autograd.grad(losses.total, learned)))
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("replacement", ["drop", "replace"])
def test_perturbing_leaves_labels_masks_and_specials_bit_identical(
    replacement: Any, tiny_model: Build, batch: Batch
) -> None:
    before = {k: v.clone() for k, v in batch.items() if isinstance(v, torch.Tensor)}
    config = AugmentConfig(replacement=replacement, p_context=0.999999, p_current=0.999999)
    seen = _views(_objective(tiny_model(), config), batch)[-1]
    assert all(batch[name].equal(value) for name, value in before.items())  # type: ignore[literal-required]
    for ids, roles in (("input_ids", "source_roles"), ("decoder_input_ids", "target_roles")):
        special = before[roles] == Role.SPECIAL
        assert seen[ids][special].equal(before[ids][special])
        ordinary = seen[ids][~special]
        assert ordinary.eq(5).all() if replacement == "drop" else ordinary.gt(5).all()


@pytest.mark.parametrize("side", ["source", "target"])
def test_only_the_chosen_side_is_perturbed(side: Any, tiny_model: Build, batch: Batch) -> None:
    config = AugmentConfig(sides=side, p_context=0.9, p_current=0.9)
    seen = _views(_objective(tiny_model(), config), batch)[-1]
    assert seen["input_ids"].equal(batch["input_ids"]) == (side == "target")
    assert seen["decoder_input_ids"].equal(batch["decoder_input_ids"]) == (side == "source")


def test_the_noise_depends_on_the_batch_and_the_seed_alone(tiny_model: Build, batch: Batch) -> None:
    config = AugmentConfig(p_context=0.5, p_current=0.5)

    def noise(key: tuple[int, int], seed: int) -> torch.Tensor:
        keyed: Batch = {**batch, "noise_key": key}
        return _views(_objective(tiny_model(), config, seed=seed), keyed)[-1]["input_ids"]

    assert noise((1, 7), 1).equal(noise((1, 7), 1))
    assert not noise((1, 7), 1).equal(noise((1, 8), 1))
    assert not noise((1, 7), 1).equal(noise((2, 7), 1))
    assert not noise((1, 7), 1).equal(noise((1, 7), 2))


def test_the_terms_are_weighted_and_summed(tiny_model: Build, batch: Batch) -> None:
    config = AugmentConfig(weight_original=0.5, weight_perturbed=2.0, weight_agreement=3.0)
    losses = _objective(tiny_model(dropout=False), config)(batch)
    assert losses.original is not None
    assert losses.perturbed is not None
    assert losses.agreement is not None
    expected = 0.5 * losses.original + 2 * losses.perturbed + 3 * losses.agreement
    torch.testing.assert_close(losses.total.detach(), expected)


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_every_method_gives_gradients_to_every_parameter(
    method: Any, tiny_model: Build, batch: Batch
) -> None:
    model = tiny_model()
    batch["cipher_input_ids"] = batch["input_ids"].flip(0)
    batch["cipher_attention_mask"] = batch["attention_mask"].flip(0)
    losses = _objective(model, augmentation(method))(batch)
    losses.total.backward()
    missing = [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert missing == []
    assert losses.total.item() > 0


@pytest.mark.parametrize(
    ("method", "forwards"),
    [
        ("doc2doc", 1),
        ("word_drop", 1),
        ("word_replace", 1),
        ("coword_drop", 1),
        ("r_drop", 2),
        ("iada_replace_tnorm", 2),
        ("iada_replace_gnorm", 2),
    ],
)
def test_no_pass_runs_that_nothing_needs(
    method: Any, forwards: int, tiny_model: Build, batch: Batch
) -> None:
    assert len(_views(_objective(tiny_model(), augmentation(method)), batch)) == forwards


def test_a_separate_importance_pass_is_one_more_forward(tiny_model: Build, batch: Batch) -> None:
    for measure in ("tnorm", "gnorm"):
        config = AugmentConfig(measure=measure, importance_pass="separate")
        assert len(_views(_objective(tiny_model(), config), batch)) == 3


def test_reused_and_separate_importance_agree_without_dropout(
    tiny_model: Build, batch: Batch
) -> None:
    for measure in ("tnorm", "gnorm"):
        config = AugmentConfig(measure=measure, alpha=2.0, p_context=0.3, p_current=0.3)
        views = [
            _views(
                _objective(tiny_model(dropout=False), replace(config, importance_pass=mode)), batch
            )
            for mode in ("reuse", "separate")
        ]
        assert views[0][-1]["input_ids"].equal(views[1][-1]["input_ids"])


def test_perturbed_only_training_equals_plain_training_on_the_perturbed_ids(
    tiny_model: Build, batch: Batch
) -> None:
    model = tiny_model(dropout=False)
    objective = _objective(model, augmentation("word_replace"))
    seen = _views(objective, batch)[0]
    plain = _objective(model, augmentation("doc2doc"))
    perturbed: Batch = {**batch, **seen}  # type: ignore[typeddict-item]
    torch.testing.assert_close(objective(batch).total, plain(perturbed).total)


CONFIGS = [
    AugmentConfig(),
    AugmentConfig(measure="tnorm", agreement="js"),
    AugmentConfig(importance_pass="separate", gnorm_smoothing=0.2),
    AugmentConfig(weight_original=0.0, weight_agreement=0.0),
    AugmentConfig(weight_original=0.0, agreement_stop="original"),
    AugmentConfig(weight_original=0.5, weight_perturbed=0.0, weight_agreement=2.0),
    AugmentConfig(weight_agreement=0.0, measure="tnorm", importance_pass="separate"),
    augmentation("doc2doc"),
    augmentation("word_replace"),
]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("config", CONFIGS)
def test_fused_and_plain_losses_give_the_same_update(
    architecture: str, config: AugmentConfig, tiny_model: Build, batch: Batch
) -> None:
    config = replace(config, alpha=2.0, p_context=0.4, p_current=0.4)
    results = []
    for computation in ("fused", "plain"):
        model = tiny_model(architecture)
        if hasattr(model, "final_logits_bias"):
            torch.manual_seed(8)
            model.final_logits_bias.normal_()
        objective = _objective(model, config, computation=computation)
        assert (objective.projection is None) == (computation == "plain")
        # Dropout is on: both must draw the same numbers.
        torch.manual_seed(9)
        losses = objective(batch)
        losses.total.backward()
        gradients = {n: p.grad for n, p in model.named_parameters() if p.requires_grad}
        results.append((losses, gradients))
    (fused, gradients), (plain, expected) = results
    for term in ("total", "original", "perturbed", "agreement", "count"):
        torch.testing.assert_close(getattr(fused, term), getattr(plain, term), rtol=1e-10, atol=0)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("normalize", ["standard", "none"])
def test_fused_and_plain_importance_are_equal(
    smoothing: float, normalize: Any, tiny_model: Build, batch: Batch
) -> None:
    found = []
    for computation in ("fused", "plain"):
        config = AugmentConfig(alpha=1.0, gnorm_smoothing=smoothing, normalize=normalize)
        objective = _objective(tiny_model(dropout=False), config, computation=computation)
        view = objective.observer.forward(batch, project=computation == "plain")
        assert len(view.logits) == (0 if computation == "fused" else len(view.positions))
        found.append(objective.probabilities(batch, view))
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=0)
    assert len(found[0][0].unique()) > 5


def test_an_untied_projection_gets_the_same_gradient(tiny_model: Build, batch: Batch) -> None:
    gradients = []
    for computation in ("fused", "plain"):
        model = tiny_model(dropout=False)
        torch.manual_seed(2)
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))
        _objective(model, AugmentConfig(), computation=computation)(batch).total.backward()
        shared = model.get_input_embeddings().weight
        assert shared is not model.lm_head.weight
        gradients.append((model.lm_head.weight.grad, shared.grad))
    torch.testing.assert_close(gradients[0], gradients[1])


def test_a_batch_without_loss_positions_gives_zero_gradients_everywhere(
    tiny_model: Build, batch: Batch
) -> None:
    empty: Batch = {**batch, "labels": torch.full_like(batch["labels"], -100)}
    for computation in ("fused", "plain"):
        model = tiny_model()
        losses = _objective(model, AugmentConfig(), computation=computation)(empty)
        losses.total.backward()
        assert losses.total.item() == losses.count.item() == 0
        assert all(p.grad.eq(0).all() for p in model.parameters() if p.requires_grad)


def test_a_model_that_is_not_linear_at_the_end_gets_the_plain_losses(
    tiny_model: Build, batch: Batch
) -> None:
    model = tiny_model(dropout=False)
    model.register_forward_hook(_cap_logits)
    objective = _objective(model, AugmentConfig())
    assert objective.projection is None
    reference = _objective(tiny_model(dropout=False), AugmentConfig())
    reference.model.register_forward_hook(_cap_logits)
    reference.projection = None
    torch.testing.assert_close(objective(batch).total, reference(batch).total)


def _cap_logits(_: Any, __: Any, output: Any) -> Any:
    output.logits = 5 * torch.tanh(output.logits / 5)
    return output


@pytest.mark.parametrize("computation", ["fused", "plain"])
def test_terms_of_weight_zero_are_not_computed(
    computation: Any, tiny_model: Build, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("computed")

    module = chunks if computation == "fused" else plain
    for name in ("compare", "symmetric_kl"):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, fail)
    without = AugmentConfig(weight_agreement=0.0)
    losses = _objective(tiny_model(), without, computation=computation)(batch)
    assert losses.agreement is None
    with pytest.raises(AssertionError, match="computed"):
        _objective(tiny_model(), AugmentConfig(), computation=computation)(batch)


@pytest.mark.parametrize(
    ("config", "rows"),
    [
        # Of two views each is projected; GNorm projects the original one once more.
        (AugmentConfig(measure="tnorm"), 2),
        (AugmentConfig(measure="gnorm"), 3),
        (AugmentConfig(measure="tnorm", importance_pass="separate"), 2),
        (AugmentConfig(measure="gnorm", importance_pass="separate"), 3),
        (AugmentConfig(measure="tnorm", weight_original=0.0, weight_agreement=0.0), 1),
        (augmentation("doc2doc"), 1),
    ],
)
def test_only_loss_positions_are_projected_and_no_more_often_than_needed(
    config: AugmentConfig,
    rows: int,
    tiny_model: Build,
    batch: Batch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []

    def count(logits: torch.Tensor, *arguments: Any, **settings: Any) -> torch.Tensor:
        seen.append(logits.shape[0] * logits.shape[1])
        return chunk_sums(logits, *arguments, **settings)

    chunk_sums = chunks.chunk_sums
    monkeypatch.setattr(chunks, "chunk_sums", count)
    model = tiny_model()
    heads: list[int] = []
    model.lm_head.register_forward_hook(lambda _, i, __: heads.append(len(i[0])))
    losses = _objective(model, config)(batch)
    assert sum(seen) == rows * losses.count.item()
    # The first two rows are those of the trial that finds out what the model does.
    assert sum(heads[1:]) == 0


def test_without_the_original_loss_its_view_still_learns_through_the_agreement(
    tiny_model: Build, batch: Batch
) -> None:
    gradients = []
    for stop in ("none", "original"):
        model = tiny_model(dropout=False)
        config = AugmentConfig(weight_original=0.0, agreement_stop=stop)  # type: ignore[arg-type]
        losses = _objective(model, config)(batch)
        assert losses.original is None
        losses.total.backward()
        gradients.append(model.get_input_embeddings().weight.grad.clone())
    assert not torch.allclose(gradients[0], gradients[1])


def test_true_jensen_shannon_is_smaller(tiny_model: Build, batch: Batch) -> None:
    values = []
    for agreement in ("symmetric_kl", "js"):
        config = AugmentConfig(agreement=agreement, p_context=0.5, p_current=0.5)  # type: ignore[arg-type]
        value = _objective(tiny_model(dropout=False), config)(batch).agreement
        assert value is not None
        values.append(value.item())
    assert 0 < values[1] < values[0]


def test_nothing_is_measured_or_perturbed_in_eval_mode(
    tiny_model: Build, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("measure_tokens", "group_probabilities", "perturb"):
        monkeypatch.setattr(augmented, name, None)
    model = tiny_model().eval()
    losses = _objective(model, AugmentConfig(), label_smoothing=0.3)(batch)
    labels = batch["labels"]
    logits = model(
        input_ids=batch["input_ids"],
        attention_mask=batch["attention_mask"],
        decoder_input_ids=batch["decoder_input_ids"],
    ).logits
    expected = torch.nn.functional.cross_entropy(
        logits[labels >= 0], labels[labels >= 0], reduction="sum"
    )
    torch.testing.assert_close(losses.total, expected)


def test_perturbation_waits_for_the_start_update(tiny_model: Build, batch: Batch) -> None:
    objective = _objective(tiny_model(), AugmentConfig(start_update=5))
    assert objective(batch, update=4).perturbed is None
    assert objective(batch, update=5).perturbed is not None


def test_specials_can_enter_the_statistics_but_padding_never_does(
    tiny_model: Build, batch: Batch, single_batches: list[Batch]
) -> None:
    config = AugmentConfig(alpha=1.0, statistics_specials=True)

    def probabilities(data: Batch, settings: AugmentConfig) -> tuple[torch.Tensor, ...]:
        objective = _objective(tiny_model(dropout=False), settings)
        observation = objective.observer.forward(data)
        return objective.probabilities(data, observation)

    together = probabilities(batch, config)
    for row, single in enumerate(single_batches):
        for side, alone in enumerate(probabilities(single, config)):
            torch.testing.assert_close(together[side][row, : alone.shape[1]], alone[0])
    without = probabilities(batch, replace(config, statistics_specials=False))
    assert not torch.allclose(together[0], without[0])


def test_the_two_unnormalised_readings_use_the_raw_score(tiny_model: Build, batch: Batch) -> None:
    model = tiny_model(dropout=False)
    observation = Observer(model).forward(batch)
    roles = batch["source_roles"]
    phi = observation.states[0].norm(dim=-1)
    for normalize, factor in (("none", 1.0), ("scale", 0.1)):
        config = AugmentConfig(measure="tnorm", normalize=normalize)  # type: ignore[arg-type]
        p = _objective(model, config).probabilities(batch, observation)[0]
        current = roles == Role.CURRENT
        expected = torch.sigmoid(torch.logit(torch.tensor(0.1)) + factor * phi[current])
        torch.testing.assert_close(p[current], expected.double(), rtol=1e-6, atol=1e-7)


def test_the_replacement_can_come_from_the_models_own_configuration(
    tiny_model: Build, batch: Batch
) -> None:
    model = tiny_model()
    with pytest.raises(ModelError, match="names no mask token"):
        AugmentedObjective(model, AugmentConfig(replacement="drop"))
    model.config.mask_token_id = 5
    objective = AugmentedObjective(model, AugmentConfig(replacement="drop"))
    assert objective.replacements == {"source": Drop(5), "target": Drop(5)}
    # Nothing lists the special tokens, until generation is told to suppress them.
    with pytest.raises(ModelError, match="does not say which of its 40 tokens are special"):
        AugmentedObjective(model, AugmentConfig())
    model.generation_config.suppress_tokens = [3, 4]
    objective = AugmentedObjective(model, AugmentConfig())
    assert objective(batch).perturbed is not None
    for replacement in objective.replacements.values():
        assert isinstance(replacement, Replace)
        assert replacement.candidates.tolist() == list(range(6, 40))


@pytest.mark.parametrize("method", ["doc2doc", "r_drop", "cipher"])
def test_methods_that_replace_nothing_ask_nothing_of_the_vocabulary(
    method: Any, tiny_model: Build
) -> None:
    objective = AugmentedObjective(tiny_model(), augmentation(method))
    assert objective.replacements == {"source": Keep(), "target": Keep()}


def test_every_stream_draws_only_ids_that_its_own_matrix_has(tiny_model: Build) -> None:
    vocabulary = Vocabulary(owner="test", size=100, reserved_ids=frozenset(SPECIAL))
    objective = AugmentedObjective(tiny_model(), AugmentConfig(), vocabulary=vocabulary)
    for replacement in objective.replacements.values():
        assert isinstance(replacement, Replace)
        assert replacement.candidates.tolist() == list(range(6, 40))


def test_an_encoder_without_a_decoder_is_refused_with_a_reason() -> None:
    from transformers import BertConfig, BertForMaskedLM

    model = BertForMaskedLM(
        BertConfig(vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    )
    with pytest.raises(ModelError, match="neither an encoder-decoder nor a causal language model"):
        AugmentedObjective(model, AugmentConfig())


def test_gradient_checkpointing_gives_the_same_gradients(
    tiny_model: Build, batch: Batch, recompute_layers: Callable[[Any], None]
) -> None:
    gradients = []
    for checkpointing in (False, True):
        model = tiny_model(dropout=False)
        if checkpointing:
            recompute_layers(model)
        _objective(model, AugmentConfig())(batch).total.backward()
        gradients.append([p.grad for p in model.parameters() if p.requires_grad])
    for kept, recomputed in zip(*gradients, strict=True):
        torch.testing.assert_close(kept, recomputed)


def test_bf16_autocast_keeps_losses_and_statistics_in_float32(
    tiny_model: Build, batch: Batch
) -> None:
    model = tiny_model(dropout=False).float()
    objective = _objective(model, AugmentConfig())
    precise = objective.observer.forward(batch).logits
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = objective(batch)
        observation = objective.observer.forward(batch)
        p = objective.probabilities(batch, observation)
    # Half precision was really used, and is about as far off as it should be.
    assert 1e-4 < (observation.logits - precise).abs().max().item() < 0.5
    losses.total.backward()
    assert losses.total.dtype == torch.float32
    assert p[0].dtype == torch.float32


def test_weights_of_zero_reduce_exactly_to_the_baseline(tiny_model: Build, batch: Batch) -> None:
    losses = []
    for config in (
        AugmentConfig(weight_perturbed=0.0, weight_agreement=0.0),
        augmentation("doc2doc"),
    ):
        objective = _objective(tiny_model(), config)
        torch.manual_seed(5)
        losses.append(objective(batch).total.item())
    assert losses[0] == losses[1]


def _seen_embeddings(objective: AugmentedObjective, batch: Batch) -> list[torch.Tensor]:
    """Record what each lookup of the last forward pass hands on, source first."""
    seen: list[torch.Tensor] = []
    stacks = (objective.model.get_encoder(), objective.model.get_decoder())
    lookups = {id(m): m for m in (stack.get_input_embeddings() for stack in stacks)}
    handles = [
        lookup.register_forward_hook(lambda _, __, output: seen.append(output.detach()))
        for lookup in lookups.values()
    ]
    objective(batch)
    for handle in handles:
        handle.remove()
    return seen[-2:]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("method", ["word_drop", "iada_drop_gnorm", "iada_drop_tnorm"])
def test_zero_mode_zeroes_what_mask_mode_would_replace(
    architecture: str, method: Any, tiny_model: Build, batch: Batch
) -> None:
    config = replace(augmentation(method), p_context=0.5, p_current=0.5)
    # Dropout off and layers dropped alike, so that both modes measure the same importance.
    model = tiny_model(architecture, dropout=False)
    torch.manual_seed(5)
    masked = _views(_objective(model, config, seed=3), batch)[-1]
    objective = AugmentedObjective(
        tiny_model(architecture, dropout=False), replace(config, drop="zero"), seed=3
    )
    assert objective.replacements == {"source": Zero(), "target": Zero()}
    assert _views(objective, batch)[-1]["input_ids"].equal(batch["input_ids"])
    torch.manual_seed(5)
    seen = _seen_embeddings(objective, batch)
    for embeddings, name in zip(seen, ("input_ids", "decoder_input_ids"), strict=True):
        dropped = masked[name] != batch[name]  # type: ignore[literal-required]
        roles = batch["source_roles" if name == "input_ids" else "target_roles"]
        assert dropped.any()
        assert not dropped[roles == Role.SPECIAL].any()
        assert embeddings[dropped].eq(0).all()
        present = ~dropped & (batch[name] != 0)  # type: ignore[literal-required]
        assert embeddings[present].abs().sum(dim=-1).gt(0).all()


def test_zeroing_one_side_leaves_the_other_alone(tiny_model: Build, batch: Batch) -> None:
    config = replace(augmentation("coword_drop"), drop="zero", p_current=0.999)
    source, target = _seen_embeddings(AugmentedObjective(tiny_model(), config), batch)
    assert source[batch["source_roles"] == Role.CURRENT].eq(0).all()
    assert source[batch["source_roles"] == Role.CONTEXT].abs().sum(dim=-1).gt(0).all()
    assert target[batch["target_roles"] != Role.SPECIAL].abs().sum(dim=-1).gt(0).all()


def test_the_ramp_holds_replacement_back_at_first(tiny_model: Build, batch: Batch) -> None:
    config = replace(augmentation("word_replace"), p_context=0.9, p_current=0.9, ramp=1000.0)
    objective = _objective(tiny_model(), config)
    seen: list[torch.Tensor] = []
    handle = objective.model.register_forward_pre_hook(
        lambda _, __, kwargs: seen.append(kwargs["input_ids"].clone()), with_kwargs=True
    )
    objective(batch, update=0)
    objective(batch, update=20_000)
    handle.remove()
    changed = [int((ids != batch["input_ids"]).sum()) for ids in seen]
    eligible = int((batch["source_roles"] != Role.SPECIAL).sum())
    assert changed[0] == 0
    assert changed[1] > eligible / 2


@pytest.mark.parametrize("computation", ["fused", "plain"])
@pytest.mark.parametrize("rich", [[1], [], [0, 1, 2]])
def test_the_loss_of_context_rich_windows_counts_more(
    computation: Any,
    rich: list[int],
    tiny_model: Build,
    batch: Batch,
    single_batches: list[Batch],
) -> None:
    # No noise: then a window has the same loss alone as in its batch.
    config = AugmentConfig(p_context=1e-12, p_current=1e-12, weight_agreement=0.5)

    def gradients(weights: dict[int, float], **marked: Any) -> tuple[Any, list[torch.Tensor]]:
        model = tiny_model(dropout=False)
        objective = _objective(model, config, rich_weight=2.0, computation=computation)
        if marked:
            losses = objective({**batch, **marked})
            losses.total.backward()
        else:
            losses = objective(batch)
            for row, weight in weights.items():
                (weight * objective(single_batches[row]).total).backward()
        return losses, [p.grad for p in model.parameters() if p.grad is not None]

    mark = torch.tensor([row in rich for row in range(3)])
    plain, expected = gradients({row: 3.0 if row in rich else 1.0 for row in range(3)})
    weighted, found = gradients({}, is_rich=mark)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-10)
    # What is logged stays comparable with other runs.
    assert weighted.original.item() == pytest.approx(plain.original.item())
    assert weighted.agreement.item() == pytest.approx(plain.agreement.item(), abs=1e-12)
    assert weighted.count.equal(plain.count)
