"""Dropout of our models drops where and how often the library's does."""

import pytest
import torch
from torch import Tensor, nn
from transformers import MarianMTModel

from iada.config.model import ModelConfig
from iada.data.tokens.subwords import SpecialIds
from iada.models import build as dropout
from iada.models.build import build_model, drop

IDS = torch.arange(6, 30).reshape(2, 12)


def built(special: SpecialIds, rate: float) -> MarianMTModel:
    torch.manual_seed(1)
    config = ModelConfig(
        dim=16, feed_forward=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=rate
    )
    return build_model(config, vocabulary_size=40, special=special)


def dropped_places(model: MarianMTModel, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Return the shapes of what is dropped from in a forward pass, in order."""
    found: list[tuple[int, ...]] = []
    library, ours = nn.functional.dropout, dropout.drop

    def functional(values: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
        if p and training:
            found.append(tuple(values.shape))
        return library(values, p, training)

    def recorded(values: Tensor, rate: float) -> Tensor:
        found.append(tuple(values.shape))
        return ours(values, rate)

    with monkeypatch.context() as patch:
        patch.setattr(nn.functional, "dropout", functional)
        patch.setattr(dropout, "drop", recorded)
        model(input_ids=IDS, decoder_input_ids=IDS[:, :5])
    return found


def test_it_drops_where_the_library_does(
    special: SpecialIds, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = built(special, 0.4).train()
    stock = MarianMTModel(ours.config).train()
    expected = dropped_places(stock, monkeypatch)
    assert dropped_places(ours, monkeypatch) == expected
    # After the embeddings and each part of a layer.
    assert expected == 3 * [(2, 12, 16)] + 4 * [(2, 5, 16)]
    assert dropped_places(ours.eval(), monkeypatch) == []


def test_values_are_dropped_at_the_rate_and_the_others_scaled(special: SpecialIds) -> None:
    layer = built(special, 0.4).train().model.encoder.layers[0]
    with torch.no_grad():
        layer.fc2.weight.zero_()
        layer.fc2.bias.fill_(3.0)
    output = layer.fc2(torch.ones(500, 32))
    assert output.unique().tolist() == pytest.approx([0.0, 5.0], rel=1e-4)
    # Of 8,000 values; five standard errors.
    assert abs((output == 0).float().mean().item() - 0.4) < 0.028
    assert layer.eval().fc2(torch.ones(1, 32)).unique().tolist() == [3.0]


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.3, 0.5, 0.9])
def test_the_rate_holds_everywhere_in_a_draw(rate: float) -> None:
    """Four values share a draw: each drops at the rate, and no two of them together."""
    torch.manual_seed(2)
    values = dropout.drop(torch.ones(100_000, 4), rate)
    dropped = (values == 0).double()
    error = 5 * (rate * (1 - rate) / 100_000) ** 0.5
    assert (dropped.mean(dim=0) - rate).abs().max() < error
    together = torch.corrcoef(dropped.T) - torch.eye(4, dtype=torch.float64)
    assert together.abs().max() < 5 / 100_000**0.5
    assert values.max().item() == pytest.approx(1 / (1 - rate), rel=1e-4)


def test_the_seed_decides() -> None:
    def drawn(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return dropout.drop(torch.ones(7, 3), 0.5)

    assert torch.equal(drawn(3), drawn(3))
    assert not torch.equal(drawn(3), drawn(4))


def test_gradients_are_those_of_a_product() -> None:
    values = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)

    def dropped(inputs: Tensor) -> Tensor:
        torch.manual_seed(5)
        return dropout.drop(inputs, 0.3)

    assert torch.autograd.gradcheck(dropped, (values,))


def test_half_precision_stays_what_it_is() -> None:
    assert dropout.drop(torch.ones(9, dtype=torch.bfloat16), 0.3).dtype == torch.bfloat16


def test_gradients_pass_where_values_passed(special: SpecialIds) -> None:
    layer = built(special, 0.5).train().model.encoder.layers[0]
    output = layer.fc2(torch.ones(1, 32))
    output.sum().backward()
    assert layer.fc2.bias.grad.tolist() == [0.0 if v == 0 else 2.0 for v in output[0].tolist()]


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float64])
def test_every_type_drops_the_same_values(kind: torch.dtype) -> None:
    """Draws next to the limit too, which narrow types cannot tell apart."""
    values = torch.ones(200_000)
    torch.manual_seed(7)
    expected = drop(values, 0.3) == 0
    torch.manual_seed(7)
    other = values.to(kind).requires_grad_()
    found = drop(other, 0.3)
    assert found.dtype == kind
    assert torch.equal(found == 0, expected)
    found.sum().backward()
    assert other.grad is not None
    assert torch.equal(other.grad == 0, expected)


def test_without_dropout_nothing_differs_from_the_library(special: SpecialIds) -> None:
    ours = built(special, 0.0).train()
    stock = MarianMTModel(ours.config).train()
    stock.load_state_dict(ours.state_dict())
    inputs = {"input_ids": IDS, "decoder_input_ids": IDS[:, :5]}
    assert torch.equal(ours(**inputs).logits, stock(**inputs).logits)
