import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from iada.config.method import AugmentConfig
from iada.data.windows.batch import Role
from iada.method.selection import (
    configured_probability,
    replacement_probability,
    spread,
    standardize,
)

CONTEXT, CURRENT, SPECIAL = int(Role.CONTEXT), int(Role.CURRENT), int(Role.SPECIAL)
ROLES = torch.tensor([[CONTEXT, CONTEXT, SPECIAL, CURRENT, CURRENT, SPECIAL]], dtype=torch.int8)
SCORES = torch.tensor([[1.0, 3.0, 100.0, 5.0, 7.0, 50.0]], dtype=torch.float64)


def test_z_scores_by_hand() -> None:
    # Eligible scores 1, 3, 5, 7: mean 4, population variance (9 + 1 + 1 + 9) / 4 = 5.
    z = standardize(SCORES, ROLES, alpha=1.0)
    expected = torch.tensor([[-3.0, -1.0, 0.0, 1.0, 3.0, 0.0]], dtype=torch.float64) / math.sqrt(5)
    torch.testing.assert_close(z, expected)


def test_alpha_scales_the_z_scores() -> None:
    torch.testing.assert_close(
        standardize(SCORES, ROLES, alpha=0.3), 0.3 * standardize(SCORES, ROLES, alpha=1.0)
    )


def test_counted_tokens_can_include_specials_but_specials_stay_zero() -> None:
    counted = torch.tensor([[True, True, True, True, True, False]])
    z = standardize(SCORES, ROLES, alpha=1.0, counted=counted)
    mean = (1 + 3 + 100 + 5 + 7) / 5
    deviation = math.sqrt(sum((x - mean) ** 2 for x in (1, 3, 100, 5, 7)) / 5)
    assert z[0, 0].item() == pytest.approx((1 - mean) / deviation)
    assert z[0, 2].item() == 0.0


def test_equal_scores_and_single_tokens_have_no_importance() -> None:
    # 0.1 is not a binary fraction: its mean differs from it by rounding.
    equal = torch.full((1, 6), 0.1)
    assert standardize(equal, ROLES, alpha=1.0).eq(0).all()
    one = torch.tensor([[SPECIAL, CURRENT, SPECIAL]], dtype=torch.int8)
    assert standardize(torch.tensor([[9.0, 2.0, 1.0]]), one, alpha=1.0).eq(0).all()
    none = torch.full((1, 3), SPECIAL, dtype=torch.int8)
    assert standardize(torch.tensor([[9.0, 2.0, 1.0]]), none, alpha=1.0).eq(0).all()


def test_half_precision_scores_are_standardised_in_float32() -> None:
    assert standardize(SCORES.bfloat16(), ROLES, alpha=1.0).dtype == torch.float32


@st.composite
def _windows(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    length = draw(st.integers(3, 12))
    scores = draw(st.lists(st.floats(0.015625, 100, width=32), min_size=length, max_size=length))
    roles = draw(st.lists(st.sampled_from([0, 1, 2]), min_size=length, max_size=length))
    return (
        torch.tensor([scores], dtype=torch.float64),
        torch.tensor([roles], dtype=torch.int8),
    )


@settings(max_examples=60, deadline=None)
@given(_windows(), st.floats(0.01, 100), st.integers(0, 5))
def test_z_scores_have_mean_0_and_variance_1_and_ignore_scale_padding_and_neighbours(
    window: tuple[Tensor, Tensor], factor: float, padding: int
) -> None:
    scores, roles = window
    z = standardize(scores, roles, alpha=1.0)
    eligible = z[roles != SPECIAL]
    if eligible.any():
        assert eligible.mean().item() == pytest.approx(0, abs=1e-9)
        assert eligible.square().mean().item() == pytest.approx(1, abs=1e-9)
    torch.testing.assert_close(standardize(factor * scores, roles, alpha=1.0), z)
    padded_scores = torch.nn.functional.pad(scores, (0, padding), value=1e6)
    padded_roles = torch.nn.functional.pad(roles, (0, padding), value=SPECIAL)
    padded = standardize(padded_scores, padded_roles, alpha=1.0)
    torch.testing.assert_close(padded[:, : scores.shape[1]], z)
    other = torch.arange(scores.shape[1], dtype=torch.float64)[None]
    together = standardize(torch.cat([other, scores]), torch.cat([roles, roles]), alpha=1.0)
    torch.testing.assert_close(together[1:], z)


def test_not_normalised_is_the_raw_score_and_scale_multiplies_it() -> None:
    raw = spread(SCORES, ROLES, alpha=0.5, normalize="none")
    assert raw.tolist() == [[1.0, 3.0, 0.0, 5.0, 7.0, 0.0]]
    scaled = spread(SCORES, ROLES, alpha=0.5, normalize="scale")
    assert scaled.tolist() == [[0.5, 1.5, 0.0, 2.5, 3.5, 0.0]]
    torch.testing.assert_close(
        spread(SCORES, ROLES, alpha=0.5, normalize="standard"),
        standardize(SCORES, ROLES, alpha=0.5),
    )


def test_probability_without_importance_is_the_initial_one() -> None:
    p = replacement_probability(torch.zeros(1, 6), ROLES, p_context=0.2, p_current=0.1)
    torch.testing.assert_close(p, torch.tensor([[0.2, 0.2, 0.0, 0.1, 0.1, 0.0]]))


def test_logit_of_the_probability_moves_by_plus_or_minus_psi() -> None:
    psi = standardize(SCORES, ROLES, alpha=0.1)
    p = replacement_probability(psi, ROLES, p_context=0.1, p_current=0.1)
    moved = torch.logit(p) - math.log(0.1 / 0.9)
    torch.testing.assert_close(moved[0, :2], -psi[0, :2])
    torch.testing.assert_close(moved[0, 3:5], psi[0, 3:5])


def test_opposite_directions_are_symmetric_in_logit_space() -> None:
    psi = standardize(SCORES, ROLES, alpha=1.0)
    base = math.log(0.1 / 0.9)
    p = replacement_probability(psi, ROLES, p_context=0.1, p_current=0.1)
    q = replacement_probability(
        psi,
        ROLES,
        p_context=0.1,
        p_current=0.1,
        context_direction="up",
        current_direction="down",
    )
    eligible = ROLES != SPECIAL
    torch.testing.assert_close(torch.logit(p)[eligible] - base, base - torch.logit(q)[eligible])


@pytest.mark.parametrize(
    ("context", "current", "signs"),
    [
        ("down", "up", (-1, 1)),
        ("up", "down", (1, -1)),
        ("down", "down", (-1, -1)),
        ("up", "up", (1, 1)),
    ],
)
def test_the_four_direction_pairs(context: str, current: str, signs: tuple[int, int]) -> None:
    psi = torch.tensor([[0.5, 0.5]])
    roles = torch.tensor([[CONTEXT, CURRENT]], dtype=torch.int8)
    p = replacement_probability(
        psi,
        roles,
        p_context=0.5,
        p_current=0.5,
        context_direction=context,  # type: ignore[arg-type]
        current_direction=current,  # type: ignore[arg-type]
    )
    expected = [1 / (1 + math.exp(-0.5 * sign)) for sign in signs]
    assert p[0].tolist() == pytest.approx(expected)


def test_the_paper_setting_tilts_between_0_076_and_0_130() -> None:
    psi = torch.tensor([[-0.3, 0.3]])
    roles = torch.full((1, 2), CURRENT, dtype=torch.int8)
    p = replacement_probability(psi, roles, p_context=0.1, p_current=0.1)
    assert p[0].tolist() == pytest.approx([0.0761, 0.1304], abs=5e-5)


def test_a_probability_of_zero_stays_zero_whatever_the_importance() -> None:
    psi = torch.full((1, 6), 50.0)
    p = replacement_probability(psi, ROLES, p_context=0.0, p_current=0.0)
    assert p.eq(0).all()


@pytest.mark.parametrize("context", ["up", "down"])
@pytest.mark.parametrize("current", ["up", "down"])
def test_each_key_of_the_configuration_reaches_its_own_part(context: str, current: str) -> None:
    config = AugmentConfig(
        p_context=0.2,
        p_current=0.4,
        context_direction=context,  # type: ignore[arg-type]
        current_direction=current,  # type: ignore[arg-type]
    )
    psi = torch.full((1, 3), 0.5)
    roles = torch.tensor([[CONTEXT, CURRENT, SPECIAL]], dtype=torch.int8)
    signs = [1 if direction == "up" else -1 for direction in (context, current)]
    expected = [
        1 / (1 + math.exp(-(math.log(p / (1 - p)) + 0.5 * sign)))
        for p, sign in zip((0.2, 0.4), signs, strict=True)
    ]
    p = configured_probability(psi, roles, config)
    assert p[0].tolist() == pytest.approx([*expected, 0.0])
