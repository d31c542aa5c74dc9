import math

import pytest
import torch

from iada.method.perturbation import Drop, Replace, Zero, perturb
from iada.seeding import generator

IDS = torch.arange(6, 26).reshape(2, 10)


def test_probability_zero_is_the_identity_and_one_changes_everything() -> None:
    ids, selected = perturb(IDS, torch.zeros(2, 10), Drop(5), generator=generator(1))
    assert ids.equal(IDS)
    assert not selected.any()
    ids, selected = perturb(IDS, torch.ones(2, 10), Drop(5), generator=generator(1))
    assert ids.eq(5).all()
    assert selected.all()


def test_only_selected_positions_change_and_the_input_is_left_alone() -> None:
    before = IDS.clone()
    ids, selected = perturb(IDS, torch.full((2, 10), 0.5), Drop(5), generator=generator(3))
    assert IDS.equal(before)
    assert ids[selected].eq(5).all()
    assert ids[~selected].equal(IDS[~selected])
    assert 0 < int(selected.sum()) < 20


def test_zero_keeps_the_tokens_and_selects_those_that_mask_would() -> None:
    p = torch.full((2, 10), 0.5)
    ids, selected = perturb(IDS, p, Zero(), generator=generator(3))
    assert ids.equal(IDS)
    assert selected.equal(perturb(IDS, p, Drop(5), generator=generator(3))[1])


def test_the_same_generator_gives_the_same_noise() -> None:
    p, replace = torch.full((2, 10), 0.5), Replace(50, {0, 1})
    first = perturb(IDS, p, replace, generator=generator(1, "perturb", 2))
    again = perturb(IDS, p, replace, generator=generator(1, "perturb", 2))
    other = perturb(IDS, p, replace, generator=generator(1, "perturb", 3))
    assert first[0].equal(again[0])
    assert not first[0].equal(other[0])


def test_the_empirical_rate_is_within_four_standard_deviations() -> None:
    count, p = 200_000, 0.1
    ids = torch.zeros(1, count, dtype=torch.int64)
    _, selected = perturb(ids, torch.full((1, count), p), Drop(5), generator=generator(7))
    assert abs(selected.double().mean().item() - p) < 4 * math.sqrt(p * (1 - p) / count)


def test_replacements_are_uniform_over_ordinary_ids_and_never_special() -> None:
    vocabulary, special, count = 60, {0, 1, 2, 17, 59}, 1_000_000
    drawn = Replace(vocabulary, special)(
        torch.zeros(count, dtype=torch.int64), generator=generator(11)
    )
    histogram = torch.bincount(drawn, minlength=vocabulary).double()
    assert histogram[sorted(special)].eq(0).all()
    ordinary = torch.tensor([i for i in range(vocabulary) if i not in special])
    expected = count / len(ordinary)
    chi_squared = ((histogram[ordinary] - expected).square() / expected).sum().item()
    # 54 degrees of freedom: mean 54, standard deviation sqrt(108); 4 of them.
    assert chi_squared < 54 + 4 * math.sqrt(108)
    assert drawn.dtype == torch.int64


def test_a_vocabulary_of_specials_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="no ordinary token"):
        Replace(3, {0, 1, 2})
