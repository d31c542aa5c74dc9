"""Is a row better than another? Differences seed by seed, with their spread.

Runs of the same seed are compared with each other, so what a seed does to both drops out. The
interval is Student's over seeds. It tells nothing about other test sets: for these, see the tests
of significance in the tables.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from iada.analysis.results import Row
from iada.report.metrics import Metric
from iada.report.runs import spread

Outcome = Literal["better", "worse", "open", "one seed"]
# 97.5% quantiles of Student's t with 1, 2, ... degrees of freedom.
_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


@dataclass(frozen=True)
class Contrast:
    """How much higher a row is than another in one metric, in the metric's shown unit."""

    metric: Metric
    mean: float
    deviation: float | None
    """Sample standard deviation of the difference over seeds; None for one seed."""
    seeds: int
    higher: int
    """Seeds in which the row is higher."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """95% interval of the mean difference; None for one seed."""
        if self.deviation is None:
            return None
        # Beyond the table, its last entry is a little too wide, never too narrow.
        quantile = _QUANTILES[min(self.seeds - 1, len(_QUANTILES)) - 1]
        reach = quantile * self.deviation / math.sqrt(self.seeds)
        return self.mean - reach, self.mean + reach

    @property
    def outcome(self) -> Outcome:
        """Better or worse if the interval leaves out zero, otherwise open."""
        if self.interval is None:
            return "one seed"
        low, high = self.interval
        if low <= 0 <= high:
            return "open"
        return "better" if (low > 0) != self.metric.lower_is_better else "worse"

    @property
    def short_text(self) -> str:
        """The difference with its spread."""
        digits = self.metric.digits
        text = signed(self.mean, digits)
        return text if self.deviation is None else f"{text} ± {self.deviation:.{digits}f}"

    @property
    def text(self) -> str:
        """The difference with its spread and interval."""
        if self.interval is None:
            return self.short_text
        low, high = (signed(bound, self.metric.digits) for bound in self.interval)
        return f"{self.short_text} ({low} to {high})"


def contrast(row: Row, other: Row, metric: Metric) -> Contrast | None:
    """Compare two rows of the same results; None if one of them lacks the metric."""
    if metric.key not in row.metrics or metric.key not in other.metrics:
        return None
    return difference(row.metrics[metric.key], other.metrics[metric.key], metric)


def difference(values: Sequence[float], others: Sequence[float], metric: Metric) -> Contrast | None:
    """Compare values seed by seed; None without seeds.

    Args:
        values: one per seed, as stored.
        others: those of the other row, in the same order of seeds.
        metric: how they are shown.
    """
    differences = metric.shown([a - b for a, b in zip(values, others, strict=True)])
    found = spread(differences)
    if found is None:
        return None
    higher = sum(value > 0 for value in differences)
    return Contrast(metric, found.mean, found.deviation, found.count, higher)


def signed(value: float, digits: int) -> str:
    """Write a number with its sign and a true minus; what rounds to zero has none."""
    text = f"{value:+.{digits}f}"
    if float(text) == 0:
        return text[1:]
    return text.replace("-", "−")
