"""What the hooks show equals what the model computes, for every supported architecture."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from iada.config.model import ModelConfig
from iada.data.tokens.subwords import SpecialIds
from iada.data.windows.batch import Batch
from iada.errors import ModelError
from iada.models.build import build_model
from iada.models.observation import Changes, Observer, StatePoint, loss_positions

ModelFactory = Callable[[str], PreTrainedModel]

POST_NORM = ("marian", "bart")
PRE_NORM = ("mbart", "m2m100")
ARCHITECTURES = (*POST_NORM, *PRE_NORM, "t5")

IDS = ("input_ids", "decoder_input_ids")

every_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)


@pytest.fixture
def build(tiny_model: Callable[..., PreTrainedModel]) -> ModelFactory:
    """Build a tiny model of an architecture without dropout."""
    return lambda architecture: tiny_model(architecture).eval()


@pytest.fixture
def batch() -> Batch:
    """Two rows of unlike lengths; 2 + 3 positions are in the loss."""
    return {
        "input_ids": torch.tensor([[10, 4, 11, 2], [12, 2, 0, 0]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]),
        "decoder_input_ids": torch.tensor([[1, 20, 4, 21, 0], [1, 22, 23, 0, 0]]),
        "labels": torch.tensor([[-100, -100, 21, 2, -100], [22, 23, 2, -100, -100]]),
        "source_roles": torch.tensor([[1, 0, 2, 0], [2, 0, 0, 0]], dtype=torch.int8),
        "target_roles": torch.tensor([[0, 1, 0, 2, 0], [0, 2, 2, 0, 0]], dtype=torch.int8),
        "noise_key": (0, 0),
    }


def full_logits(model: PreTrainedModel, batch: Batch) -> Tensor:
    names = ("input_ids", "attention_mask", "decoder_input_ids")
    return model(**{name: batch[name] for name in names}).logits


def last_states(model: PreTrainedModel, batch: Batch) -> tuple[Tensor, Tensor]:
    """Run both stacks by hand."""
    mask = batch["attention_mask"]
    source = model.get_encoder()(batch["input_ids"], attention_mask=mask).last_hidden_state
    target = model.get_decoder()(
        input_ids=batch["decoder_input_ids"],
        encoder_hidden_states=source,
        encoder_attention_mask=mask,
    ).last_hidden_state
    return source, target


def last_norm(stack: nn.Module, architecture: str) -> nn.Module:
    if architecture in POST_NORM:
        return stack.layers[-1].final_layer_norm
    return stack.layer_norm if architecture in PRE_NORM else stack.final_layer_norm


def last_linear(stack: nn.Module, architecture: str) -> nn.Module:
    if architecture == "t5":
        return stack.block[-1].layer[-1].DenseReluDense.wo
    return stack.layers[-1].fc2


@every_architecture
def test_logits_are_those_of_the_loss_positions(
    build: ModelFactory, batch: Batch, architecture: str
) -> None:
    model = build(architecture)
    expected = full_logits(model, batch)[batch["labels"] >= 0]
    observed = Observer(model).forward(batch).logits
    assert observed.shape == (5, 40)
    torch.testing.assert_close(observed, expected)


@every_architecture
def test_the_projection_can_be_left_out(
    build: ModelFactory, batch: Batch, architecture: str
) -> None:
    model = build(architecture)
    observer = Observer(model)
    full, bare = observer.forward(batch), observer.forward(batch, project=False)
    assert bare.logits.shape == (0, 40)
    assert bare.hidden.shape == (5, 16)
    torch.testing.assert_close(bare.hidden, full.hidden)
    assert bare.positions.tolist() == full.positions.tolist() == [2, 3, 5, 6, 7]
    head = model.get_output_embeddings()
    offset = getattr(model, "final_logits_bias", 0)
    torch.testing.assert_close(head(bare.hidden) + offset, full.logits)
    # The weight is in the graph of the output all the same.
    assert torch.autograd.grad(bare.logits.sum(), head.weight)[0].eq(0).all()


def test_positions_can_be_given(build: ModelFactory, batch: Batch) -> None:
    observer = Observer(build("marian"))
    some = observer.forward(batch, positions=torch.tensor([3, 6]))
    torch.testing.assert_close(some.logits, observer.forward(batch).logits[[1, 3]])


@every_architecture
def test_the_state_is_what_enters_the_last_normalisation(
    build: ModelFactory, batch: Batch, architecture: str
) -> None:
    model = build(architecture)
    expected = last_states(model, batch)
    observed = Observer(model).forward(batch).states
    stacks = (model.get_encoder(), model.get_decoder())
    for stack, state, final in zip(stacks, observed, expected, strict=True):
        torch.testing.assert_close(last_norm(stack, architecture)(state), final)
        assert not state.requires_grad


@every_architecture
def test_the_other_state_is_the_last_feed_forward_output(
    build: ModelFactory, batch: Batch, architecture: str
) -> None:
    model = build(architecture)
    seen: list[Tensor] = []
    for stack in (model.get_encoder(), model.get_decoder()):
        linear = last_linear(stack, architecture)
        linear.register_forward_hook(lambda _, __, output: seen.append(output))
    states = Observer(model, state_point="feed_forward").forward(batch).states
    assert len(seen) == len(states) == 2
    for state, output in zip(states, seen, strict=True):
        assert torch.equal(state, output)


@every_architecture
def test_embeddings_are_the_lookups_of_source_and_decoder_input(
    build: ModelFactory, batch: Batch, architecture: str
) -> None:
    model = build(architecture)
    observed = Observer(model).forward(batch)
    source, target = observed.embeddings
    assert source.shape == (2, 4, 16)
    assert target.shape == (2, 5, 16)
    torch.testing.assert_close(
        source, model.get_encoder().get_input_embeddings()(batch["input_ids"])
    )
    gradients = torch.autograd.grad(observed.logits.sum(), observed.embeddings)
    assert all(bool(gradient.any()) for gradient in gradients)


@every_architecture
def test_gradients_reach_frozen_embeddings(
    build: ModelFactory, batch: Batch, architecture: str
) -> None:
    model = build(architecture).requires_grad_(False)
    observed = Observer(model).forward(batch)
    gradients = torch.autograd.grad(observed.logits.sum(), observed.embeddings)
    assert all(bool(gradient.any()) for gradient in gradients)


@every_architecture
def test_other_ids_can_be_read_in_place_of_the_batch(
    build: ModelFactory, batch: Batch, architecture: str
) -> None:
    model = build(architecture)
    changed: Batch = {**batch, "input_ids": batch["input_ids"].clone()}
    changed["decoder_input_ids"] = batch["decoder_input_ids"].clone()
    changed["input_ids"][0, 0] = 30
    changed["decoder_input_ids"][1, 1] = 31
    observed = Observer(model).forward(
        batch,
        Changes(inputs={name: changed[name] for name in IDS}),  # type: ignore[literal-required]
    )
    expected = full_logits(model, changed)[batch["labels"] >= 0]
    torch.testing.assert_close(observed.logits, expected)


@every_architecture
def test_a_source_of_another_length_can_be_read(
    build: ModelFactory, batch: Batch, architecture: str
) -> None:
    model = build(architecture)
    longer = torch.tensor([[13, 4, 14, 15, 16, 2], [17, 18, 2, 0, 0, 0]])
    changed: Batch = {**batch, "input_ids": longer, "attention_mask": (longer != 0).long()}
    observed = Observer(model).forward(
        batch,
        Changes(inputs={"input_ids": longer, "attention_mask": changed["attention_mask"]}),
    )
    expected = full_logits(model, changed)[batch["labels"] >= 0]
    torch.testing.assert_close(observed.logits, expected)


@every_architecture
def test_a_zeroed_token_is_one_whose_embedding_is_zero(
    build: ModelFactory, batch: Batch, architecture: str
) -> None:
    model = build(architecture)
    blank = 35
    with torch.no_grad():
        for stack in (model.get_encoder(), model.get_decoder()):
            stack.get_input_embeddings().weight[blank] = 0.0
    source, target = (torch.zeros_like(batch[name], dtype=torch.bool) for name in IDS)
    source[0, 0] = source[1, 0] = target[0, 1] = target[1, 2] = True
    ids = {
        name: batch[name].masked_fill(zeroed, blank)
        for name, zeroed in zip(IDS, (source, target), strict=True)
    }
    observer = Observer(model)
    found = observer.forward(batch, Changes(zeroed={"source": source, "target": target}))
    expected = observer.forward(batch, Changes(inputs=ids))
    # Whatever else a token brings, its position above all, is there as for any other token.
    torch.testing.assert_close(found.hidden, expected.hidden)
    for state, other in zip(found.states, expected.states, strict=True):
        torch.testing.assert_close(state, other)
    assert not torch.allclose(found.hidden, observer.forward(batch).hidden)
    one_side = observer.forward(batch, Changes(zeroed={"target": target}))
    torch.testing.assert_close(one_side.states[0], observer.forward(batch).states[0])


@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if name != "t5"])
def test_positions_are_all_that_is_left_of_zeroed_tokens(
    build: ModelFactory, batch: Batch, architecture: str
) -> None:
    model = build(architecture)
    everything = {
        stream: torch.ones_like(batch[name], dtype=torch.bool)
        for stream, name in zip(("source", "target"), IDS, strict=True)
    }
    observer = Observer(model)
    states = observer.forward(batch, Changes(zeroed=everything)).states
    # Two places of a row differ, and the same place of two rows reads alike: no token, no row.
    assert not torch.allclose(states[0][0, 0], states[0][0, 1])
    alike: Batch = {**batch, "input_ids": batch["input_ids"].clamp(min=6).flip(0)}
    again = observer.forward(alike, Changes(zeroed=everything)).states
    if architecture != "m2m100":
        # M2M100 counts positions without padding, which the other ids lack.
        torch.testing.assert_close(states[0], again[0])


@every_architecture
def test_the_model_is_as_before_once_the_hooks_are_removed(
    build: ModelFactory, batch: Batch, architecture: str
) -> None:
    model = build(architecture)
    before = full_logits(model, batch)
    observer = Observer(model)
    # While attached but not observing, the model still answers in full.
    assert torch.equal(full_logits(model, batch), before)
    observer.forward(batch)
    observer.remove()
    assert torch.equal(full_logits(model, batch), before)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_nothing_is_kept_alive_after_a_failed_forward(build: ModelFactory, batch: Batch) -> None:
    model = build("marian")
    observer = Observer(model)
    too_long = torch.full((2, 65), 7)
    with pytest.raises(IndexError):
        observer.forward(batch, Changes(inputs={"decoder_input_ids": too_long}))
    torch.testing.assert_close(
        observer.forward(batch).logits, full_logits(model, batch)[batch["labels"] >= 0]
    )


def test_loss_positions_are_flat_and_in_row_major_order(batch: Batch) -> None:
    # Five columns: row 0 has its labels at 2 and 3, row 1 at 5, 6 and 7.
    assert loss_positions(batch["labels"]).tolist() == [2, 3, 5, 6, 7]


def test_a_model_of_neither_kind_is_refused() -> None:
    with pytest.raises(ModelError, match="Linear is neither an encoder-decoder nor a causal"):
        Observer(nn.Linear(2, 2))


def test_an_encoder_decoder_without_output_projection_is_refused(build: ModelFactory) -> None:
    with pytest.raises(ModelError, match=r"MarianModel has no output projection"):
        Observer(build("marian").model)


def test_the_feed_forward_output_is_read_before_dropout(batch: Batch, special: SpecialIds) -> None:
    torch.manual_seed(0)
    config = ModelConfig(
        dim=16, feed_forward=24, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.5
    )
    model = build_model(config, vocabulary_size=40, special=special).train()
    expected: list[Tensor] = []
    for stack in (model.get_encoder(), model.get_decoder()):
        linear = stack.layers[-1].fc2
        linear.register_forward_hook(
            lambda layer, inputs, _: expected.append(
                nn.functional.linear(inputs[0], layer.weight, layer.bias)
            )
        )
    states = Observer(model, state_point="feed_forward").forward(batch).states
    for state, output in zip(states, expected, strict=True):
        assert torch.equal(state, output)
        # Dropout would leave about half of them at 0.
        assert state.ne(0).all()


@pytest.mark.parametrize("by_name", [True, False])
@pytest.mark.parametrize("state_point", ["pre_norm", "feed_forward"])
def test_a_stack_can_name_its_topmost_normalisation(
    build: ModelFactory, batch: Batch, state_point: StatePoint, by_name: bool
) -> None:
    model = build("marian")
    expected = Observer(model, state_point=state_point).forward(batch).states
    encoder = model.get_encoder()
    # A context module at the end of the stack, which changes nothing but runs last.
    encoder.add_module("later", nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16)).double())
    encoder.register_forward_hook(lambda stack, _, output: (stack.later(output[0]), None)[1])
    found = Observer(model, state_point=state_point).forward(batch).states
    assert not torch.allclose(found[0], expected[0])
    if by_name:
        encoder.topmost = "layers.1.final_layer_norm"
    else:
        norm = encoder.layers[1].final_layer_norm
        type(encoder).topmost = property(lambda stack: norm if stack is encoder else None)
    try:
        found = Observer(model, state_point=state_point).forward(batch).states
    finally:
        if not by_name:
            del type(encoder).topmost
    for state, other in zip(found, expected, strict=True):
        assert torch.equal(state, other)


def test_the_model_gets_the_window_inputs_that_it_names(build: ModelFactory, batch: Batch) -> None:
    model = build("marian")
    seen: list[dict[str, object]] = []

    def record(module: nn.Module, arguments: object, inputs: dict[str, object]) -> object:
        seen.append(dict(inputs))
        inputs.pop("first_sentence", None)
        return arguments, inputs

    model.register_forward_pre_hook(record, with_kwargs=True)
    numbers = torch.tensor([3, 0])
    extended: Batch = {**batch, "first_sentence": numbers}  # type: ignore[typeddict-unknown-key]
    Observer(model).forward(extended)
    model.window_inputs = ("first_sentence",)
    Observer(model).forward(batch)
    Observer(model).forward(extended)
    given = [inputs.get("first_sentence") for inputs in seen]
    # Neither is it given unasked, nor is it made up where the batch has none.
    assert given == [None, None, numbers]


def test_an_encoder_decoder_has_two_streams_with_a_group_each(build: ModelFactory) -> None:
    source, target = Observer(build("marian")).streams
    assert (source.name, source.ids, source.vocabulary_size) == ("source", "input_ids", 40)
    assert (target.name, target.ids) == ("target", "decoder_input_ids")
    groups = [[(group.name, group.roles) for group in s.groups] for s in (source, target)]
    assert groups == [[("source", "source_roles")], [("target", "target_roles")]]
