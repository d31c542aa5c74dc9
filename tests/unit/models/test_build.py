"""The stock Marian model: the paper's size, causal, blind to padding, and saved without loss."""

import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModelForSeq2SeqLM, MarianMTModel

from iada.config.model import ModelConfig
from iada.data.tokens.subwords import SpecialIds
from iada.models.build import build_model, drop

TINY = ModelConfig(
    dim=16, feed_forward=32, heads=2, encoder_layers=1, decoder_layers=1, max_positions=32
)


@pytest.fixture
def model(special: SpecialIds) -> MarianMTModel:
    torch.manual_seed(0)
    return build_model(TINY, vocabulary_size=50, special=special).eval()


def logits(model: MarianMTModel, source: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    with torch.inference_mode():
        return model(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits


SOURCE = torch.tensor([[10, 11, 4, 12, 2]])
TARGET = torch.tensor([[1, 20, 4, 21, 22]])
MASK = torch.ones_like(SOURCE)


def test_transformer_base_has_the_size_that_the_paper_tells(special: SpecialIds) -> None:
    with torch.device("meta"):
        model = build_model(ModelConfig(), vocabulary_size=38_800, special=special)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    attention = 4 * (512 * 512 + 512)
    feed_forward = (512 * 2048 + 2048) + (2048 * 512 + 512)
    norm = 2 * 512
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    # One matrix serves source, target and output: 44.14M + 19.87M = 64.0M.
    assert trained == 6 * (encoder_layer + decoder_layer) + 512 * 38_800 == 64_004_096


def test_one_matrix_serves_source_target_and_output(model: MarianMTModel) -> None:
    shared = model.get_input_embeddings().weight
    assert model.get_encoder().embed_tokens.weight is shared
    assert model.get_decoder().embed_tokens.weight is shared
    assert model.get_output_embeddings().weight is shared


def test_a_saved_model_gives_the_same_logits_to_the_bit(
    model: MarianMTModel, tmp_path: Path
) -> None:
    with warnings.catch_warnings():
        # The library warns that sinusoidal positions are not saved, and rebuilds them.
        warnings.simplefilter("ignore")
        model.save_pretrained(tmp_path)
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    assert isinstance(again, MarianMTModel)
    assert torch.equal(again.get_encoder().embed_positions.weight[5], positions_of(16)[5])
    assert torch.equal(logits(again, SOURCE, TARGET, MASK), logits(model, SOURCE, TARGET, MASK))
    assert again.generation_config.suppress_tokens == [0, 1, 3, 4, 5]
    assert again.generation_config.decoder_start_token_id == 1


def positions_of(dim: int) -> Tensor:
    """Vaswani et al. (2017), sines first and then cosines, as Marian lays them out."""
    half = torch.arange(dim // 2, dtype=torch.float64)
    angles = torch.arange(32, dtype=torch.float64)[:, None] / 10000 ** (2 * half / dim)
    return torch.cat([angles.sin(), angles.cos()], dim=1).float()


def test_positions_are_sinusoidal(model: MarianMTModel) -> None:
    for stack in (model.get_encoder(), model.get_decoder()):
        torch.testing.assert_close(stack.embed_positions.weight, positions_of(16))
        assert not stack.embed_positions.weight.requires_grad


def test_padding_does_not_change_logits(model: MarianMTModel) -> None:
    padded_source = torch.cat([SOURCE, torch.zeros(1, 3, dtype=torch.long)], dim=1)
    padded_target = torch.cat([TARGET, torch.zeros(1, 2, dtype=torch.long)], dim=1)
    mask = (torch.arange(8) < 5).long()[None]
    padded = logits(model, padded_source, padded_target, mask)[:, :5]
    torch.testing.assert_close(padded, logits(model, SOURCE, TARGET, MASK))


def test_another_row_does_not_change_logits(model: MarianMTModel) -> None:
    other = torch.tensor([[30, 31, 2, 0, 0]])
    both = logits(
        model, torch.cat([SOURCE, other]), torch.cat([TARGET, TARGET]), torch.cat([MASK, other > 0])
    )
    torch.testing.assert_close(both[:1], logits(model, SOURCE, TARGET, MASK))


@pytest.mark.parametrize("position", [0, 2, 4])
def test_a_target_token_changes_no_logits_before_it(model: MarianMTModel, position: int) -> None:
    changed = TARGET.clone()
    changed[0, position] = 40
    before, after = (logits(model, SOURCE, t, MASK)[0] for t in (TARGET, changed))
    assert torch.equal(before[:position], after[:position])
    assert not torch.allclose(before[position], after[position])


def test_target_context_changes_the_logits_of_the_current_sentence(model: MarianMTModel) -> None:
    changed = TARGET.clone()
    changed[0, 1] = 40
    before, after = (logits(model, SOURCE, t, MASK)[0] for t in (TARGET, changed))
    assert not torch.allclose(before[3:], after[3:])


def test_weights_begin_with_the_standard_deviation_of_the_width(special: SpecialIds) -> None:
    torch.manual_seed(0)
    model = build_model(
        ModelConfig(dim=64, feed_forward=128, heads=2, encoder_layers=1, decoder_layers=1),
        vocabulary_size=500,
        special=special,
    )
    # 32,000 weights: the sample deviation is within 2% of 1/8.
    deviation = model.get_input_embeddings().weight[1:].std().item()
    assert deviation == pytest.approx(64**-0.5, rel=0.02)


def test_gradients_are_those_of_the_model_as_the_library_builds_it(
    model: MarianMTModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def same_draws(values: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
        return drop(values, p) if training and p else values

    monkeypatch.setattr(nn.functional, "dropout", same_draws)
    # Its stacks draw before every layer whether to skip it, for us before the embeddings drop.
    monkeypatch.setattr(torch, "rand", torch.ones)
    library = MarianMTModel(model.config)
    library.load_state_dict(model.state_dict())
    gradients = []
    for each in (model.train(), library.train()):
        torch.manual_seed(3)  # The same dropout.
        output = each(input_ids=SOURCE, attention_mask=MASK, decoder_input_ids=TARGET)
        output.logits.square().sum().backward()
        gradients.append({name: p.grad for name, p in each.named_parameters()})
    ours, theirs = gradients
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours if ours[name] is not None)


def test_the_widest_activations_are_stored_once(model: MarianMTModel) -> None:
    stored: set[int] = set()

    def keep(saved: Tensor) -> Tensor:
        if saved.shape[-1] == model.config.encoder_ffn_dim:
            stored.add(saved.untyped_storage().data_ptr())
        return saved

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
        output = model.train()(input_ids=SOURCE, attention_mask=MASK, decoder_input_ids=TARGET)
    assert output.logits.requires_grad
    stored -= {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    # Of one layer of each stack: what leaves its activation, and not also what enters it.
    assert len(stored) == 2
