import math

import pytest
import torch

from iada.method.losses import Sums, nll_sum


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


def test_only_sums_of_as_many_views_are_added() -> None:
    one = torch.tensor(1.0)
    both = Sums(one, (one, None), one)
    found = both.plus(Sums(one, (one, one), 2 * one), weight=3.0)
    assert (found.total, found.nlls, found.agreement) == (4.0, (2.0, None), 3.0)
    with pytest.raises(ValueError, match="shorter"):
        both.plus(Sums(one, (one,)), weight=1.0)
