import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from iada.config.method import AugmentConfig
from iada.data.windows.batch import Role
from iada.method.selection import (
    Scores,
    average_over_words,
    budget_offsets,
    configured_probability,
    normalize_scores,
    replacement_probability,
    standardize,
    word_heads,
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
    raw = normalize_scores(SCORES, ROLES, alpha=0.5, normalize="none")
    assert raw.tolist() == [[1.0, 3.0, 0.0, 5.0, 7.0, 0.0]]
    scaled = normalize_scores(SCORES, ROLES, alpha=0.5, normalize="scale")
    assert scaled.tolist() == [[0.5, 1.5, 0.0, 2.5, 3.5, 0.0]]
    torch.testing.assert_close(
        normalize_scores(SCORES, ROLES, alpha=0.5, normalize="standard"),
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


def _mean(p: Tensor, members: Tensor) -> list[float]:
    return ((p.double() * members).sum(dim=1) / members.sum(dim=1)).tolist()


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 60),
    st.floats(0, 20),
    st.floats(0.001, 0.99),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from(["normal", "outlier", "skewed"]),
    st.integers(0, 2**31),
)
def test_a_matched_budget_keeps_the_mean_of_every_row_and_role(
    length: int, alpha: float, p: float, dtype: torch.dtype, shape: str, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(4, length, generator=generator, dtype=dtype)
    if shape == "outlier":
        scores = torch.zeros(4, length, dtype=dtype)
        scores[:, 0] = 1.0
    elif shape == "skewed":
        scores = (3 * scores).exp()
    roles = torch.randint(0, 3, (4, length), generator=generator).to(torch.int8)
    psi = standardize(scores, roles, alpha=alpha)
    found = replacement_probability(psi, roles, p_context=p, p_current=0.1, budget="matched")
    for role, initial in ((CONTEXT, p), (CURRENT, 0.1)):
        members = roles == role
        rows = members.any(dim=1)
        assert _mean(found[rows], members[rows]) == pytest.approx(
            [initial] * int(rows.sum()), abs=1e-6
        )
    assert found[roles == SPECIAL].eq(0).all()


def test_a_free_budget_grows_with_alpha_and_a_matched_one_does_not() -> None:
    torch.manual_seed(0)
    scores = torch.randn(50, 400)
    roles = torch.full(scores.shape, CURRENT, dtype=torch.int8)
    psi = standardize(scores, roles, alpha=3.0)
    free, matched = (
        replacement_probability(psi, roles, p_context=0.1, p_current=0.1, budget=budget).mean()
        for budget in ("free", "matched")
    )
    # Normal z-scores at alpha 3 replace 2.6 times as many tokens.
    assert free.item() == pytest.approx(0.26, abs=0.01)
    assert matched.item() == pytest.approx(0.1, abs=1e-6)


def test_a_matched_budget_keeps_the_order_of_importance_and_one_offset_per_role() -> None:
    psi = standardize(SCORES, ROLES, alpha=2.0)
    p = replacement_probability(psi, ROLES, p_context=0.2, p_current=0.1, budget="matched")
    moved = torch.logit(p)
    # Two tokens per role: their distance in logit space stays that of their scores.
    assert (moved[0, 0] - moved[0, 1]).item() == pytest.approx((psi[0, 1] - psi[0, 0]).item())
    assert (moved[0, 4] - moved[0, 3]).item() == pytest.approx((psi[0, 4] - psi[0, 3]).item())
    assert (p[0, 0] + p[0, 1]).item() == pytest.approx(0.4, abs=1e-6)
    assert (p[0, 3] + p[0, 4]).item() == pytest.approx(0.2, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [0.05, 0.1, 0.15, 0.3, 0.7])
def test_without_importance_a_matched_budget_is_uniform_to_the_bit(
    p: float, dtype: torch.dtype
) -> None:
    psi = torch.zeros(3, 37, dtype=dtype)
    roles = torch.arange(111).reshape(3, 37).remainder(3).to(torch.int8)
    uniform, matched = (
        replacement_probability(psi, roles, p_context=p, p_current=0.1, budget=budget)
        for budget in ("free", "matched")
    )
    assert matched.equal(uniform)


def test_offsets_are_solved_for_each_part_of_a_row() -> None:
    tilt = torch.tensor([[7.0, 3.0, -2.0]])
    members = torch.tensor([[[True, False, False]], [[False, True, False]], [[False] * 3]])
    # One token each: its offset takes its tilt back. A part without tokens needs none.
    offsets = budget_offsets(tilt, members, (0.1, 0.4, 0.2))
    assert offsets.flatten().tolist() == pytest.approx([-7.0, -3.0, 0.0], abs=1e-5)


def test_a_budget_of_zero_stays_zero() -> None:
    psi = standardize(SCORES, ROLES, alpha=2.0)
    p = replacement_probability(psi, ROLES, p_context=0.0, p_current=0.1, budget="matched")
    assert p[0, :2].tolist() == [0.0, 0.0]
    assert p[0, 3:5].mean().item() == pytest.approx(0.1, abs=1e-6)


# Pieces 10 and 12 begin words, 11 and 13 continue them.
WORD_STARTS = torch.tensor([number % 2 == 0 for number in range(14)])


def test_words_begin_at_their_first_piece_at_specials_and_where_the_role_changes() -> None:
    ids = torch.tensor([[10, 11, 11, 4, 11, 12, 13, 13]])
    roles = torch.tensor([[1, 1, 1, 0, 1, 1, 1, 2]], dtype=torch.int8)
    assert word_heads(ids, WORD_STARTS, [roles]).tolist() == [[0, 0, 0, 3, 4, 5, 5, 7]]
    # Two groups: the side changes between positions 5 and 6.
    source = torch.tensor([[1, 1, 1, 0, 1, 1, 0, 0]], dtype=torch.int8)
    target = torch.tensor([[0, 0, 0, 0, 0, 0, 1, 1]], dtype=torch.int8)
    assert word_heads(ids, WORD_STARTS, [source, target]).tolist() == [[0, 0, 0, 3, 4, 5, 6, 6]]


def test_pieces_of_a_word_share_the_mean_of_their_scores() -> None:
    heads = torch.tensor([[0, 0, 0, 3, 4, 4]])
    values = torch.tensor([[1.0, 2.0, 6.0, 9.0, 4.0, 5.0]])
    shared = average_over_words(Scores(values), heads)
    assert shared.values.tolist() == [[3.0, 3.0, 3.0, 9.0, 4.5, 4.5]]
    # A piece without a score adds nothing.
    known = torch.tensor([[True, True, False, True, False, False]])
    shared = average_over_words(Scores(values, known=known), heads)
    assert shared.values.tolist() == [[1.5, 1.5, 1.5, 9.0, 0.0, 0.0]]
    # Drawn scores are not averaged: their deviation is alpha for words as for pieces.
    drawn = average_over_words(Scores(values, is_standard=True), heads)
    assert drawn.values.tolist() == [[1.0, 1.0, 1.0, 9.0, 4.0, 4.0]]
