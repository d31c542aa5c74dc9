"""Which models the fused objective may project for, and that it then projects as they do."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from iada.errors import ModelError
from iada.models.observation import linear_projection, output_projection

ARCHITECTURES = ("marian", "bart", "mbart", "m2m100", "t5")
Build = Callable[..., Any]

IDS = torch.tensor([[10, 11, 12]])


def _logits_and_states(model: Any) -> tuple[Tensor, Tensor]:
    seen: list[Tensor] = []
    handle = output_projection(model).register_forward_pre_hook(lambda _, i: seen.append(i[0]))
    logits = model(input_ids=IDS, decoder_input_ids=IDS).logits
    handle.remove()
    return logits, seen[0]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_supported_architecture_is_linear_at_the_end(
    architecture: str, tiny_model: Build
) -> None:
    model = tiny_model(architecture).eval()
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias.normal_()
    projection = linear_projection(model)
    assert projection is not None
    logits, states = _logits_and_states(model)
    ours = nn.functional.linear(states, projection.weight, projection.bias())
    torch.testing.assert_close(ours, logits)


def test_all_biases_are_added(tiny_model: Build) -> None:
    model = tiny_model("marian").eval()
    model.lm_head.bias = nn.Parameter(torch.randn(40, dtype=torch.float64))
    model.final_logits_bias.normal_()
    projection = linear_projection(model)
    assert projection is not None
    bias = projection.bias()
    assert bias is not None
    torch.testing.assert_close(bias, model.lm_head.bias + model.final_logits_bias[0])
    bias.sum().backward()
    assert model.lm_head.bias.grad.eq(1).all()


def test_a_model_that_changes_its_logits_is_not_linear(tiny_model: Build) -> None:
    model = tiny_model("marian")
    forward = model.forward

    def capped(**inputs: Any) -> Any:
        output = forward(**inputs)
        output.logits = 30 * torch.tanh(output.logits / 30)
        return output

    model.forward = capped
    assert linear_projection(model) is None


def test_a_model_whose_head_is_no_plain_linear_layer_is_not_linear(tiny_model: Build) -> None:
    class Adapted(nn.Linear):
        def forward(self, states: Tensor) -> Tensor:
            return super().forward(states) + 0.1 * states.sum(dim=-1, keepdim=True)

    model = tiny_model("bart")
    model.lm_head = Adapted(16, 40, dtype=torch.float64)
    assert linear_projection(model) is None
    model.lm_head = nn.Sequential(nn.Linear(16, 40, dtype=torch.float64))
    assert linear_projection(model) is None


def test_the_trial_leaves_no_trace(tiny_model: Build) -> None:
    model = tiny_model("marian")
    model.get_encoder().eval()
    before = torch.get_rng_state()
    linear_projection(model)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(p.grad is None for p in model.parameters())


def test_a_model_without_head_is_refused(tiny_model: Build) -> None:
    with pytest.raises(ModelError, match="MarianModel has no output projection"):
        output_projection(tiny_model("marian").model)
