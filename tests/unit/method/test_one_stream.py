"""A causal language model: source and target in one stream, each with its own statistics."""

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import Gemma2Config, Gemma2ForCausalLM, LlamaConfig, LlamaForCausalLM

from iada.config.method import AugmentConfig
from iada.data.windows.batch import Batch, Role
from iada.errors import ModelError
from iada.method.importance import importance
from iada.method.measuring import measure_batch
from iada.method.objective import AugmentedObjective
from iada.method.perturbation import Drop, Replace, Zero
from iada.method.selection import replacement_probability, standardize
from iada.models.observation import Observer, linear_projection

SPECIAL = range(6)
SIZES: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
    "initializer_range": 0.3,
}


@pytest.fixture
def causal_model() -> Callable[[], Any]:
    """Return a function that builds a seeded tiny Llama, in float64."""

    def build() -> Any:
        torch.manual_seed(0)
        return LlamaForCausalLM(LlamaConfig(**SIZES)).double().train()

    return build


@pytest.fixture
def sequence() -> Batch:
    """Two rows: context pair and current pair, and a current pair alone.

    Row 0: <s> x=10 11 · y=20 21 <sep> x=12 13 14 · y=22 23; row 1: <s> x=15 16 · y=24, padded.
    The loss is on the current y and `</s>`; the label of a position is the token after it.
    """
    ids = torch.tensor(
        [[1, 10, 11, 20, 21, 4, 12, 13, 14, 22, 23], [1, 15, 16, 24, 0, 0, 0, 0, 0, 0, 0]]
    )
    source = torch.tensor(
        [[0, 1, 1, 0, 0, 0, 2, 2, 2, 0, 0], [0, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0]], dtype=torch.int8
    )
    target = torch.tensor(
        [[0, 0, 0, 1, 1, 0, 0, 0, 0, 2, 2], [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]], dtype=torch.int8
    )
    labels = torch.full_like(ids, -100)
    labels[0, 8:11] = torch.tensor([22, 23, 2])
    labels[1, 2:4] = torch.tensor([24, 2])
    batch = {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "labels": labels,
        "source_roles": source,
        "target_roles": target,
        "noise_key": (0, 0),
    }
    return cast(Batch, batch)


def _objective(model: Any, config: AugmentConfig, **settings: Any) -> AugmentedObjective:
    return AugmentedObjective(model, config, replacement=Replace(40, SPECIAL), **settings)


def _seen_ids(objective: AugmentedObjective, batch: Batch) -> list[Tensor]:
    """Run the objective and return the ids that every forward pass reads."""
    seen: list[Tensor] = []

    def record(module: Any, args: Any, kwargs: Any) -> None:
        assert kwargs.keys() == {"input_ids", "attention_mask", "use_cache", "return_dict"}
        seen.append(kwargs["input_ids"].clone())

    handle = objective.model.register_forward_pre_hook(record, with_kwargs=True)
    objective(batch)
    handle.remove()
    return seen


def test_tnorm_is_the_norm_of_what_enters_the_final_normalisation(
    causal_model: Callable[[], Any], sequence: Batch
) -> None:
    model = causal_model()
    (phi,) = importance(model, sequence, "tnorm")
    kept: list[Tensor] = []
    model.model.norm.register_forward_pre_hook(lambda _, inputs: kept.append(inputs[0].detach()))
    model.eval()
    model(input_ids=sequence["input_ids"], attention_mask=sequence["attention_mask"])
    torch.testing.assert_close(phi, kept[-1].norm(dim=-1))


def test_gnorm_is_the_norm_of_the_gradient_at_the_embeddings(
    causal_model: Callable[[], Any], sequence: Batch
) -> None:
    model = causal_model()
    (phi,) = importance(model, sequence, "gnorm")
    model.eval()
    embeddings = model.get_input_embeddings()(sequence["input_ids"]).detach().requires_grad_()
    labels = sequence["labels"]
    logits = model(inputs_embeds=embeddings, attention_mask=sequence["attention_mask"]).logits
    for row in (0, 1):
        chosen = labels[row] >= 0
        loss = cross_entropy(logits[row][chosen], labels[row][chosen])
        (gradient,) = torch.autograd.grad(loss, embeddings, retain_graph=True)
        torch.testing.assert_close(phi[row], gradient[row].norm(dim=-1))
    assert phi[1, 4:].eq(0).all()


@pytest.mark.parametrize("measure", ["tnorm", "gnorm"])
def test_each_side_of_the_stream_has_its_own_statistics(
    measure: Any, causal_model: Callable[[], Any], sequence: Batch
) -> None:
    model = causal_model()
    config = AugmentConfig(measure=measure, alpha=1.0, importance_pass="separate", p_context=0.3)
    (phi,) = importance(model, sequence, measure)
    expected = torch.zeros_like(phi)
    for key in ("source_roles", "target_roles"):
        roles = sequence[key]  # type: ignore[literal-required]
        psi = standardize(phi, roles, alpha=1.0)
        expected += replacement_probability(psi, roles, p_context=0.3, p_current=0.1)
    objective = _objective(model, config)
    (found,) = objective.probabilities(sequence, None)
    torch.testing.assert_close(found, expected)
    special = (sequence["source_roles"] == 0) & (sequence["target_roles"] == 0)
    assert found[special].eq(0).all()
    assert found[~special].gt(0).all()


def test_specials_enter_the_statistics_of_both_sides_but_not_each_others_tokens(
    causal_model: Callable[[], Any], sequence: Batch
) -> None:
    model = causal_model()
    (phi,) = importance(model, sequence, "tnorm")
    config = AugmentConfig(measure="tnorm", alpha=1.0, statistics_specials=True)
    observer = Observer(model)
    groups = measure_batch(observer, sequence, config, seed=0)
    observer.remove()
    # Specials of row 0 stand at 0 and 5, the source at 1, 2, 6, 7 and 8.
    counted = phi[0, [0, 1, 2, 5, 6, 7, 8]]
    expected = (phi[0, 6] - counted.mean()) / counted.std(correction=0)
    torch.testing.assert_close(groups["source"].z[0, 6], expected)


def test_context_is_not_taken_from_one_stream(
    causal_model: Callable[[], Any], sequence: Batch
) -> None:
    with pytest.raises(ModelError, match="p_cxmi` takes context away, which is known only for enc"):
        importance(causal_model(), sequence, "p_cxmi")


def test_inspection_gives_both_sides_of_the_one_stream(
    causal_model: Callable[[], Any], sequence: Batch
) -> None:
    observer = Observer(causal_model())
    groups = measure_batch(observer, sequence, AugmentConfig(alpha=1.0), seed=0)
    observer.remove()
    assert list(groups) == ["source", "target"]
    for name, group in groups.items():
        assert group.ids.equal(sequence["input_ids"])
        own = sequence[f"{name}_roles"] != Role.SPECIAL  # type: ignore[literal-required]
        assert group.probability[own].gt(0).all()
        assert group.probability[~own].eq(0).all()
        assert group.z[~own].eq(0).all()


@pytest.mark.parametrize("sides", ["both", "source", "target"])
def test_only_the_chosen_side_of_the_stream_is_perturbed(
    sides: Any, causal_model: Callable[[], Any], sequence: Batch
) -> None:
    config = AugmentConfig(sides=sides, p_context=0.999999, p_current=0.999999, alpha=0.0)
    objective = AugmentedObjective(causal_model(), config, replacement=Drop(5))
    original, perturbed = _seen_ids(objective, sequence)
    assert original.equal(sequence["input_ids"])
    source, target = (
        sequence[key] != Role.SPECIAL  # type: ignore[literal-required]
        for key in ("source_roles", "target_roles")
    )
    expected = {"both": source | target, "source": source, "target": target}[sides]
    assert (perturbed == 5).equal(expected)
    assert perturbed[~expected].equal(original[~expected])


def test_zeroed_tokens_lose_their_embeddings(
    causal_model: Callable[[], Any], sequence: Batch
) -> None:
    model = causal_model()
    config = AugmentConfig(
        measure="uniform", replacement="drop", drop="zero", p_context=0.999999, p_current=0.999999
    )
    objective = AugmentedObjective(model, config)
    assert objective.replacements == {"sequence": Zero()}
    seen: list[Tensor] = []
    # Registered later than the observer's hook, so that it reads what that one returns.
    model.get_input_embeddings().register_forward_hook(lambda _, __, output: seen.append(output))
    objective(sequence)
    special = (sequence["source_roles"] == 0) & (sequence["target_roles"] == 0)
    assert seen[1][~special].eq(0).all()
    assert seen[1][special & (sequence["input_ids"] != 0)].abs().sum(dim=-1).gt(0).all()


@pytest.mark.parametrize("measure", ["tnorm", "gnorm", "random", "uniform"])
def test_fused_and_plain_losses_give_the_same_update(
    measure: Any, causal_model: Callable[[], Any], sequence: Batch
) -> None:
    results = []
    for computation in ("fused", "plain"):
        model = causal_model()
        config = AugmentConfig(measure=measure, alpha=2.0, p_context=0.4, p_current=0.4)
        objective = _objective(model, config, computation=computation)
        assert (objective.projection is None) == (computation == "plain")
        losses = objective(sequence)
        losses.total.backward()
        assert losses.count.item() == 5
        results.append((losses.total, [parameter.grad for parameter in model.parameters()]))
    (fused, gradients), (plain, expected) = results
    torch.testing.assert_close(fused, plain)
    for gradient, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-9, atol=1e-11)


def test_the_original_nll_is_that_of_the_shifted_labels(
    causal_model: Callable[[], Any], sequence: Batch
) -> None:
    model = causal_model()
    losses = _objective(model, AugmentConfig(), label_smoothing=0.0)(sequence)
    logits = model(
        input_ids=sequence["input_ids"], attention_mask=sequence["attention_mask"]
    ).logits
    # The model predicts the tokens 22 23 </s> and 24 </s> from what stands before them.
    expected = cross_entropy(
        torch.stack([logits[0, 8], logits[0, 9], logits[0, 10], logits[1, 2], logits[1, 3]]),
        torch.tensor([22, 23, 2, 24, 2]),
        reduction="sum",
    )
    assert losses.original is not None
    torch.testing.assert_close(losses.original, expected.detach())


def test_a_causal_model_learns_with_the_objective(
    causal_model: Callable[[], Any], sequence: Batch
) -> None:
    model = causal_model()
    objective = _objective(model, AugmentConfig())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def nll() -> float:
        model.eval()
        with torch.no_grad():
            value = objective(sequence).total.item()
        model.train()
        return value

    before = nll()
    for update in range(30):
        optimizer.zero_grad()
        keyed: Batch = {**sequence, "noise_key": (0, update)}
        objective(keyed, update=update).total.backward()
        optimizer.step()
    assert nll() < 0.2 * before


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("measure", ["tnorm", "gnorm", "surprisal"])
def test_capped_logits_are_capped_in_the_fused_losses_too(
    measure: Any, smoothing: float, sequence: Batch
) -> None:
    config = Gemma2Config(
        **(SIZES | {"initializer_range": 1.0}),
        head_dim=8,
        sliding_window=16,
        # So low that most logits are capped.
        final_logit_softcapping=2.0,
    )
    results = []
    for computation in ("fused", "plain"):
        torch.manual_seed(0)
        model = Gemma2ForCausalLM(config).double().train()
        objective = _objective(
            model,
            AugmentConfig(measure=measure, alpha=1.0, p_context=0.4, p_current=0.4),
            computation=computation,
            label_smoothing=smoothing,
        )
        assert (objective.projection is None) == (computation == "plain")
        losses = objective(sequence)
        losses.total.backward()
        results.append((losses.total, [parameter.grad for parameter in model.parameters()]))
    (fused, gradients), (plain, expected) = results
    torch.testing.assert_close(fused, plain)
    for gradient, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-7, atol=1e-9)


def test_a_cap_is_no_detail(sequence: Batch) -> None:
    torch.manual_seed(0)
    sizes = SIZES | {"initializer_range": 1.0}
    config = Gemma2Config(**sizes, head_dim=8, sliding_window=16, final_logit_softcapping=2.0)
    model = Gemma2ForCausalLM(config).double().eval()
    projection = linear_projection(model)
    assert projection is not None
    assert projection.cap == 2.0
    capped = _objective(model, AugmentConfig())(sequence).total
    # Read from the configuration, so that a changed one is noticed by its own trial alone.
    model.config.final_logit_softcapping = 30.0
    assert (_objective(model, AugmentConfig())(sequence).total - capped).abs() > 1
