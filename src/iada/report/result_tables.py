"""Tables of an experiment: ours with spread, seeds and marks, the paper's in columns of its own."""

from collections.abc import Iterable, Sequence

from iada.experiments.results import Results, Row
from iada.report.paper import PaperRow, PaperTable
from iada.report.runs import spread
from iada.report.tables import METRICS, MISSING, Cell, Column, Metric, Table, spread_cell

LEVEL = 0.05
"""Largest p-value that earns a mark."""
BETTER, WORSE = "∗", "†"
DEVIATION = "± is the sample standard deviation over seeds."


def result_table(results: Results, paper: PaperTable | None = None) -> Table:
    """Show every metric that was measured, one row per system, and the paper's numbers."""
    metrics = [m for m in METRICS.values() if any(m.key in row.metrics for row in results.rows)]
    rows = []
    for row in results.rows:
        found = None if paper is None else paper.row(row.settings)
        ours = (_metric_cell(results, row, metric) for metric in metrics)
        rows.append((*name_cells(results, row), *ours, *paper_cells(paper, found)))
    ours_columns = (Column(metric.label) for metric in metrics)
    return Table(
        columns=(*name_columns(), *ours_columns, *paper_columns(paper)),
        rows=tuple(rows),
        notes=(*_mark_notes(results), *base_notes(results), *paper_notes(paper)),
    )


def group_table(
    results: Results,
    kind: str,
    keys: Sequence[str],
    paper: PaperTable | None = None,
    *,
    group: str,
    first: Sequence[Metric] = (),
) -> Table:
    """Show accuracies of a breakdown in percent, after some whole metrics.

    Args:
        results: the experiment.
        kind: of breakdown.
        keys: its groups, one column each.
        paper: the published table.
        group: heading over the columns of `keys`.
        first: metrics before them.
    """
    rows = []
    for row in results.rows:
        groups = row.breakdown.get(kind, {})
        whole = (_metric_cell(results, row, metric) for metric in first)
        parts = (percent_cell(groups.get(key, ())) for key in keys)
        found = None if paper is None else paper.row(row.settings)
        rows.append((*name_cells(results, row), *whole, *parts, *paper_cells(paper, found)))
    heads = [Column(metric.label) for metric in first]
    heads += [Column(key, group=group) for key in keys]
    return Table(
        columns=(*name_columns(), *heads, *paper_columns(paper)),
        rows=tuple(rows),
        notes=(*base_notes(results), *paper_notes(paper)),
    )


def unmatched_table(results: Results, paper: PaperTable) -> Table | None:
    """Show the rows of the paper's table that no row of ours repeats; None if there are none."""
    seen = [paper.row(row.settings) for row in results.rows]
    rest = [row for row in paper.rows if row not in seen]
    if not rest:
        return None
    rows = tuple((Cell(row.label, row.label), *paper_cells(paper, row)) for row in rest)
    columns = (Column("System", numeric=False), *paper_columns(paper))
    return Table(columns, rows, (f"{paper.setting}.",))


def name_columns() -> tuple[Column, ...]:
    """Return the headings that every table of results begins with."""
    return Column("System", numeric=False), Column("Seeds")


def name_cells(results: Results, row: Row) -> tuple[Cell, ...]:
    """Return label and number of seeds."""
    seeds = len(results.seeds)
    return Cell(row.label, row.label), Cell(seeds, str(seeds))


def percent_cell(shares: Sequence[float]) -> Cell:
    """Return a share, given per seed, in percent."""
    return spread_cell(spread([100 * share for share in shares]), len(shares), digits=1)


def paper_columns(paper: PaperTable | None) -> tuple[Column, ...]:
    """Return the headings of the paper's numbers, grouped under its corpus."""
    if paper is None:
        return ()
    return tuple(published_column(name, paper) for name in paper.columns.values())


def published_column(name: str, paper: PaperTable) -> Column:
    """Return a heading of the paper's numbers."""
    return Column(name, group=f"Paper, {paper.corpus}", published=True)


def paper_cells(paper: PaperTable | None, row: PaperRow | None) -> tuple[Cell, ...]:
    """Return the numbers of one published row as printed there."""
    if paper is None:
        return ()
    values = {} if row is None else row.values
    return tuple(published(values.get(key), paper) for key in paper.columns)


def published(value: float | None, paper: PaperTable) -> Cell:
    """Write a number with the decimals that the paper gives it."""
    if value is None:
        return Cell(None, MISSING)
    # Only the two figures of differences have two decimals.
    digits = 2 if paper.name in ("Figure 3", "Figure 4") else 1
    return Cell(value, f"{value:.{digits}f}")


def paper_notes(paper: PaperTable | None) -> tuple[str, ...]:
    """Say what the columns of the paper are."""
    if paper is None:
        return ()
    return (f"Columns “Paper”: {paper.setting}; published numbers, not measured here.",)


def base_notes(results: Results) -> tuple[str, ...]:
    """Say on what data and with what model ours were measured."""
    base = {key: value for key, value in results.base.items() if value is not None}
    signatures = base.pop("signatures", {})
    parts = [f"data {results.data}", f"seeds {', '.join(map(str, results.seeds))}"]
    for key, value in base.items():
        text = f"{value:,}" if isinstance(value, int) else str(value)
        parts.append(f"{key.replace('_', ' ')} {text}")
    notes = [f"Ours: {'; '.join(parts)}."]
    if signatures:
        named = _by_signature((_label(key), found) for key, found in signatures.items())
        notes.append(f"Signatures: {named}.")
    if len(results.seeds) > 1:
        notes.append(DEVIATION)
    if results.missing:
        notes.append(f"Left out, because a run failed: {', '.join(results.missing)}.")
    return tuple(notes)


def _label(key: str) -> str:
    if key == "contrastive":  # One signature for all accuracies.
        return "pronouns"
    return METRICS[key].label if key in METRICS else key


def _by_signature(found: Iterable[tuple[str, str]]) -> str:
    """Name each signature once, after the metrics that have it, given as pairs of both."""
    metrics: dict[str, list[str]] = {}
    for name, signature in dict.fromkeys(found):
        metrics.setdefault(signature, []).append(name)
    return "; ".join(f"{', '.join(names)}: {signature}" for signature, names in metrics.items())


def _metric_cell(results: Results, row: Row, metric: Metric) -> Cell:
    values = row.metrics.get(metric.key, ())
    cell = spread_cell(metric.spread(values), len(values), digits=metric.digits)
    return Cell(cell.value, cell.text, significance_mark(results, row, metric))


def significance_mark(results: Results, row: Row, metric: Metric) -> str:
    """Return the marks of a row: better, worse, and in how many seeds if not in all."""
    test = row.significance.get(metric.key)
    others = {other.key: other for other in results.rows}
    if test is None or test.against not in others:
        return ""
    against = others[test.against].metrics.get(metric.key, ())
    pairs = zip(row.metrics.get(metric.key, ()), against, test.p, strict=True)
    signs = [
        BETTER if (ours > theirs) != metric.lower_is_better else WORSE
        for ours, theirs, p in pairs
        if p <= LEVEL and ours != theirs
    ]
    seeds = len(test.p)
    marks = []
    for sign in (BETTER, WORSE):
        if count := signs.count(sign):
            marks.append(sign if count == seeds else f"{sign}{count}/{seeds}")
    return " ".join(marks)


def _mark_notes(results: Results) -> tuple[str, ...]:
    tests = [
        (_label(key), found.test) for row in results.rows for key, found in row.significance.items()
    ]
    if not tests:
        return ()
    labels = {row.key: row.label for row in results.rows}
    keys = [found.against for row in results.rows for found in row.significance.values()]
    against = list(dict.fromkeys(labels.get(key, key) for key in keys))
    several = len(results.seeds) > 1
    seeds = " in every seed; 2/3: in two seeds of three" if several else ""
    name = against[0] if len(against) == 1 else "the row that it is tested against"
    meaning = f"{BETTER} better, {WORSE} worse than {name} with p ≤ {LEVEL}{seeds}."
    return (f"{meaning} {_by_signature(tests)}.",)
