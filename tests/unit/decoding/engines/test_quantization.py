"""Linear layers in integers: close to the original, row by row, without overflow."""

import pytest
import torch
from torch import nn

from iada.decoding.engines.prefill import cpu
from iada.decoding.engines.prefill.int8 import Int8Linear, is_available, with_int8_layers

pytestmark = pytest.mark.skipif(not is_available(), reason="needs PyTorch with oneDNN")


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def by_hand(layer: nn.Linear, inputs: torch.Tensor) -> torch.Tensor:
    """Round weights to 127 steps per output and inputs to 127 per row, in float64."""
    weight, rows = layer.weight.double(), inputs.double()
    scale = weight.abs().amax(dim=1, keepdim=True) / 127
    weight = (weight / scale).round() * scale
    low = rows.amin(dim=1, keepdim=True)
    step = (rows.amax(dim=1, keepdim=True) - low) / 127
    rows = low + ((rows - low) / step).round() * step
    return rows @ weight.T + layer.bias.double()


def test_the_sum_is_exact_after_rounding() -> None:
    layer = nn.Linear(96, 40)
    inputs = draw(7, 96)
    with torch.inference_mode():
        found = Int8Linear(layer.weight, layer.bias)(inputs)
        torch.testing.assert_close(found.double(), by_hand(layer, inputs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("values", [1, 100, 2**18])
def test_blocks_of_rows_do_not_change_the_result(
    values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, inputs = nn.Linear(96, 40), draw(7, 96)
    with torch.inference_mode():
        int8 = Int8Linear(layer.weight, layer.bias)
        expected = int8(inputs)
        monkeypatch.setattr(cpu, "_CACHED_VALUES", values)
        assert torch.equal(int8(inputs), expected)


def test_extreme_values_do_not_overflow() -> None:
    layer = nn.Linear(512, 8)
    with torch.inference_mode():
        layer.weight.copy_(torch.sign(draw(8, 512)))
        layer.weight[0] = 1.0
        layer.weight[1] = -1.0
        layer.bias.zero_()
        inputs = torch.ones(3, 512)
        inputs[1] = -1.0
        # All but one at the upper end of their range.
        inputs[2, 0] = 0.0
        found = Int8Linear(layer.weight, layer.bias)(inputs)
        torch.testing.assert_close(found, layer(inputs), rtol=1e-5, atol=1e-3)
        assert found[:, 0].tolist() == pytest.approx([512, -512, 511])


def test_a_row_does_not_depend_on_the_others() -> None:
    layer = nn.Linear(64, 32)
    inputs = draw(5, 64) * torch.tensor([[1e-3], [1.0], [50.0], [1.0], [1e3]])
    with torch.inference_mode():
        int8 = Int8Linear(layer.weight, layer.bias)
        together = int8(inputs)
        for number in range(5):
            alone = int8(inputs[number : number + 1])
            torch.testing.assert_close(together[number : number + 1], alone, rtol=0, atol=0)


def test_zero_in_is_the_bias_out() -> None:
    layer = nn.Linear(16, 4)
    with torch.inference_mode():
        found = Int8Linear(layer.weight, layer.bias)(torch.zeros(1, 3, 16))
        torch.testing.assert_close(found, layer.bias.expand(1, 3, 4), rtol=0, atol=1e-6)


def test_a_copy_is_quantised_and_the_original_left_alone() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(30, 8)
            self.inner = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
            self.output = nn.Linear(8, 30, bias=False)
            self.output.weight = self.embedding.weight

    model = Model()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    copied = with_int8_layers(model)
    assert isinstance(copied.inner[0], Int8Linear)  # type: ignore[index]
    assert isinstance(copied.output, Int8Linear)
    # Embeddings are large, and looked up as they are.
    assert copied.embedding is model.embedding
    assert isinstance(model.output, nn.Linear)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
