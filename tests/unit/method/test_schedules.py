"""The ramp of the replacement probability, and the phase that learns from one view alone."""

import math
from dataclasses import replace

import pytest

from iada.config.method import AugmentConfig, augmentation
from iada.method.selection import ramped, settings_at


@pytest.mark.parametrize("update", [0, 1, 500, 3000, 4600, 4800, 20_000])
def test_the_ramp_is_the_published_formula(update: int) -> None:
    k, p = 1000.0, 0.1
    kept = max(1 - p, k / (k + math.exp(update / k)))
    assert ramped(p, update, ramp=k) == pytest.approx(1 - kept, rel=1e-9)


def test_the_ramp_rises_to_its_end_and_stays_there() -> None:
    values = [ramped(0.1, update, ramp=50.0) for update in range(0, 1000, 10)]
    assert values == sorted(values)
    assert values[0] == pytest.approx(1 / 51)
    assert values[-1] == 0.1
    assert ramped(0.1, 10**9, ramp=1.0) == 0.1


def test_both_probabilities_ramp_and_nothing_else_changes() -> None:
    config = AugmentConfig(p_context=0.2, p_current=0.5, ramp=10.0)
    now = settings_at(config, 20)
    assert now.p_context == 0.2
    assert now.p_current == pytest.approx(math.exp(2) / (10 + math.exp(2)))
    assert replace(now, p_context=0.2, p_current=0.5) == config


def test_alpha_rises_linearly_to_its_value_and_stays_there() -> None:
    config = AugmentConfig(alpha=0.8, alpha_updates=100)
    assert [settings_at(config, update).alpha for update in (0, 25, 100, 10**6)] == [
        0.0,
        pytest.approx(0.2),
        0.8,
        0.8,
    ]
    assert settings_at(AugmentConfig(alpha=0.8), 0).alpha == 0.8


def test_before_the_joint_update_the_perturbed_view_carries_both_weights() -> None:
    config = augmentation("cipher")
    early = settings_at(config, 499)
    weights = (early.weight_original, early.weight_perturbed, early.weight_agreement)
    assert weights == (0.0, 1.0, 0.0)
    assert settings_at(config, 500) is config


def test_without_ramp_and_phase_settings_are_constant() -> None:
    config = AugmentConfig()
    assert settings_at(config, 0) is config
