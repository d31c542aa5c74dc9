"""Attention in float32 on CPUs, where bf16 costs more."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from iada.data.windows.batch import Batch
from iada.models.observation import Observer
from iada.models.savings import exact_attention

CPU = torch.device("cpu")


def _attend(query: Tensor) -> Tensor:
    return scaled_dot_product_attention(query, query, query, is_causal=True)


def test_the_result_is_that_of_float32_in_the_type_of_autocast() -> None:
    query = torch.randn(2, 2, 5, 8).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        plain = _attend(query)
        with exact_attention(nn.Identity(), CPU):
            exact = _attend(query)
            product = query @ query.mT
    assert plain.dtype == exact.dtype == product.dtype == torch.bfloat16
    assert exact.equal(_attend(query.float()).bfloat16())


def test_without_autocast_nothing_changes() -> None:
    query = torch.randn(2, 2, 5, 8)
    with exact_attention(nn.Identity(), CPU):
        assert _attend(query).equal(_attend(query))
        assert _attend(query.double()).dtype == torch.float64


def test_layers_that_run_again_are_left_alone() -> None:
    query = torch.randn(2, 2, 5, 8).bfloat16()
    module = nn.Sequential(nn.Identity())
    module[0].gradient_checkpointing = True
    with torch.autocast("cpu", torch.bfloat16):
        plain = _attend(query)
        with exact_attention(module, CPU):
            assert _attend(query).equal(plain)


def test_observed_passes_attend_in_float32(
    tiny_model: Callable[..., Any], batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model().float().eval()
    observer = Observer(model)
    with torch.autocast("cpu", torch.bfloat16):
        observed = observer.forward(batch).hidden
        monkeypatch.setattr("iada.models.observation.exact_attention", _leave)
        left = observer.forward(batch).hidden
    exact = observer.forward(batch).hidden
    assert not observed.equal(left)
    distance = [(found.float() - exact).abs().mean() for found in (observed, left)]
    assert distance[0] < 0.1
    assert distance[1] < 0.1


def _leave(module: nn.Module, device: torch.device) -> Any:
    return torch.autocast("cpu", torch.bfloat16)
