import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from iada.method.losses import (
    AgreementTerm,
    Terms,
    jensen_shannon,
    kl_divergence,
    plain_losses,
    symmetric_kl,
)

BOTH = [symmetric_kl, jensen_shannon]


def _logits(seed: int) -> Tensor:
    return torch.randn(4, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 3


def _softmax(logits: Tensor) -> np.ndarray:
    exponentials = np.exp(logits.numpy())
    return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True))


def test_symmetric_kl_equals_a_float64_reference() -> None:
    p, q = _softmax(_logits(0)), _softmax(_logits(1))
    expected = 0.5 * ((p * np.log(p / q)).sum() + (q * np.log(q / p)).sum())
    assert symmetric_kl(_logits(0), _logits(1)).item() == pytest.approx(expected, rel=1e-12)


def test_jensen_shannon_equals_a_float64_reference() -> None:
    p, q = _softmax(_logits(0)), _softmax(_logits(1))
    m = (p + q) / 2
    expected = 0.5 * ((p * np.log(p / m)).sum() + (q * np.log(q / m)).sum())
    assert jensen_shannon(_logits(0), _logits(1)).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("divergence", BOTH)
def test_zero_only_for_equal_distributions_and_symmetric(
    divergence: Callable[..., Tensor],
) -> None:
    a, b = _logits(0), _logits(1)
    # A shift of the logits leaves the distribution as it is.
    assert divergence(a, a + 5).item() == pytest.approx(0, abs=1e-12)
    assert divergence(a, b).item() > 0.01
    assert divergence(a, b).item() == pytest.approx(divergence(b, a).item(), rel=1e-12)


@pytest.mark.parametrize("divergence", BOTH)
def test_the_mask_chooses_the_positions_that_are_summed(
    divergence: Callable[..., Tensor],
) -> None:
    a, b = _logits(0), _logits(1)
    rows = [divergence(a[i : i + 1], b[i : i + 1]).item() for i in range(4)]
    mask = torch.tensor([True, False, False, True])
    assert divergence(a, b, mask).item() == pytest.approx(rows[0] + rows[3])
    assert divergence(a, b).item() == pytest.approx(sum(rows))


@pytest.mark.parametrize("divergence", BOTH)
def test_gradients_flow_into_both_views(divergence: Callable[..., Tensor]) -> None:
    a, b = _logits(0).requires_grad_(), _logits(1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: divergence(x, y), (a, b))
    divergence(a, b).backward()
    assert a.grad is not None
    assert b.grad is not None
    assert a.grad.abs().sum() > 0
    assert b.grad.abs().sum() > 0


def test_the_one_sided_divergences_sum_to_the_symmetric_one() -> None:
    p, q = _softmax(_logits(0)), _softmax(_logits(1))
    forth, back = kl_divergence(_logits(0), _logits(1)), kl_divergence(_logits(1), _logits(0))
    assert forth.item() == pytest.approx((p * np.log(p / q)).sum(), rel=1e-12)
    assert forth.item() != pytest.approx(back.item(), rel=1e-3)
    both = symmetric_kl(_logits(0), _logits(1))
    assert (0.5 * (forth + back)).item() == pytest.approx(both.item(), rel=1e-12)


def test_jensen_shannon_is_bounded_where_symmetric_kl_is_not() -> None:
    a = torch.tensor([[100.0, 0.0]], dtype=torch.float64)
    b = torch.tensor([[0.0, 100.0]], dtype=torch.float64)
    assert jensen_shannon(a, b).item() == pytest.approx(math.log(2))
    assert symmetric_kl(a, b).item() == pytest.approx(100)


@pytest.mark.parametrize("stop_first", [None, True])
def test_the_first_view_learns_from_the_agreement_unless_it_is_stopped(
    stop_first: bool | None,
) -> None:
    term = AgreementTerm(0.5) if stop_first is None else AgreementTerm(0.5, stop_first=stop_first)
    a, b = _logits(0).requires_grad_(), _logits(1).requires_grad_()
    terms = Terms(nll_weights=(0.0, 0.0), agreement=term)
    plain_losses([a, b], torch.zeros(4, dtype=torch.long), terms).total.backward()
    assert (a.grad is not None and a.grad.abs().sum().item() > 0.01) == (not stop_first)
    assert b.grad is not None
    assert b.grad.abs().sum().item() > 0.01
