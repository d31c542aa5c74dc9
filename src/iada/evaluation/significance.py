"""Is one system better than another, or is it chance? Counts of units, and paired tests on them.

A unit is a sentence or a document, a row of counts: its sufficient statistics. Rows are added up,
over whole corpora, parts of them or resamples alike, and a formula turns sums into scores.
sacreBLEU counts; the formulas are those of sacreBLEU, for many sums at once, and tests compare them
with its command line. Both tests draw weights for units and multiply them with the statistics of
all systems and metrics at once.

*Approximate randomisation* is the default: under the null hypothesis that both systems are alike,
its p-value is below 0.05 in 5% of all cases, whatever the metric. *Koehn's bootstrap* (2004) is
the test of the paper, kept as sacreBLEU computes it; it takes the size of the difference before
centring it and calls about twice as many equal systems different. With the same seed the draws are
those of sacreBLEU, and so are the p-values, with two exceptions: a system that does not differ from
the baseline in any unit has p = 1 here, and randomisation counts chance differences that equal the
observed one, as an exact test does.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from iada.config.evaluate import EvaluateConfig
from iada.errors import ConfigError

FloatArray = npt.NDArray[np.float64]
Formula = Callable[[FloatArray], FloatArray]
"""(rows, statistics) sums to (rows,) scores."""

_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
_ORDERS = 4
_BETA_SQUARED = 4


@dataclass(frozen=True)
class Measurement:
    """One metric on the same units of one system or more."""

    signature: str
    formula: Formula
    systems: tuple[FloatArray, ...]
    """For each system (units, statistics)."""

    def score(self, number: int, units: npt.NDArray[np.bool_] | None = None) -> float:
        """Return the score of a system, on all units or those of a mask (units,)."""
        rows = self.systems[number]
        chosen = rows if units is None else rows[units]
        return float(self.formula(chosen.sum(axis=0, keepdims=True))[0])


def measure_bleu(
    systems: Sequence[Sequence[str]],
    references: Sequence[str],
    config: EvaluateConfig,
    *,
    language: str | None = None,
) -> Measurement:
    """Count n-grams for BLEU: up to 4-grams, exponential smoothing, one reference.

    Args:
        systems: the texts of each system, one per unit.
        references: one text per unit.
        config: case and tokeniser.
        language: code of the target language, which may decide the tokeniser.
    """
    tokenizer = tokenizer_for(language, config)
    try:
        metric = BLEU(
            lowercase=config.lowercase,
            tokenize=tokenizer,
            smooth_method="exp",
            # Otherwise sacreBLEU warns of tokenised text that was said to be tokenised.
            force=config.tokenized,
            references=[references],
        )
    except (RuntimeError, ImportError):
        if not tokenizer.endswith("-mecab"):
            raise
        raise ConfigError(
            f"The tokeniser {tokenizer} is not installed. Install it with `pip install "
            f"'sacrebleu[{tokenizer.removesuffix('-mecab')}]'`, or choose another one with "
            "`--tokenizer`, for example char; scores of different tokenisers do not compare."
        ) from None
    counts = tuple(_counts(metric, texts) for texts in systems)
    return Measurement(str(metric.get_signature()), bleu_scores, counts)


def measure_chrf(
    systems: Sequence[Sequence[str]], references: Sequence[str], config: EvaluateConfig
) -> Measurement:
    """Count character n-grams for chrF2 (order 6, no words); arguments as in `measure_bleu`."""
    metric = CHRF(lowercase=config.lowercase, references=[references])
    counts = tuple(_counts(metric, texts) for texts in systems)
    return Measurement(str(metric.get_signature()), chrf_scores, counts)


def measure_mean(systems: Sequence[Sequence[Sequence[float]]], signature: str) -> Measurement:
    """Take values whose mean, times 100, is the score.

    Args:
        systems: for each system and unit its values, one or more.
        signature: how the values were made.
    """
    counts = tuple(
        np.array([[sum(values), len(values)] for values in units], dtype=np.float64)
        for units in systems
    )
    return Measurement(signature, mean_scores, counts)


def tokenizer_for(language: str | None, config: EvaluateConfig) -> str:
    """Return sacreBLEU's name of the tokeniser for a language code such as `de` or `zh-CN`."""
    if config.tokenized:
        return "none"
    if config.tokenizer != "auto":
        return config.tokenizer
    code = (language or "").lower().replace("_", "-").split("-")[0]
    return _TOKENIZERS.get(code, "13a")


def bleu_scores(sums: FloatArray) -> FloatArray:
    """BLEU of summed counts.

    Args:
        sums: (rows, 10): hypothesis and reference length, matches of each order, hypothesis
            n-grams of each order.

    Returns:
        (rows,), 0 to 100.
    """
    hypothesis, reference = sums[:, 0], sums[:, 1]
    matches, total = sums[:, 2 : 2 + _ORDERS], sums[:, 2 + _ORDERS :]
    no_match = matches == 0
    # Each order without a match halves the count that stands in for its matches once more.
    smoothed = np.where(no_match, 0.5 ** np.cumsum(no_match, axis=1), matches)
    defined = (total > 0).all(axis=1) & ~no_match.all(axis=1)
    precision = np.where(defined[:, None], smoothed / np.maximum(total, 1), 1.0)
    shortness = np.minimum(1 - reference / np.maximum(hypothesis, 1), 0)
    scores = 100 * np.exp(np.log(precision).mean(axis=1) + shortness)
    return np.where(defined, scores, 0.0)


def chrf_scores(sums: FloatArray) -> FloatArray:
    """chrF2 of summed counts.

    Args:
        sums: (rows, 18): hypothesis n-grams, reference n-grams and matches of each order.

    Returns:
        (rows,), 0 to 100.
    """
    hypothesis, reference, matches = (sums[:, start::3] for start in range(3))
    # Orders that one side lacks, in a very short text, are left out of the means.
    counted = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(counted.sum(axis=1), 1)
    precision = np.where(counted, matches / np.maximum(hypothesis, 1), 0).sum(axis=1) / orders
    recall = np.where(counted, matches / np.maximum(reference, 1), 0).sum(axis=1) / orders
    weighted = _BETA_SQUARED * precision + recall
    scores = 100 * (1 + _BETA_SQUARED) * precision * recall / np.where(weighted > 0, weighted, 1)
    return np.asarray(scores)


def mean_scores(sums: FloatArray) -> FloatArray:
    """Mean times 100 of (rows, 2) sums: of the values, and of how many there are."""
    return np.asarray(100 * sums[:, 0] / np.maximum(sums[:, 1], 1))


def _counts(metric: BLEU | CHRF, texts: Sequence[str]) -> FloatArray:
    # sacreBLEU offers no public way to the counts of each unit that works for chrF too.
    return np.array(metric._extract_corpus_statistics(texts, None), dtype=np.float64)


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
