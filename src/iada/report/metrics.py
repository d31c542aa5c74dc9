"""How each metric is called, scaled and rounded."""

from collections.abc import Sequence
from dataclasses import dataclass

from iada.report.runs import Spread, spread


@dataclass(frozen=True)
class Metric:
    """A metric of `results.json` as tables and figures show it."""

    key: str
    label: str
    digits: int = 2
    scale: float = 1.0
    """Factor from the stored value to the shown one: 100 for shares."""
    lower_is_better: bool = False

    def shown(self, values: Sequence[float]) -> tuple[float, ...]:
        """Return the values in the unit of the label."""
        return tuple(self.scale * value for value in values)

    def spread(self, values: Sequence[float]) -> Spread | None:
        """Return mean and deviation in the unit of the label."""
        return spread(self.shown(values))


METRICS = {
    metric.key: metric
    for metric in (
        Metric("s_bleu", "s-BLEU"),
        Metric("d_bleu", "d-BLEU"),
        Metric("chrf", "chrF"),
        Metric("comet", "COMET"),
        Metric("pronouns_needing_context", "Pronouns (context needed) %", 1, 100.0),
        Metric("pronouns", "Pronouns (all) %", 1, 100.0),
        Metric("dev_nll", "dev NLL (best)", 3, lower_is_better=True),
    )
}
"""By key, in the order of the columns."""
