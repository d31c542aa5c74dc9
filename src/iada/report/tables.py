"""Tables of runs, and how any table becomes plain text or Markdown.

Every number is the mean over the seeds of a system with the sample standard deviation, or the
value itself for one seed. What was not measured shows a dash, never a zero. Pages and LaTeX render
the same tables.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iada.evaluation.metrics import METRICS, Metric, SeedMean, main_metrics, mean_over_seeds
from iada.report.runs import CHANCE, RunGroup, RunSummary, group_runs, settings

BETTER, WORSE = "∗", "†"
"""Marks behind a number that differs from what it is compared with."""
MISSING = "–"
_TIME_UNITS = ((3600.0, "h"), (60.0, "min"), (0.0, "s"))


@dataclass(frozen=True)
class Cell:
    """One cell: `value` to sort by (None where nothing was measured), `text` to show."""

    value: float | str | None
    text: str
    mark: str = ""
    """Signs behind the text that a note of the table explains."""


@dataclass(frozen=True)
class Column:
    """Heading of a column."""

    name: str
    numeric: bool = True
    """Align to the right."""
    group: str = ""
    """Heading over this column and its neighbours of the same group."""
    published: bool = False
    """Holds numbers of the paper, which look unlike ours."""

    @property
    def full_name(self) -> str:
        """The name where there is one line of headings only."""
        return f"{self.group}: {self.name}" if self.group else self.name


@dataclass(frozen=True)
class Table:
    """Cells under headings, and the lines below them without which they cannot be read."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


def results_table(runs: Sequence[RunSummary]) -> Table:
    """Compare the systems: one row each, in the order given."""
    systems = group_runs(runs)
    metrics = [m for m in main_metrics() if any(run.value(m.key) is not None for run in runs)]
    names = ("Seeds", *(metric.label for metric in metrics), "Training time")
    return Table(
        columns=(Column("System", numeric=False), *map(Column, names)),
        rows=tuple(_result_row(system, metrics) for system in systems),
        notes=_result_notes(runs, systems),
    )


def accuracy_table(runs: Sequence[RunSummary], part: str, keys: Sequence[str]) -> Table:
    """Show the accuracy of each system in each `key` of `part`, in percent."""
    rows = []
    for system in group_runs(runs):
        cells = (_percent([run.accuracy(part, key) for run in system.runs]) for key in keys)
        rows.append((Cell(system.name, system.name), *cells))
    headings = (Column(key) for key in keys)
    return Table((Column("System", numeric=False), *headings), tuple(rows))


def differences_table(runs: Sequence[RunSummary]) -> Table:
    """Show the settings in which the systems differ, one row each."""
    systems = group_runs(runs)
    configs = [settings(system.runs[0].config) for system in systems]
    keys = dict.fromkeys(key for config in configs for key in config)
    rows = []
    for key in keys:
        values = [config.get(key) for config in configs]
        if any(value != values[0] for value in values):
            rows.append((Cell(key, key), *(_setting(value) for value in values)))
    names = (Column(system.name, numeric=False) for system in systems)
    return Table((Column("Setting", numeric=False), *names), tuple(rows))


def significance_table(significance: Mapping[str, Mapping[str, Any]]) -> Table:
    """Show each system's difference from the baseline, its interval, and the p-values.

    The second one is corrected for the number of comparisons in the table.
    """
    rows = []
    compared = [one for found in significance.values() for one in found["systems"].values()]
    has_people = any("people_agree" in one for one in compared)
    for key, found in significance.items():
        for name, comparison in found["systems"].items():
            interval = comparison.get("interval")
            bounds = MISSING
            if interval is not None:
                bounds = f"{interval['low']:+.2f} to {interval['high']:+.2f}"
            rows.append(
                (
                    Cell(name, name),
                    Cell(key, METRICS[key].label),
                    Cell(comparison["difference"], f"{comparison['difference']:+.2f}"),
                    Cell(None, bounds),
                    number_cell(comparison["p_value"], 4),
                    number_cell(comparison.get("p_holm"), 4),
                    Cell(found["units"], str(found["units"])),
                    *([_people(comparison.get("people_agree"))] if has_people else []),
                )
            )
    names = ["Difference", "95% interval", "p", "p (Holm)", "Units"]
    columns = (Column("System", numeric=False), Column("Metric", numeric=False))
    notes = tuple(
        f"{METRICS[key].label}: {found['signature']}" for key, found in significance.items()
    )
    if has_people:
        names.append("People agree %")
        notes += (
            "People agree: share of pairs of systems with such a difference that people rank as "
            "the metric does (Kocmi et al., 2024); whether the difference is chance is another "
            "matter.",
        )
    return Table((*columns, *map(Column, names)), tuple(rows), notes)


def _people(share: float | None) -> Cell:
    return number_cell(None if share is None else 100 * share, 0)


def number_cell(value: float | None, digits: int) -> Cell:
    """Return a number, or the dash of what was not measured."""
    return Cell(value, MISSING if value is None else f"{value:.{digits}f}")


def to_text(table: Table) -> str:
    """Align the table for a terminal, with its notes below."""
    lines = [[column.full_name for column in table.columns]]
    lines += [[marked(cell) for cell in row] for row in table.rows]
    widths = [max(text_width(line[i]) for line in lines) for i in range(len(table.columns))]
    rule = "─" * (sum(widths) + 2 * (len(widths) - 1))
    rendered = [_aligned(line, widths, table.columns) for line in lines]
    return "\n".join([rendered[0], rule, *rendered[1:], "", *table.notes]).rstrip() + "\n"


def to_markdown(table: Table) -> str:
    """Write the table as GitHub-flavoured Markdown, with its notes below."""
    heads = [column.full_name for column in table.columns]
    rules = ["---:" if column.numeric else "---" for column in table.columns]
    rows = [[marked(cell) for cell in row] for row in table.rows]
    lines = [
        f"| {' | '.join(markdown_text(text) for text in row)} |" for row in (heads, rules, *rows)
    ]
    notes = [line for note in table.notes for line in ("", markdown_text(note))]
    return "\n".join([*lines, *notes]) + "\n"


def markdown_text(text: str) -> str:
    """Escape what Markdown would take for cells, emphasis or HTML."""
    escaped = text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("\n", " ")
    return escaped.replace("&", "&amp;").replace("<", "&lt;")


def mean_cell(found: SeedMean | None, runs: int, *, digits: int, unit: float = 1.0) -> Cell:
    """Return mean ± deviation; a mean over fewer than `runs` values says so."""
    if found is None:
        return Cell(None, MISSING)
    # A true minus, as in differences.
    text = f"{found.mean / unit:.{digits}f}".replace("-", "−")
    if found.deviation is not None:
        text += f" ± {found.deviation / unit:.{digits}f}"
    if found.count < runs:
        text += f" (n = {found.count})"
    return Cell(found.mean, text)


def marked(cell: Cell) -> str:
    """Return the text of a cell with its marks."""
    return f"{cell.text} {cell.mark}" if cell.mark else cell.text


def text_width(text: str) -> int:
    """Count the columns that the text takes in a terminal."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def _result_row(system: RunGroup, metrics: Sequence[Metric]) -> tuple[Cell, ...]:
    runs = system.runs
    return (
        Cell(system.name, system.name),
        Cell(len(runs), str(len(runs))),
        *(_metric_cell(runs, metric) for metric in metrics),
        _duration(mean_over_seeds([run.seconds for run in runs]), len(runs)),
    )


def _metric_cell(runs: Sequence[RunSummary], metric: Metric) -> Cell:
    stored = [run.value(metric.key) for run in runs]
    shown = [None if value is None else metric.scale * value for value in stored]
    return mean_cell(mean_over_seeds(shown), len(runs), digits=metric.digits)


def _result_notes(runs: Sequence[RunSummary], systems: Sequence[RunGroup]) -> tuple[str, ...]:
    notes = [_signatures(runs)]
    items = {run.scores.get("contrastive", {}).get("context", {}).get("total") for run in runs}
    counts = sorted(item for item in items if item)
    number = f"the {counts[0]} items" if len(counts) == 1 else "the items"
    if any(run.scores.get("contrastive") for run in runs):
        notes.append(
            f"Pronouns: one of er, sie and es, so chance is {CHANCE:.1%}; “context needed” counts "
            f"{number} whose antecedent is 1 to 3 sentences back."
        )
    if any(len(system.runs) > 1 for system in systems):
        notes.append("± is the sample standard deviation over seeds.")
    return tuple(notes)


def _signatures(runs: Sequence[RunSummary]) -> str:
    found: dict[str, list[str]] = {}
    for label, kind in ((METRICS[key].label, key) for key in ("s_bleu", "d_bleu")):
        for run in runs:
            signature = run.scores.get(kind, {}).get("signature")
            if signature and label not in found.setdefault(signature, []):
                found[signature].append(label)
    if not found:
        return "BLEU was not measured."
    text = "; ".join(f"{' and '.join(labels)} {name}" for name, labels in found.items())
    labels = [label for group in found.values() for label in group]
    differ = len(labels) > len(set(labels))
    warning = " These differ between runs, so the BLEU scores do not compare." if differ else ""
    return f"Signature: {text}.{warning}"


def _percent(values: Sequence[float | None]) -> Cell:
    shown = [None if value is None else 100 * value for value in values]
    return mean_cell(mean_over_seeds(shown), len(values), digits=1)


def _duration(found: SeedMean | None, runs: int) -> Cell:
    if found is None:
        return Cell(None, MISSING)
    unit, name = next((unit, name) for unit, name in _TIME_UNITS if found.mean >= unit)
    cell = mean_cell(found, runs, digits=1, unit=unit or 1.0)
    return Cell(cell.value, f"{cell.text} {name}")


def _setting(value: Any) -> Cell:
    if value is None:
        return Cell(None, MISSING)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return Cell(value if isinstance(value, int | float) else text, text)


def _aligned(line: Sequence[str], widths: Sequence[int], columns: Sequence[Column]) -> str:
    cells = []
    for text, width, column in zip(line, widths, columns, strict=True):
        gap = " " * (width - text_width(text))
        cells.append(gap + text if column.numeric else text + gap)
    return "  ".join(cells).rstrip()
