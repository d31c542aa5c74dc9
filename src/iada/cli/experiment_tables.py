"""Results of experiments as tables for the eye."""

from iada.experiments.results import METRICS, Results, Row
from iada.report import tables as shown
from iada.report.result_tables import LEVEL, percent_cell
from iada.report.tables import Cell, Column, Table, spread_cell

_HEADINGS = {
    "s_bleu": "s-BLEU",
    "d_bleu": "d-BLEU",
    "chrf": "chrF",
    "comet": "COMET",
    "pronouns": "Pronouns %",
    "pronouns_needing_context": "Pronouns (context needed) %",
    "dev_nll": "dev NLL",
}


def experiment_table(results: Results) -> Table:
    """Show one row for each system: mean ± sample standard deviation over the seeds."""
    metrics = [name for name in METRICS if any(name in row.metrics for row in results.rows)]
    groups = _group_columns(results)
    columns = [
        Column("System", numeric=False),
        Column("Seeds"),
        *(Column(_HEADINGS[name]) for name in metrics),
        *(Column(_group_heading(*group)) for group in groups),
    ]
    rows = tuple(
        (
            Cell(row.label, row.label),
            Cell(len(results.seeds), str(len(results.seeds))),
            *(_metric_cell(row, name) for name in metrics),
            *(percent_cell(_group_values(row, *group)) for group in groups),
        )
        for row in results.rows
    )
    return Table(tuple(columns), rows, _notes(results))


def _metric_cell(row: Row, name: str) -> Cell:
    metric, values = shown.METRICS[name], row.metrics.get(name, ())
    cell = spread_cell(metric.spread(values), len(values), digits=metric.digits)
    found = row.significance.get(name)
    if found is not None and all(p <= LEVEL for p in found.p):
        return Cell(cell.value, f"{cell.text} *")
    return cell


def _group_columns(results: Results) -> list[tuple[str, str, str]]:
    """Return part, kind and group of every breakdown, in order of first appearance."""
    return list(
        dict.fromkeys(
            (part, kind, group)
            for row in results.rows
            for part in ("breakdown", "pos")
            for kind, by_group in getattr(row, part).items()
            for group in by_group
        )
    )


def _group_values(row: Row, part: str, kind: str, group: str) -> tuple[float, ...]:
    values: tuple[float, ...] = getattr(row, part).get(kind, {}).get(group, ())
    return values


def _group_heading(part: str, kind: str, group: str) -> str:
    if part == "pos":
        return f"{group} in {kind} %"
    return f"{group} %" if kind == "class" else f"distance {group} %"


def _notes(results: Results) -> tuple[str, ...]:
    base = results.base
    notes = []
    if base:
        notes.append(
            f"{results.data}: {base['parameters']:,} parameters, {base['vocabulary']:,} pieces, "
            f"{base['updates']:,} updates; test split of {base['test_sentences']:,} sentences in "
            f"{base['test_documents']:,} documents; engine {base['engine']}, beam {base['beam']}."
        )
        notes.append(f"Signature: s-BLEU and d-BLEU {base['signatures']['s_bleu']}.")
    if len(results.seeds) > 1:
        notes.append("Mean ± sample standard deviation over the seeds.")
    if any(row.significance for row in results.rows):
        notes.append(_test_note(results))
    if results.missing:
        notes.append(f"Left out, because a run failed: {', '.join(results.missing)}.")
    return tuple(notes)


def _test_note(results: Results) -> str:
    labels = {row.key: row.label for row in results.rows}
    others = dict.fromkeys(
        labels[found.against] for row in results.rows for found in row.significance.values()
    )
    return (
        f"* differs from {' or '.join(others)} with p ≤ {LEVEL} for every seed "
        "(paired test on the same sentences or documents)."
    )
