"""Is one system better than another, or is it chance? Paired tests on sufficient statistics.

Both tests draw weights for units, sentences or documents, and multiply them with the statistics of
all systems and metrics at once.

*Approximate randomisation* is the default: under the null hypothesis that both systems are alike,
its p-value is below 0.05 in 5% of all cases, whatever the metric. *Koehn's bootstrap* (2004) is
the test of the paper, kept as sacreBLEU computes it; it takes the size of the difference before
centring it and calls about twice as many equal systems different. With the same seed the draws are
those of sacreBLEU, and so are the p-values, with two exceptions: a system that does not differ from
the baseline in any unit has p = 1 here, and randomisation counts chance differences that equal the
observed one, as an exact test does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iada.evaluation.sufficient_statistics import FloatArray, Measurement

# Weights that are held at once, 32 MB of them; more would not be faster.
_WEIGHTS = 4_000_000
# Scores are between 0 and 100 and computed to about twelve digits.
_TOLERANCE = 1e-9
# A call of NumPy draws 32 truth values from each random word and drops what is left of the last.
_TRUTH_VALUES_PER_WORD = 32


@dataclass(frozen=True)
class Interval:
    """Mean score over resamples, and the bounds that hold 95% of them."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """A system against the baseline under one metric."""

    difference: float
    """Score of the system less that of the baseline."""
    p_value: float
    """How often a difference at least as large arises by chance; two-sided."""
    interval: Interval | None = None
    """Of the difference, over bootstrap resamples."""
    wins: float | None = None
    """Share of bootstrap resamples in which the system is strictly better (Koehn, 2004)."""


@dataclass(frozen=True)
class BootstrapResult:
    """One metric."""

    intervals: tuple[Interval, ...]
    """Of each system's own score, the baseline's first."""
    comparisons: tuple[Comparison, ...]
    """Of each system but the first with the first."""


def paired_bootstrap(
    measurements: Sequence[Measurement], *, resamples: int, seed: int
) -> list[BootstrapResult]:
    """Compare systems with the first one by paired bootstrap (Koehn, 2004).

    Every resample draws as many units as there are, with replacement, the same for all systems.
    The test statistic is the absolute difference, centred by its mean over resamples, as in
    sacreBLEU. Its p-values are too small; the intervals are sound.

    Args:
        measurements: metrics on the same units and systems.
        resamples: number of draws.
        seed: of the draws.

    Returns:
        A result for each measurement.
    """
    matrices = [rows for measurement in measurements for rows in measurement.systems]
    sums = iter(_weighted_sums(matrices, _resampled(len(matrices[0]), resamples, seed)))
    results = []
    for measurement in measurements:
        scores = [measurement.formula(next(sums)) for _ in measurement.systems]
        comparisons = []
        for number in range(1, len(scores)):
            differences = scores[number] - scores[0]
            sizes = np.abs(differences)
            comparisons.append(
                Comparison(
                    difference=_difference(measurement, number),
                    p_value=_p_value(
                        measurement,
                        number,
                        sizes - sizes.mean() > abs(_difference(measurement, number)),
                    ),
                    interval=_interval(differences),
                    wins=float((differences > 0).mean()),
                )
            )
        intervals = tuple(_interval(values) for values in scores)
        results.append(BootstrapResult(intervals, tuple(comparisons)))
    return results


def paired_randomization(
    measurements: Sequence[Measurement], *, trials: int, seed: int
) -> list[tuple[Comparison, ...]]:
    """Compare systems with the first one by paired approximate randomisation.

    In every trial a coin is tossed for each unit: heads, and both systems swap their translations.
    The test statistic is the absolute difference of the two mixtures. The p-value is the share of
    trials in which it is at least as large as observed, the observed assignment counted as one.

    Args:
        measurements: metrics on the same units and systems.
        trials: number of shufflings.
        seed: of the coins.

    Returns:
        For each measurement the comparisons of each system but the first with the first.
    """
    # What a mixture gains when it takes the baseline's translation of a unit.
    gains = [
        measurement.systems[0] - rows
        for measurement in measurements
        for rows in measurement.systems[1:]
    ]
    swapped = iter(_weighted_sums(gains, _coins(len(gains[0]), trials, seed)))
    results = []
    for measurement in measurements:
        baseline = measurement.systems[0].sum(axis=0)
        comparisons = []
        for number, rows in enumerate(measurement.systems[1:], start=1):
            moved = next(swapped)
            first = measurement.formula(rows.sum(axis=0) + moved)
            second = measurement.formula(baseline - moved)
            observed = abs(_difference(measurement, number))
            # The observed assignment itself, among others, gives the observed difference; rounding
            # must not make it look smaller.
            as_large = np.abs(first - second) >= observed - _TOLERANCE
            p_value = _p_value(measurement, number, as_large)
            comparisons.append(Comparison(_difference(measurement, number), p_value))
        results.append(tuple(comparisons))
    return results


def _weighted_sums(
    matrices: Sequence[FloatArray], weights: Iterator[FloatArray]
) -> list[FloatArray]:
    """Multiply weights (draws, units) with each matrix (units, statistics): (draws, statistics)."""
    side_by_side = np.concatenate(matrices, axis=1)
    sums = np.concatenate([chunk @ side_by_side for chunk in weights])
    ends = np.cumsum([matrix.shape[1] for matrix in matrices])
    return np.split(sums, ends[:-1], axis=1)


def _resampled(units: int, resamples: int, seed: int) -> Iterator[FloatArray]:
    """Yield chunks (draws, units): how often each unit was drawn."""
    random = np.random.default_rng(seed)
    rows = max(1, _WEIGHTS // units)
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        drawn = random.integers(units, size=(count, units))
        drawn += np.arange(count)[:, None] * units
        times = np.bincount(drawn.ravel(), minlength=count * units)
        yield times.reshape(count, units).astype(np.float64)


def _coins(units: int, trials: int, seed: int) -> Iterator[FloatArray]:
    """Yield chunks (trials, units) of zeros and ones."""
    random = np.random.default_rng(seed)
    words = max(1, _WEIGHTS // (units * _TRUTH_VALUES_PER_WORD))
    # Whole words, so that the size of a chunk does not change the draws.
    rows = words * _TRUTH_VALUES_PER_WORD
    for start in range(0, trials, rows):
        count = min(rows, trials - start)
        yield random.integers(2, size=(count, units), dtype=np.bool_).astype(np.float64)


def _difference(measurement: Measurement, number: int) -> float:
    return measurement.score(number) - measurement.score(0)


def _p_value(measurement: Measurement, number: int, beyond: npt.NDArray[np.bool_]) -> float:
    """Share of draws (draws,) that are as extreme as observed, the observation counted as one."""
    if np.array_equal(measurement.systems[0], measurement.systems[number]):
        # No resampled difference is above 0 then, and the rule below would give the smallest p.
        return 1.0
    return (int(beyond.sum()) + 1) / (len(beyond) + 1)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjust p-values of a family of tests by Holm's step-down method (1979), in their order.

    With the adjusted values, the probability of a single false finding in the whole family is at
    most the level. The smallest of n is multiplied by n, the next by n - 1, and so on; none may be
    smaller than the one before it, and none is above 1.
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for rank, number in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[number]))
        adjusted[number] = largest
    return tuple(adjusted)


def _interval(values: FloatArray) -> Interval:
    ordered = np.sort(values)
    outside = len(ordered) // 40
    return Interval(
        float(ordered.mean()), float(ordered[outside]), float(ordered[len(ordered) - outside - 1])
    )
