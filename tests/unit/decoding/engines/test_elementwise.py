"""Functions of single numbers have the same bits wherever a number stands in a tensor."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from iada.decoding.engines.prefill.elementwise import ByVectors, powers_of_two
from iada.decoding.engines.prefill.int8 import is_available, with_int8_layers


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
