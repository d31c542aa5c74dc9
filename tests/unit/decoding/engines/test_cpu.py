"""On CPUs packed layers compute what linear layers compute, and leave the model alone.

Functions of single numbers have the same bits wherever a number stands in a tensor.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from iada.decoding.engines.prefill.cpu import (
    ByVectors,
    PackedLinear,
    can_pack,
    powers_of_two,
    with_packed_layers,
)
from iada.decoding.engines.prefill.int8 import is_available, with_int8_layers


class Stack(nn.Module):
    """A module with a tied matrix, a list, a hook and a linear layer without a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 16)
        self.layers = nn.ModuleList([nn.Linear(16, 16), nn.Sequential(nn.ReLU(), nn.Linear(16, 8))])
        self.missing: nn.Module | None = None
        self.out = nn.Linear(16, 40, bias=False)
        self.out.weight = self.words.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.out(self.layers[0](self.words(ids)))
        return found


packs = pytest.mark.skipif(not can_pack(nn.Linear(1, 1)), reason="PyTorch without oneDNN")


@packs
@pytest.mark.parametrize("shape", [(1,), (3,), (2, 5), (80,), (300,)])
@pytest.mark.parametrize("bias", [False, True])
def test_a_packed_layer_is_the_layer(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(33, 70, bias=bias)
    inputs = torch.randn(*shape, 33)
    with torch.inference_mode():
        found = PackedLinear(layer)(inputs)
        torch.testing.assert_close(found, layer(inputs), rtol=1e-5, atol=1e-6)
        # Every other row of a larger tensor.
        wide = torch.randn(2 * shape[0], *shape[1:], 33)[::2]
        torch.testing.assert_close(PackedLinear(layer)(wide), layer(wide), rtol=1e-5, atol=1e-6)


@packs
def test_the_model_stays_as_it_is_and_shares_what_is_not_packed() -> None:
    torch.manual_seed(0)
    model = Stack().eval()
    calls: list[Any] = []
    kept = object()
    model.register_forward_hook(lambda *given: calls.append(kept))
    view: Any = with_packed_layers(model)
    assert type(view) is Stack
    assert [type(one) for one in (view.out, view.layers[0], view.layers[1][1])] == [
        PackedLinear
    ] * 3
    assert view.words.weight is model.words.weight
    assert not any(isinstance(one, PackedLinear) for one in model.modules())
    ids = torch.arange(6)
    with torch.inference_mode():
        torch.testing.assert_close(view(ids), model(ids), rtol=1e-5, atol=1e-6)
    assert calls == [kept, kept]


def test_only_float32_is_packed() -> None:
    assert not can_pack(nn.Linear(2, 2).double())
    assert not can_pack(nn.Linear(2, 2).bfloat16())


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(
    ("function", "plain"),
    [
        (powers_of_two, torch.exp2),
        (ByVectors(nn.SiLU()), nn.SiLU()),
        (ByVectors(nn.Tanh()), nn.Tanh()),
    ],
    ids=["powers of two", "SiLU", "tanh"],
)
def test_a_number_has_the_same_bits_wherever_it_stands(
    function: Callable[[Tensor], Tensor], plain: Callable[[Tensor], Tensor]
) -> None:
    numbers = -30 * torch.rand(70_001, generator=torch.Generator().manual_seed(1))
    found = function(numbers.clone())
    for length in (1, 7, 33, 1000):
        parts = [function(part.clone()) for part in numbers[:5000].split(length)]
        assert torch.equal(torch.cat(parts), found[:5000])
    torch.testing.assert_close(found, plain(numbers.double()).float())


def test_without_that_it_does_not() -> None:
    """Or else there would be nothing to mend."""
    numbers = -30 * torch.rand(5000, generator=torch.Generator().manual_seed(1))
    parts = [part.exp2() for part in numbers.split(7)]
    assert not torch.equal(torch.cat(parts), numbers.exp2())


@pytest.mark.skipif(not is_available(), reason="needs PyTorch with oneDNN")
def test_between_8_bit_layers_activations_are_computed_so() -> None:
    class Layer(nn.Module):
        def __init__(self, activation: nn.Module) -> None:
            super().__init__()
            self.fc1 = nn.Linear(8, 8)
            self.activation_fn = activation

    assert isinstance(with_int8_layers(Layer(nn.SiLU())).activation_fn, ByVectors)
    assert isinstance(with_int8_layers(Layer(nn.ReLU())).activation_fn, nn.ReLU)
