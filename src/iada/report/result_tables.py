"""Tables of experiments: our numbers with deviation, seeds and marks, the paper's beside them."""

from collections.abc import Iterable, Sequence

from iada.evaluation.metrics import METRICS, Metric, main_metrics, mean_over_seeds
from iada.experiments.results import Results, Row, holm_adjusted
from iada.report.paper import PaperRow, PaperTable, complete, published_table, without
from iada.report.tables import BETTER, MISSING, WORSE, Cell, Column, Table, mean_cell
from iada.report.verdict import Difference, difference

LEVEL = 0.05
"""Largest corrected p-value that earns a mark."""
DEVIATION = "± is the sample standard deviation over seeds."


def result_table(results: Results, paper: PaperTable | None = None) -> Table:
    """Show every metric that was measured, one row per system, and the paper's numbers."""
    metrics = [m for m in main_metrics() if any(m.key in row.metrics for row in results.rows)]
    rows = []
    for row in results.rows:
        found = None if paper is None else paper.row(row.settings)
        ours = (_marked_cell(results, row, metric) for metric in metrics)
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
        whole = (_marked_cell(results, row, metric) for metric in first)
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


def cost_table(results: Results) -> Table | None:
    """Show size and training time of every row; None for results that have neither."""
    digits = {"parameters": 0, "updates": 0, "minutes": 1}
    found = [(row, row.breakdown["cost"]) for row in results.rows if "cost" in row.breakdown]
    if not found:
        return None
    rows = []
    for row, cost in found:
        means = {key: sum(cost[key]) / len(cost[key]) for key in digits}
        cells = (Cell(value, f"{value:,.{digits[key]}f}") for key, value in means.items())
        rows.append((*name_cells(results, row), *cells))
    heads = (Column("Parameters that learn"), Column("Updates"), Column("Minutes of training"))
    note = (
        "Minutes by the clock, validation included: runs that shared their machine with others "
        "took longer than they need."
    )
    return Table((*name_columns(), *heads), tuple(rows), (note,))


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
    return mean_cell(mean_over_seeds([100 * share for share in shares]), len(shares), digits=1)


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


def _marked_cell(results: Results, row: Row, metric: Metric) -> Cell:
    cell = _metric_cell(row, metric)
    return Cell(cell.value, cell.text, significance_mark(results, row, metric))


def _metric_cell(row: Row | None, metric: Metric) -> Cell:
    values = () if row is None else row.metrics.get(metric.key, ())
    return mean_cell(metric.mean(values), len(values), digits=metric.digits)


def significance_mark(results: Results, row: Row, metric: Metric) -> str:
    """Return the marks of a row: better, worse, and in how many seeds if not in all."""
    test = row.significance.get(metric.key)
    others = {other.key: other for other in results.rows}
    if test is None or test.against not in others:
        return ""
    against = others[test.against].metrics.get(metric.key, ())
    adjusted = holm_adjusted(results)[row.key, metric.key]
    pairs = zip(row.metrics.get(metric.key, ()), against, adjusted, strict=True)
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
    several = len(tests) > 1
    correction = f" after Holm's correction for {len(tests)} comparisons" if several else ""
    meaning = f"{BETTER} better, {WORSE} worse than {name} with p ≤ {LEVEL}{correction}{seeds}."
    kinds = " and ".join(sorted({_test_name(signature) for _, signature in tests}))
    return (f"{meaning} Test: {kinds}. {_by_signature(tests)}.",)


def _test_name(signature: str) -> str:
    names = {"ar": "paired approximate randomisation", "bs": "paired bootstrap (Koehn, 2004)"}
    fields = dict(field.partition(":")[::2] for field in signature.split("|"))
    return next((name for key, name in names.items() if key in fields), signature)


SUBSET, NOISE = "data.subset", "windows.noisy_context"
TAGS = ("NOUN", "PRON", "VERB", "ADJ", "ADV")
"""Universal parts of speech that are shown."""
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


def gains_by_share(results: Results, metric: Metric) -> dict[str, dict[float, Difference]]:
    """Compare each system with the baseline on the same share of the data."""
    baseline = baseline_row(results)
    if baseline is None:
        return {}
    identity = complete(without(baseline.settings, SUBSET))
    plain: dict[float, Row] = {}
    for row in results.rows:
        if complete(without(row.settings, SUBSET)) == identity:
            plain[percent_of_data(row)] = row
    gains: dict[str, dict[float, Difference]] = {}
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


def shown_scores(results: Results) -> list[str]:
    """Return the keys of the BLEU scores that some row has."""
    keys = ("s_bleu", "d_bleu")
    return [key for key in keys if any(key in row.metrics for row in results.rows)]


def share_table(results: Results, key: str) -> Table:
    """Show the baseline's score and every system's gain over it, by share of the data."""
    metric, paper = METRICS[key], published_table(results.experiment, key)
    baseline = baseline_row(results)
    gains = gains_by_share(results, metric)
    by_system = systems(results, SUBSET)
    plain = {} if baseline is None else _by_share(by_system, baseline)
    named = (name for name, found in by_system.items() if baseline in found)
    label = next(named, MISSING)
    rows = []
    for share in sorted({percent_of_data(row) for row in results.rows}):
        ours = [_metric_cell(plain.get(share), metric)]
        ours += [difference_cell(gain.get(share)) for gain in gains.values()]
        theirs: list[Cell] = []
        if paper is not None:
            theirs = [published(row.values.get(f"{share:g}"), paper) for row in paper.rows]
        rows.append((Cell(share, f"{share:g} %"), *ours, *theirs))
    heads = [Column(label), *(Column(f"Δ {name}") for name in gains)]
    if paper is not None:
        heads += [published_column(f"Δ {row.label}", paper) for row in paper.rows]
    return Table(
        (Column("Training data"), *heads),
        tuple(rows),
        (f"Δ: above {label} on the same data.", *base_notes(results), *paper_notes(paper)),
    )


def noise_table(results: Results) -> Table:
    """Show each system trained with the gold and with a noisy context, and what noise costs."""
    # The published tables of all metrics have the same columns.
    shown = published_table(results.experiment, "s_bleu")
    rows = []
    for name, pair in systems(results, NOISE).items():
        gold = next((row for row in pair if not row.settings.get(NOISE)), None)
        noisy = next((row for row in pair if row.settings.get(NOISE)), None)
        for key in ("s_bleu", "d_bleu", "pronouns", "pronouns_needing_context"):
            metric = METRICS[key]
            cost = _cost(gold, noisy, metric)
            if cost is None:
                continue
            paper = published_table(results.experiment, key)
            found = None if paper is None or gold is None else paper.row(gold.settings)
            cells = (_metric_cell(gold, metric), _metric_cell(noisy, metric), difference_cell(cost))
            labels = (Cell(name, name), Cell(metric.label, metric.label))
            rows.append((*labels, *cells, *paper_cells(paper or shown, found)))
    words = (Column("System", numeric=False), Column("Metric", numeric=False))
    heads = (Column("Gold"), Column("Noisy"), Column("Δ"))
    return Table(
        (*words, *heads, *paper_columns(shown)),
        tuple(rows),
        ("Δ: gold minus noisy; smaller is better.", *base_notes(results), *paper_notes(shown)),
    )


def distance_gains(results: Results) -> dict[str, dict[str, Difference]]:
    """Compare accuracies by distance with the baseline's, in points."""
    baseline = baseline_row(results)
    if baseline is None:
        return {}
    plain = baseline.breakdown.get("distance", {})
    gains: dict[str, dict[str, Difference]] = {}
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
    paper = published_table(results.experiment)
    rows = []
    for row in results.rows:
        if row.key not in gains:
            continue
        ours = (difference_cell(gains[row.key].get(key)) for key in keys)
        theirs = paper_cells(paper, None if paper is None else paper.row(row.settings))
        rows.append((*name_cells(results, row), *ours, *theirs))
    label = MISSING if baseline is None else baseline.label
    heads = (Column(key, group=f"Points above {label}") for key in keys)
    return Table(
        (*name_columns(), *heads, *paper_columns(paper)),
        tuple(rows),
        (
            f"Points of accuracy above {label}'s, by sentences back to the antecedent.",
            *base_notes(results),
            *paper_notes(paper),
        ),
    )


def tag_table(results: Results, part: str) -> Table:
    """Show the shares of perturbed tokens by tag, in the context or in the current sentence."""
    paper = published_table(results.experiment, part)
    rows = []
    for row in results.rows:
        shares = row.pos.get(part, {})
        ours = (percent_cell(shares.get(tag, ())) for tag in TAGS)
        theirs = paper_cells(paper, None if paper is None else paper.row(row.settings))
        rows.append((*name_cells(results, row), *ours, *theirs))
    return Table(
        (
            *name_columns(),
            *(Column(tag, group="Ours, %") for tag in TAGS),
            *paper_columns(paper),
        ),
        tuple(rows),
        ("Percent of all perturbed tokens there.", *base_notes(results), *paper_notes(paper)),
    )


def difference_cell(found: Difference | None) -> Cell:
    """Show a difference with its deviation."""
    if found is None:
        return Cell(None, MISSING)
    return Cell(found.mean, found.short_text)


def _by_share(by_system: dict[str, list[Row]], baseline: Row) -> dict[float, Row]:
    rows = next((rows for rows in by_system.values() if baseline in rows), [])
    return {percent_of_data(row): row for row in rows}


def _cost(gold: Row | None, noisy: Row | None, metric: Metric) -> Difference | None:
    if gold is None or noisy is None:
        return None
    if metric.key not in gold.metrics or metric.key not in noisy.metrics:
        return None
    return difference(gold.metrics[metric.key], noisy.metrics[metric.key], metric)
