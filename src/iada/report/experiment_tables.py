"""Tables of experiments whose rows are not systems alone: data shares, noise, tags, distances."""

from collections.abc import Sequence

from iada.experiments.results import Results, Row
from iada.report.paper import (
    DISTANCE,
    LOW_RESOURCE,
    NOISY_CONTEXT,
    PARTS_OF_SPEECH,
    PaperTable,
    complete,
    without,
)
from iada.report.result_tables import (
    base_notes,
    name_cells,
    name_columns,
    paper_cells,
    paper_columns,
    paper_notes,
    percent_cell,
    published,
    published_column,
)
from iada.report.tables import METRICS, MISSING, Cell, Column, Metric, Table, spread_cell
from iada.report.verdict import Contrast, difference

SUBSET, NOISE = "data.subset", "windows.noisy_context"
POINTS = Metric("accuracy", "Accuracy, points", 1, 100.0)
"""Differences of accuracies."""


def baseline_row(results: Results) -> Row | None:
    """Return the row that the others are compared with, if the results name one."""
    return None if results.baseline is None else results.row(results.baseline)


def systems(results: Results, key: str) -> dict[str, list[Row]]:
    """Gather rows that differ in `key` alone, by label of the system, in the order given."""
    found: dict[str, list[Row]] = {}
    names: list[tuple[dict[str, object], str]] = []
    for row in results.rows:
        identity = complete(without(row.settings, key))
        known = next((name for settings, name in names if settings == identity), None)
        if known is None:
            # Along an axis the series is the system; elsewhere the series is what was done to it.
            known = row.series if results.axis is not None and row.series else row.label
            names.append((identity, known))
        found.setdefault(known, []).append(row)
    return found


def percent_of_data(row: Row) -> float:
    """Return the share of the training data of a row in percent."""
    return round(100 * float(row.settings.get(SUBSET, 1.0)), 6)


def gains_by_share(results: Results, metric: Metric) -> dict[str, dict[float, Contrast]]:
    """Compare each system with the baseline on the same share of the data."""
    baseline = baseline_row(results)
    if baseline is None:
        return {}
    identity = complete(without(baseline.settings, SUBSET))
    plain: dict[float, Row] = {}
    for row in results.rows:
        if complete(without(row.settings, SUBSET)) == identity:
            plain[percent_of_data(row)] = row
    gains: dict[str, dict[float, Contrast]] = {}
    for name, rows in systems(results, SUBSET).items():
        if complete(without(rows[0].settings, SUBSET)) == identity:
            continue
        for row in rows:
            share = percent_of_data(row)
            values, other = row.metrics.get(metric.key), plain.get(share)
            if values is None or other is None or metric.key not in other.metrics:
                continue
            found = difference(values, other.metrics[metric.key], metric)
            if found is not None:
                gains.setdefault(name, {})[share] = found
    return gains


def share_table(results: Results, key: str) -> Table:
    """Show the baseline's score and every system's gain over it, by share of the data."""
    metric, paper = METRICS[key], LOW_RESOURCE[key]
    baseline = baseline_row(results)
    gains = gains_by_share(results, metric)
    by_system = systems(results, SUBSET)
    plain = {} if baseline is None else _by_share(by_system, baseline)
    named = (name for name, found in by_system.items() if baseline in found)
    label = next(named, MISSING)
    rows = []
    for share in sorted({percent_of_data(row) for row in results.rows}):
        ours = [_metric_cell(plain.get(share), metric)]
        ours += [contrast_cell(gain.get(share)) for gain in gains.values()]
        theirs = (published(row.values.get(f"{share:g}"), paper) for row in paper.rows)
        rows.append((Cell(share, f"{share:g} %"), *ours, *theirs))
    heads = (Column(label), *(Column(f"Δ {name}") for name in gains))
    theirs_heads = (published_column(f"Δ {row.label}", paper) for row in paper.rows)
    return Table(
        (Column("Training data"), *heads, *theirs_heads),
        tuple(rows),
        (f"Δ: above {label} on the same data.", *base_notes(results), *paper_notes(paper)),
    )


def noise_table(results: Results) -> Table:
    """Show each system trained with the gold and with a noisy context, and what noise costs."""
    rows = []
    for name, pair in systems(results, NOISE).items():
        gold = next((row for row in pair if not row.settings.get(NOISE)), None)
        noisy = next((row for row in pair if row.settings.get(NOISE)), None)
        for key in ("s_bleu", "d_bleu", "pronouns", "pronouns_needing_context"):
            metric = METRICS[key]
            cost = _cost(gold, noisy, metric)
            if cost is None:
                continue
            paper = NOISY_CONTEXT.get(key)
            found = None if paper is None or gold is None else paper.row(gold.settings)
            cells = (_metric_cell(gold, metric), _metric_cell(noisy, metric), contrast_cell(cost))
            published_cells = paper_cells(paper or NOISY_CONTEXT["s_bleu"], found)
            labels = (Cell(name, name), Cell(metric.label, metric.label))
            rows.append((*labels, *cells, *published_cells))
    words = (Column("System", numeric=False), Column("Metric", numeric=False))
    heads = (Column("Gold"), Column("Noisy"), Column("Δ"))
    paper = NOISY_CONTEXT["s_bleu"]
    return Table(
        (*words, *heads, *paper_columns(paper)),
        tuple(rows),
        ("Δ: gold minus noisy; smaller is better.", *base_notes(results), *paper_notes(paper)),
    )


def distance_gains(results: Results) -> dict[str, dict[str, Contrast]]:
    """Compare accuracies by distance with the baseline's, in points."""
    baseline = baseline_row(results)
    if baseline is None:
        return {}
    plain = baseline.breakdown.get("distance", {})
    gains: dict[str, dict[str, Contrast]] = {}
    for row in results.rows:
        if row.key == baseline.key:
            continue
        for key, values in row.breakdown.get("distance", {}).items():
            found = difference(values, plain[key], POINTS) if key in plain else None
            if found is not None:
                gains.setdefault(row.key, {})[key] = found
    return gains


def distance_gain_table(results: Results, keys: Sequence[str]) -> Table:
    """Show the gains over the baseline in points, ours and the paper's."""
    gains = distance_gains(results)
    baseline = baseline_row(results)
    rows = []
    for row in results.rows:
        if row.key not in gains:
            continue
        ours = (contrast_cell(gains[row.key].get(key)) for key in keys)
        theirs = paper_cells(DISTANCE, DISTANCE.row(row.settings))
        rows.append((*name_cells(results, row), *ours, *theirs))
    label = MISSING if baseline is None else baseline.label
    heads = (Column(key, group=f"Points above {label}") for key in keys)
    return Table(
        (*name_columns(), *heads, *paper_columns(DISTANCE)),
        tuple(rows),
        (
            f"Points of accuracy above {label}'s, by sentences back to the antecedent.",
            *base_notes(results),
            *paper_notes(DISTANCE),
        ),
    )


def tag_table(results: Results, part: str) -> Table:
    """Show the shares of perturbed tokens by tag, in the context or in the current sentence."""
    paper: PaperTable = PARTS_OF_SPEECH[part]
    rows = []
    for row in results.rows:
        shares = row.pos.get(part, {})
        ours = (percent_cell(shares.get(tag, ())) for tag in paper.columns)
        rows.append(
            (*name_cells(results, row), *ours, *paper_cells(paper, paper.row(row.settings)))
        )
    return Table(
        (
            *name_columns(),
            *(Column(tag, group="Ours, %") for tag in paper.columns),
            *paper_columns(paper),
        ),
        tuple(rows),
        ("Percent of all perturbed tokens there.", *base_notes(results), *paper_notes(paper)),
    )


def contrast_cell(found: Contrast | None) -> Cell:
    """Show a difference with its spread."""
    if found is None:
        return Cell(None, MISSING)
    return Cell(found.mean, found.short_text)


def _by_share(by_system: dict[str, list[Row]], baseline: Row) -> dict[float, Row]:
    rows = next((rows for rows in by_system.values() if baseline in rows), [])
    return {percent_of_data(row): row for row in rows}


def _metric_cell(row: Row | None, metric: Metric) -> Cell:
    values = () if row is None else row.metrics.get(metric.key, ())
    return spread_cell(metric.spread(values), len(values), digits=metric.digits)


def _cost(gold: Row | None, noisy: Row | None, metric: Metric) -> Contrast | None:
    if gold is None or noisy is None:
        return None
    if metric.key not in gold.metrics or metric.key not in noisy.metrics:
        return None
    return difference(gold.metrics[metric.key], noisy.metrics[metric.key], metric)
