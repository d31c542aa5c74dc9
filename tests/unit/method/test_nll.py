import math

import pytest
import torch

from iada.method.losses import nll_sum


def test_nll_by_hand() -> None:
    # Probabilities 1/2, 1/4, 1/4 and 1/3 each: -log(1/4) - log(1/3).
    logits = torch.tensor([[2.0, 1.0, 1.0], [5.0, 5.0, 5.0]], dtype=torch.float64) * math.log(2)
    labels = torch.tensor([1, 0])
    expected = math.log(4) + math.log(3)
    assert nll_sum(logits, labels).item() == pytest.approx(expected)


def test_smoothing_mixes_in_the_mean_over_the_whole_vocabulary() -> None:
    logits = torch.tensor([[2.0, 1.0, 1.0]], dtype=torch.float64) * math.log(2)
    plain, others = math.log(4), (math.log(2) + 2 * math.log(4)) / 3
    smooth = nll_sum(logits, torch.tensor([1]), smoothing=0.1)
    assert smooth.item() == pytest.approx(0.9 * plain + 0.1 * others)


def test_half_precision_logits_are_summed_in_float32() -> None:
    assert nll_sum(torch.zeros(2, 3, dtype=torch.bfloat16), torch.tensor([0, 1])).dtype == (
        torch.float32
    )
