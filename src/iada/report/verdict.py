"""Is a row better than another, and does importance beat the uniform control?

Runs of the same seed are compared with each other, so what a seed does to both cancels out. The
interval is Student's over seeds. It says nothing about other test sets: for these, see the tests of
significance in the tables.

The uniform control has the same two views and the same three losses, but every token is replaced
with the same probability. What a system gains over it is due to importance; what the control gains
over Doc2Doc is due to the objective. The answer is computed from the rows, whatever it is.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from iada.evaluation.metrics import METRICS, Metric, mean_over_seeds
from iada.experiments.results import Results, Row
from iada.report.paper import complete, row_of_method
from iada.report.tables import BETTER, MISSING, WORSE, Cell, Column, Table

Outcome = Literal["better", "worse", "open", "few seeds"]
# Two differences that agree by chance have an interval without width.
_FEWEST_SEEDS = 3
# 97.5% quantiles of Student's t with 1, 2, ... degrees of freedom.
_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


@dataclass(frozen=True)
class Difference:
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
        """95% interval of the mean difference; None below three seeds."""
        if self.deviation is None or self.seeds < _FEWEST_SEEDS:
            return None
        # Beyond the table, its last entry is a little too wide, never too narrow.
        quantile = _QUANTILES[min(self.seeds - 1, len(_QUANTILES)) - 1]
        reach = quantile * self.deviation / math.sqrt(self.seeds)
        return self.mean - reach, self.mean + reach

    @property
    def outcome(self) -> Outcome:
        """Better or worse if the interval leaves out zero, otherwise open."""
        if self.interval is None:
            return "few seeds"
        low, high = self.interval
        if low <= 0 <= high:
            return "open"
        return "better" if (low > 0) != self.metric.lower_is_better else "worse"

    @property
    def short_text(self) -> str:
        """The difference with its deviation."""
        digits = self.metric.digits
        text = signed(self.mean, digits)
        return text if self.deviation is None else f"{text} ± {self.deviation:.{digits}f}"

    @property
    def text(self) -> str:
        """The difference with its deviation and interval."""
        if self.interval is None:
            return self.short_text
        low, high = (signed(bound, self.metric.digits) for bound in self.interval)
        return f"{self.short_text} ({low} to {high})"


def row_difference(row: Row, other: Row, metric: Metric) -> Difference | None:
    """Compare two rows of the same results; None if one of them lacks the metric."""
    if metric.key not in row.metrics or metric.key not in other.metrics:
        return None
    return difference(row.metrics[metric.key], other.metrics[metric.key], metric)


def difference(
    values: Sequence[float], others: Sequence[float], metric: Metric
) -> Difference | None:
    """Compare values seed by seed; None without seeds.

    Args:
        values: one per seed, as stored.
        others: those of the other row, in the same order of seeds.
        metric: how they are shown.
    """
    differences = metric.shown([a - b for a, b in zip(values, others, strict=True)])
    found = mean_over_seeds(differences)
    if found is None:
        return None
    higher = sum(value > 0 for value in differences)
    return Difference(metric, found.mean, found.deviation, found.count, higher)


def signed(value: float, digits: int) -> str:
    """Write a number with its sign and a true minus; what rounds to zero has none."""
    text = f"{value:+.{digits}f}"
    if float(text) == 0:
        return text[1:]
    return text.replace("-", "−")


DECIDING = ("s_bleu", "d_bleu", "pronouns_needing_context", "dev_nll")
"""Metrics that the answer names."""
_CONTROLS = {
    f"iada_{how}_{measure}": f"uniform_{how}_all_losses"
    for how in ("replace", "drop")
    for measure in ("gnorm", "tnorm")
}
_MARKS: dict[Outcome, str] = {"better": BETTER, "worse": WORSE, "open": "", "few seeds": ""}


@dataclass(frozen=True)
class RowComparison:
    """A row against another, in every deciding metric that both have."""

    question: str
    row: Row
    other: Row
    differences: tuple[Difference, ...]


def compare_rows(results: Results) -> list[RowComparison]:
    """Compare what the controls can tell apart: the objective and importance."""
    found = []
    pairs: list[tuple[str, str, str]] = []
    for control in dict.fromkeys(_CONTROLS.values()):
        pairs.append(("Two-view objective", control, "doc2doc"))
    for method, control in _CONTROLS.items():
        pairs.append(("Importance", method, control))
        random = method.replace("gnorm", "random").replace("tnorm", "random")
        pairs.append(("Importance instead of chance", method, random))
    for question, method, other_method in pairs:
        row, other = row_of_method(results, method), row_of_method(results, other_method)
        if row is not None and other is not None:
            found.append(_compare(question, row, other))
    # Another tilt is another amount of noise, unless the budget is matched.
    compared = {item.row.key for item in found if item.question == "Importance"}
    return found + [
        _compare("Importance", row, control)
        for row, control in _controlled(results)
        if row.key not in compared
        and ("augment.alpha" not in row.settings or row.settings.get("augment.budget") == "matched")
    ]


@dataclass(frozen=True)
class Answer:
    """Whether a system beats its uniform control."""

    headline: str
    numbers: str
    """The differences that the headline rests on."""


def importance_answers(results: Results) -> list[Answer]:
    """Say for each importance-aware system whether it beats its uniform control."""
    return [
        _answer(comparison, results)
        for comparison in compare_rows(results)
        if comparison.question == "Importance" and comparison.differences
    ]


def comparison_table(results: Results) -> Table | None:
    """Show the differences with deviation and interval; None if nothing can be compared."""
    found = compare_rows(results)
    rows = [
        _cells(one, item.question, f"{item.row.label} − {item.other.label}", one.metric.label)
        for item in found
        for one in item.differences
    ]
    if not rows:
        return None
    names = ("What is added", "Difference of", "Metric")
    numbers = ("Difference", "95% interval", "Higher in")
    columns = (*(Column(name, numeric=False) for name in names), *map(Column, numbers))
    notes = ["Runs of the same seed are compared."]
    if len(results.seeds) > 1:
        notes.append(
            "Mean difference ± sample standard deviation over seeds; the interval is Student's, of "
            f"the mean. {BETTER} better, {WORSE} worse: the interval leaves out zero."
        )
    return Table(columns, tuple(rows), tuple(notes))


def sweep_series(results: Results) -> dict[str, dict[float, Row]]:
    """Gather the rows of each series by their place on the axis, ascending.

    A series without a row at 0 shares that of the first one: without a tilt they are the same.
    """
    series: dict[str, dict[float, Row]] = {}
    for row in results.rows:
        if row.value is not None:
            series.setdefault(row.series or "IADA", {})[row.value] = row
    shared = next((rows[0.0] for rows in series.values() if 0.0 in rows), None)
    for rows in series.values():
        if shared is not None:
            rows.setdefault(0.0, shared)
    return {name: dict(sorted(rows.items())) for name, rows in series.items()}


def sweep_answers(results: Results, key: str) -> list[str]:
    """Compare the best α of each series with α = 0, which is uniform replacement."""
    series = sweep_series(results)
    answers = []
    for name, rows in series.items():
        measured = {value: row for value, row in rows.items() if key in row.metrics}
        uniform = measured.pop(0.0, None)
        if uniform is not None and measured:
            title = f"Sweep of α ({name})" if len(series) > 1 else "Sweep of α"
            answers.append(_sweep_answer(title, measured, uniform, METRICS[key]))
    return answers


def _sweep_answer(title: str, rows: Mapping[float, Row], uniform: Row, metric: Metric) -> str:
    sign = -1.0 if metric.lower_is_better else 1.0
    alpha, best = max(rows.items(), key=lambda pair: sign * sum(pair[1].metrics[metric.key]))
    found = row_difference(best, uniform, metric)
    assert found is not None
    if sign * found.mean <= 0:
        return (
            f"{title}: in {metric.label} no value above 0 does better than α = 0, which is "
            f"uniform replacement. The nearest is α = {alpha:g}, {found.text} from it"
            f"{_judged(found)}."
        )
    return (
        f"{title}: {metric.label} is best at α = {alpha:g}, {found.text} from α = 0, "
        f"which is uniform replacement{_judged(found)}. It is the best of {len(rows)} values, "
        "which flatters it."
    )


def _judged(found: Difference) -> str:
    words: dict[Outcome, str] = {
        "better": ": better",
        "worse": ": worse",
        "open": ": no more than chance",
        "few seeds": ": too few seeds, so it may be chance",
    }
    return words[found.outcome]


def _compare(question: str, row: Row, other: Row) -> RowComparison:
    found = (row_difference(row, other, METRICS[key]) for key in DECIDING)
    return RowComparison(question, row, other, tuple(item for item in found if item is not None))


def _cells(found: Difference, *names: str) -> tuple[Cell, ...]:
    """Return a row: what is compared, the difference, its interval, and in how many seeds."""
    digits = found.metric.digits
    interval = Cell(None, MISSING)
    if found.interval is not None:
        low, high = found.interval
        interval = Cell(low, f"{signed(low, digits)} to {signed(high, digits)}")
    mark = _MARKS[found.outcome]
    difference = Cell(found.mean, found.short_text, mark)
    higher = Cell(found.higher, f"{found.higher} of {found.seeds} seeds")
    return (*(Cell(name, name) for name in names), difference, interval, higher)


def _answer(item: RowComparison, results: Results) -> Answer:
    by_outcome: dict[Outcome, list[Difference]] = {}
    for found in item.differences:
        by_outcome.setdefault(found.outcome, []).append(found)
    pair = f"{item.row.label} against {item.other.label} on {results.data}"
    numbers = "; ".join(f"{found.metric.label} {found.text}" for found in item.differences)
    count = len(results.seeds)
    seeds = "1 seed" if count == 1 else f"{count} seeds, with standard deviation"
    if count >= _FEWEST_SEEDS:
        seeds += " and 95% interval"
    return Answer(f"{_headline(by_outcome)} ({pair}.)", f"{pair}, {seeds}: {numbers}.")


def _headline(by_outcome: dict[Outcome, list[Difference]]) -> str:
    better, worse = _names(by_outcome.get("better", ())), _names(by_outcome.get("worse", ()))
    if "few seeds" in by_outcome:
        return "Fewer than three seeds cannot tell whether importance beats the uniform control."
    if better and worse:
        return f"Mixed: importance beats the uniform control in {better}, and loses in {worse}."
    if worse:
        return f"No: importance is worse than the uniform control in {worse}."
    if better and "open" in by_outcome:
        rest = _names(by_outcome["open"])
        return f"In part: importance beats the uniform control in {better}; not clearly in {rest}."
    if better:
        return f"Yes: importance beats the uniform control in {better}."
    return "No: importance cannot be told from the uniform control in any metric."


def _names(found: Sequence[Difference]) -> str:
    names = [item.metric.label for item in found]
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


# Augmentation keys that change nothing where every token has the same score.
_TILT = (
    "measure",
    "alpha",
    "alpha_updates",
    "normalize",
    "context_direction",
    "current_direction",
    "budget",
    "importance_pass",
    "lagged_start",
    "lagged_decay",
    "tnorm_at",
    "gnorm_smoothing",
    "statistics_specials",
)
# Measures that stand for no importance at all; every other one is asked whether it helps.
_CONTROLS_OF_IMPORTANCE = ("uniform", "random")
HELP_METRIC = "s_bleu"
"""Metric whose differences decide whether importance helps."""


@dataclass(frozen=True)
class ImportanceGain:
    """An importance-aware system against the uniform control with the same settings otherwise."""

    corpus: str
    system: str
    control: str
    differences: Mapping[str, Difference]
    """By metric."""

    @property
    def name(self) -> str:
        """System and corpus."""
        return f"{self.system} on {self.corpus}"


def importance_gains(found: Sequence[tuple[str, Results]]) -> list[ImportanceGain]:
    """Compare every importance-aware row with the uniform control beside it, if there is one.

    Args:
        found: names of corpora and experiments on them. Of a system that several experiments have,
            the comparison with the most seeds is kept.
    """
    gains: dict[tuple[str, tuple[tuple[str, object], ...]], ImportanceGain] = {}
    for corpus, results in sorted(found, key=lambda pair: -len(pair[1].seeds)):
        for row, control in _controlled(results):
            key = (corpus, tuple(sorted(_comparable(row).items())))
            if key in gains:
                continue
            pairs = ((name, row_difference(row, control, METRICS[name])) for name in DECIDING)
            differences = {name: one for name, one in pairs if one is not None}
            system = row.label
            if row.series and results.axis is not None and row.series not in row.label:
                # What both say, such as the budget, is said once.
                words = f"{row.series}, {row.label}".split(", ")
                system = ", ".join(dict.fromkeys(words))
            gains[key] = ImportanceGain(corpus, system, control.label, differences)
    order = list(dict.fromkeys(corpus for corpus, _ in found))
    return sorted(gains.values(), key=lambda gain: order.index(gain.corpus))


def importance_sentence(gains: Sequence[ImportanceGain]) -> str:
    """Say whether importance helps, by rule: what the intervals over seeds leave out."""
    metric = METRICS[HELP_METRIC]
    judged = {
        gain.name: gain.differences[HELP_METRIC]
        for gain in gains
        if HELP_METRIC in gain.differences and gain.differences[HELP_METRIC].interval is not None
    }
    if not judged:
        return (
            "Whether importance helps is not known: no importance-aware system was trained beside "
            "its uniform control with three seeds or more. Run `controls` with several seeds."
        )
    named: dict[Outcome, list[str]] = {"better": [], "worse": []}
    for name, one in judged.items():
        if one.outcome in named:
            named[one.outcome].append(f"{name} ({signed(one.mean, metric.digits)})")
    better, worse = (", ".join(named[outcome]) for outcome in ("better", "worse"))
    number = len(judged)
    scope = f"{number} comparison{'s' * (number > 1)} with the uniform control in {metric.label}"
    chance = f" By chance alone about {0.05 * number:.1f} of {number} intervals leave out zero."
    chance = chance if number > 1 else ""
    if better and worse:
        return f"Mixed: in {scope}, importance is better for {better}, worse for {worse}.{chance}"
    if better:
        rest = "" if len(named["better"]) == number else "; the others cannot be told from chance"
        return f"Importance helps in {len(named['better'])} of {scope}: {better}{rest}.{chance}"
    if worse:
        return f"Importance does not help: in {scope}, it is worse for {worse}.{chance}"
    positive = sum(one.mean > 0 for one in judged.values())
    if number == 1:
        ((name, one),) = judged.items()
        return (
            f"No evidence that importance helps: the only comparison with the uniform control, "
            f"{name}, cannot be told from chance ({metric.label} {one.text})."
        )
    return (
        f"No evidence that importance helps: in none of {scope} does the 95% interval over seeds "
        f"leave out zero. {positive} of {number} differences are positive."
    )


def gain_table(gains: Sequence[ImportanceGain]) -> Table:
    """Show the numbers of the forest plot."""
    words = ("Corpus", "System", "Uniform control", "Metric")
    numbers = ("Difference", "95% interval", "Higher in")
    rows = tuple(
        _cells(one, gain.corpus, gain.system, gain.control, one.metric.label)
        for gain in gains
        for one in gain.differences.values()
    )
    columns = (*(Column(name, numeric=False) for name in words), *map(Column, numbers))
    return Table(columns, rows)


def _controlled(results: Results) -> list[tuple[Row, Row]]:
    """Return every importance-aware row with the uniform control beside it, if there is one."""
    controls = {_untilted(row): row for row in results.rows if _is_uniform(row)}
    found = ((row, controls.get(_untilted(row))) for row in results.rows if _is_tilted(row))
    return [(row, control) for row, control in found if control is not None]


def _is_tilted(row: Row) -> bool:
    """Whether a row perturbs by importance, as opposed to chance or nothing."""
    measure = complete(row.settings).get("augment.measure", "uniform")
    return measure not in _CONTROLS_OF_IMPORTANCE and not _is_uniform(row)


def _is_uniform(row: Row) -> bool:
    """Whether all tokens are perturbed alike: the uniform measure, or z-scores times zero."""
    settings = complete(row.settings)
    flat = settings.get("augment.alpha") == 0 and settings.get("augment.normalize") == "standard"
    return settings.get("augment.measure") == "uniform" or flat


def _untilted(row: Row) -> tuple[tuple[str, object], ...]:
    """Return the settings of a row but for those that concern importance."""
    tilt = {f"augment.{key}" for key in _TILT}
    return tuple(sorted((k, v) for k, v in _comparable(row).items() if k not in tilt))


def _comparable(row: Row) -> dict[str, object]:
    """Return what a row is, whatever its method is called; values as text, to compare lists."""
    settings = complete(row.settings)
    return {key: str(value) for key, value in settings.items() if key != "method"}
