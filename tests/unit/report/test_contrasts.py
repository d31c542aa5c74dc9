"""Differences between rows, worked by hand."""

import math

import pytest

from iada.evaluation.metrics import METRICS
from iada.report.verdict import _QUANTILES, Difference, difference, signed

BLEU, NLL, PRONOUNS = METRICS["s_bleu"], METRICS["dev_nll"], METRICS["pronouns"]


def found(values: tuple[float, ...], others: tuple[float, ...], key: str = "s_bleu") -> Difference:
    contrast = difference(values, others, METRICS[key])
    assert contrast is not None
    return contrast


def test_runs_of_the_same_seed_are_compared() -> None:
    # The differences are 1, 2 and 3, although the values themselves scatter far more.
    contrast = found((11.0, 52.0, 93.0), (10.0, 50.0, 90.0))
    assert (contrast.mean, contrast.deviation, contrast.seeds) == (2.0, 1.0, 3)
    assert contrast.higher == 3


def test_the_interval_is_students() -> None:
    low, high = found((11.0, 52.0, 93.0), (10.0, 50.0, 90.0)).interval or (0.0, 0.0)
    assert high - 2 == pytest.approx(4.303 / math.sqrt(3))
    assert 2 - low == pytest.approx(4.303 / math.sqrt(3))


@pytest.mark.parametrize("freedom", range(1, 11))
def test_the_quantiles_leave_out_five_percent(freedom: int) -> None:
    """Integrate the density of Student's t by Simpson's rule."""
    quantile = _QUANTILES[freedom - 1]
    scale = math.gamma((freedom + 1) / 2) / (math.sqrt(freedom * math.pi) * math.gamma(freedom / 2))

    def density(x: float) -> float:
        return scale * (1 + x * x / freedom) ** (-(freedom + 1) / 2)

    steps = 2000
    width = quantile / steps
    weights = (1, *((4, 2) * (steps // 2))[: steps - 1], 1)
    inner = sum(w * density(i * width) for i, w in enumerate(weights)) * width / 3
    assert len(_QUANTILES) == 10
    # The table is rounded to three decimals.
    assert 2 * inner == pytest.approx(0.95, abs=5e-5)


def test_many_seeds_have_the_widest_quantile_of_the_table() -> None:
    values = tuple(float(n % 2) for n in range(20))
    contrast = found(values, (0.0,) * 20)
    assert contrast.deviation is not None
    low, high = contrast.interval or (0.0, 0.0)
    assert (high - low) / 2 == pytest.approx(2.228 * contrast.deviation / math.sqrt(20))


@pytest.mark.parametrize(
    ("values", "key", "outcome"),
    [
        ((1.0, 1.1, 0.9), "s_bleu", "better"),
        ((-1.0, -1.1, -0.9), "s_bleu", "worse"),
        ((1.0, 1.1, 0.9), "dev_nll", "worse"),
        ((-1.0, -1.1, -0.9), "dev_nll", "better"),
        ((1.0, -1.0, 0.5), "s_bleu", "open"),
        ((0.0, 0.0, 0.0), "s_bleu", "open"),
        ((5.0,), "s_bleu", "few seeds"),
        ((5.0, 5.0), "s_bleu", "few seeds"),
    ],
)
def test_outcomes(values: tuple[float, ...], key: str, outcome: str) -> None:
    assert found(values, (0.0,) * len(values), key).outcome == outcome


def test_text_has_sign_spread_and_interval() -> None:
    text = found((0.52, 0.54, 0.56), (0.50, 0.50, 0.50), "pronouns").text
    assert text == "+4.0 ± 2.0 (−1.0 to +9.0)"
    assert found((0.5,), (0.6,), "pronouns").text == "−10.0"


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "+1.00"), (-0.5, "−0.50"), (-0.001, "0.00"), (0.0, "0.00")]
)
def test_signs(value: float, text: str) -> None:
    assert signed(value, 2) == text


def test_no_seeds_no_difference() -> None:
    assert difference((), (), BLEU) is None
