"""Paired tests: no difference is never significant, and draws are a function of the seed."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iada.config.evaluate import EvaluateConfig
from iada.evaluation import significance
from iada.evaluation.significance import (
    FloatArray,
    Measurement,
    bleu_scores,
    chrf_scores,
    holm,
    mean_scores,
    measure_mean,
    paired_bootstrap,
    paired_randomization,
)


def measured(*systems: list[float]) -> Measurement:
    return measure_mean([[[value] for value in values] for values in systems], "mean")


def drawn(units: int, *means: float, seed: int = 0) -> Measurement:
    random = np.random.default_rng(seed)
    return measured(*(random.normal(mean, 1.0, units).tolist() for mean in means))


def test_chrf_of_the_shortest_texts_by_hand() -> None:
    def counts(*first: int) -> list[float]:
        # Hypothesis, reference and matches of six orders; one letter has no longer n-grams.
        return [*map(float, first), *[0.0] * 15]

    # "a" for "a"; "b" for "a"; "ab" for "a", of whose letters one of two is right: F with beta 2 is
    # 5 * 0.5 * 1 / (4 * 0.5 + 1); nothing for "a".
    rows = np.array([counts(1, 1, 1), counts(1, 1, 0), counts(2, 1, 1), counts(0, 1, 0)])
    assert chrf_scores(rows) == pytest.approx([100, 0, 100 * 2.5 / 3, 0])


values = st.lists(st.integers(0, 20).map(float), min_size=1, max_size=30)


@settings(max_examples=40, deadline=None)
@given(values, st.integers(1, 2**31), st.integers(1, 100))
def test_a_system_never_differs_from_itself(found: list[float], seed: int, draws: int) -> None:
    same = [measured(found, found)]
    (bootstrap,) = paired_bootstrap(same, resamples=draws, seed=seed)
    ((randomized,),) = paired_randomization(same, trials=draws, seed=seed)
    (comparison,) = bootstrap.comparisons
    assert comparison.p_value == randomized.p_value == 1.0
    assert comparison.difference == comparison.wins == 0.0
    assert comparison.interval == significance.Interval(0.0, 0.0, 0.0)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=20))
def test_systems_and_duplicates_get_the_same_result(pairs: list[tuple[int, int]]) -> None:
    first, second = ([float(pair[side]) for pair in pairs] for side in (0, 1))
    together = [measured(first, second, first, second)]
    alone = [measured(first, second)]
    (found,) = paired_bootstrap(together, resamples=50, seed=3)
    (expected,) = paired_bootstrap(alone, resamples=50, seed=3)
    assert found.comparisons[0] == found.comparisons[2] == expected.comparisons[0]
    assert found.intervals == (*expected.intervals, *expected.intervals)
    assert found.comparisons[1].p_value == 1.0
    (found_trials,) = paired_randomization(together, trials=50, seed=3)
    (expected_trials,) = paired_randomization(alone, trials=50, seed=3)
    assert found_trials[0] == found_trials[2] == expected_trials[0]


def test_swapping_system_and_baseline_changes_only_the_sign() -> None:
    measurement = drawn(40, 0.0, 0.3)
    swapped = replace(measurement, systems=measurement.systems[::-1])
    (one,) = paired_bootstrap([measurement], resamples=500, seed=1)
    (other,) = paired_bootstrap([swapped], resamples=500, seed=1)
    (first,), (second,) = one.comparisons, other.comparisons
    assert first.p_value == second.p_value
    assert first.difference == -second.difference
    assert first.interval is not None
    assert second.interval is not None
    assert first.interval.low == pytest.approx(-second.interval.high)
    assert first.wins == pytest.approx(1 - (second.wins or 0))
    ((first,),) = paired_randomization([measurement], trials=500, seed=1)
    ((second,),) = paired_randomization([swapped], trials=500, seed=1)
    assert first.p_value == second.p_value


def test_the_seed_decides_and_the_size_of_chunks_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    measurement = drawn(37, 0.0, 0.2, 0.4)

    def both(seed: int) -> tuple[object, object]:
        return (
            paired_bootstrap([measurement], resamples=301, seed=seed),
            paired_randomization([measurement], trials=301, seed=seed),
        )

    expected = both(5)
    assert both(5) == expected
    assert both(6)[0] != expected[0]
    assert both(6)[1] != expected[1]
    for weights in (1, 37 * 7, 37 * 64, 37 * 100):
        monkeypatch.setattr(significance, "_WEIGHTS", weights)
        found = both(5)
        assert found[1] == expected[1]
        bootstrap = (found[0], expected[0])
        for one, other in zip(*bootstrap, strict=True):  # type: ignore[call-overload]
            for a, b in zip(one.comparisons, other.comparisons, strict=True):
                assert a.p_value == b.p_value
                assert a.interval.mean == pytest.approx(b.interval.mean)


def test_metrics_measured_together_are_those_measured_alone() -> None:
    first, second = drawn(30, 0.0, 0.5), drawn(30, 0.1, 0.0, seed=4)
    together = paired_bootstrap([first, second], resamples=100, seed=2)
    assert together[0].comparisons[0].p_value == pytest.approx(
        paired_bootstrap([first], resamples=100, seed=2)[0].comparisons[0].p_value
    )
    assert together[1].intervals[1].mean == pytest.approx(
        paired_bootstrap([second], resamples=100, seed=2)[0].intervals[1].mean
    )


def test_a_clear_difference_is_significant_and_noise_is_not() -> None:
    measurement = drawn(400, 0.0, 1.0, 0.01)
    (bootstrap,) = paired_bootstrap([measurement], resamples=999, seed=1)
    (randomized,) = paired_randomization([measurement], trials=999, seed=1)
    for comparisons in (bootstrap.comparisons, randomized):
        assert comparisons[0].p_value == pytest.approx(0.001)
        assert comparisons[1].p_value > 0.05
    assert bootstrap.comparisons[0].wins == 1.0


def exact_p_value(first: list[float], second: list[float]) -> float:
    """Enumerate every assignment of translations to systems; means, so by hand."""
    differences = [b - a for a, b in zip(first, second, strict=True)]
    observed = abs(sum(differences))
    sums = [
        abs(sum(sign * one for sign, one in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(one >= observed - 1e-9 for one in sums) / len(sums)


@pytest.mark.parametrize(("differing", "exact"), [(1, 1.0), (2, 0.5), (3, 0.25), (6, 1 / 32)])
def test_few_differing_units_are_no_evidence(differing: int, exact: float) -> None:
    first = [0.3] * 40
    second = [0.4] * differing + [0.3] * (40 - differing)
    assert exact_p_value(first[:differing], second[:differing]) == exact
    ((found,),) = paired_randomization([measured(first, second)], trials=9_999, seed=1)
    # Four standard errors of the Monte-Carlo estimate.
    assert found.p_value == pytest.approx(exact, abs=4 * np.sqrt(0.25 / 9_999))
    assert (found.p_value == 1.0) == (exact == 1.0)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=9))
def test_randomisation_approaches_the_exact_test(pairs: list[tuple[int, int]]) -> None:
    first, second = ([pair[side] / 7 for pair in pairs] for side in (0, 1))
    ((found,),) = paired_randomization([measured(first, second)], trials=2_000, seed=3)
    assert found.p_value == pytest.approx(exact_p_value(first, second), abs=0.05)


def null_pairs(units: int, *, bleu: bool) -> Iterator[Measurement]:
    """2,000 pairs of systems that are equally good by construction."""
    random = np.random.default_rng(7)
    for _ in range(2_000):
        if not bleu:
            yield measured(*random.normal(0.0, 1.0, (2, units)).tolist())
            continue
        lengths = random.integers(8, 20, units)
        orders = np.stack([lengths - n for n in range(4)], axis=1)
        counts = tuple(
            np.concatenate(
                [
                    lengths[:, None],
                    lengths[:, None],
                    random.binomial(orders, (0.6, 0.4, 0.25, 0.15)),
                    orders,
                ],
                axis=1,
            ).astype(np.float64)
            for _ in range(2)
        )
        yield Measurement("bleu", bleu_scores, counts)


@pytest.mark.parametrize("bleu", [False, True])
def test_the_default_test_calls_five_percent_of_equal_systems_different(bleu: bool) -> None:
    assert EvaluateConfig().test == "randomization"
    p_values = [
        paired_randomization([pair], trials=199, seed=number + 1)[0][0].p_value
        for number, pair in enumerate(null_pairs(40, bleu=bleu))
    ]
    assert np.mean(np.array(p_values) <= 0.05) == pytest.approx(0.05, abs=0.01)
    assert np.mean(np.array(p_values) <= 0.5) == pytest.approx(0.5, abs=0.04)


def test_koehns_bootstrap_counts_only_what_is_beyond_the_observed_difference() -> None:
    # Two units, of which one differs: resamples hold it never, once or twice, and their differences
    # are 0, 50 and 100. Where 0 and 100 are equally frequent, 100 less the mean is the observed 50.
    pair = measured([0.0, 0.0], [1.0, 0.0])
    for seed in range(1, 100):
        (weights,) = significance._resampled(2, 4, seed)
        if sorted(weights[:, 0].tolist()) == [0.0, 1.0, 1.0, 2.0]:
            break
    (found,) = paired_bootstrap([pair], resamples=4, seed=seed)
    assert found.comparisons[0].difference == 50
    assert found.comparisons[0].p_value == 1 / 5


def test_koehns_bootstrap_calls_more_of_them_different() -> None:
    p_values = [
        paired_bootstrap([pair], resamples=199, seed=number + 1)[0].comparisons[0].p_value
        for number, pair in zip(range(1_000), null_pairs(40, bleu=False), strict=False)
    ]
    assert np.mean(np.array(p_values) <= 0.05) > 0.08


def test_holms_correction_by_hand() -> None:
    # 0.01 · 4, 0.02 · 3, 0.03 · 2 and 0.2 · 1; 0.06 is not below the 0.06 before it.
    assert holm((0.2, 0.01, 0.03, 0.02)) == pytest.approx((0.2, 0.04, 0.06, 0.06))
    # None is smaller than the one before it, and none is above 1.
    assert holm((0.04, 0.03)) == pytest.approx((0.06, 0.06))
    assert holm((0.9, 0.8)) == (1.0, 1.0)
    assert holm((0.3,)) == (0.3,)
    assert holm(()) == ()


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_keeps_the_order_and_lies_between_the_value_and_bonferroni(p: list[float]) -> None:
    adjusted = holm(p)
    for one, raw in zip(adjusted, p, strict=True):
        assert raw <= one <= min(1.0, len(p) * raw) or one == raw
    order = sorted(range(len(p)), key=p.__getitem__)
    values = [adjusted[number] for number in order]
    assert values == sorted(values)


def test_an_interval_holds_95_of_100_resamples() -> None:
    (result,) = paired_bootstrap([drawn(50, 0.0)], resamples=4000, seed=1)
    (interval,) = result.intervals
    values = np.random.default_rng(0).normal(0, 1, 50)
    # The normal approximation of the error of a mean.
    error = 100 * values.std() / np.sqrt(50)
    assert interval.mean == pytest.approx(100 * values.mean(), abs=0.1 * error)
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * error, rel=0.06)


def test_every_resample_draws_as_many_units_as_there_are() -> None:
    sums: list[FloatArray] = []

    def keep(found: FloatArray) -> FloatArray:
        sums.append(found)
        return mean_scores(found)

    measurement = replace(drawn(20, 0.0, 1.0), formula=keep)
    paired_bootstrap([measurement], resamples=30, seed=1)
    assert {found.shape for found in sums} >= {(30, 2)}
    assert all((found[:, 1] == 20).all() for found in sums)


def test_a_swap_takes_units_from_both_and_loses_none() -> None:
    sums: list[FloatArray] = []

    def keep(found: FloatArray) -> FloatArray:
        sums.append(found)
        return mean_scores(found)

    measurement = replace(measured([1.0, 2.0, 4.0], [10.0, 20.0, 40.0]), formula=keep)
    paired_randomization([measurement], trials=64, seed=1)
    first, second = (found[:, 0] for found in sums if found.shape == (64, 2))
    assert (first + second == 77).all()
    assert {7.0, 70.0, 16.0} <= set(first.tolist())
