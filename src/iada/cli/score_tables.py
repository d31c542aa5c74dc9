"""Scores as tables for a terminal; the JSON beside them has every digit and signature."""

from collections.abc import Mapping
from typing import Any

from iada.report.tables import MISSING, Cell, Column, Table

METRICS = {
    "s_bleu": "s-BLEU",
    "d_bleu": "d-BLEU",
    "chrf": "chrF",
    "d_chrf": "d-chrF",
    "comet": "COMET",
    "slide_comet": "SLIDE",
}
"""Readable names of the metrics."""
Scores = Mapping[str, Any]


def systems_table(systems: Mapping[str, Scores]) -> Table:
    """Show the scores of each system, one row each, and the signatures below."""
    shown = [key for key in METRICS if any(key in scores for scores in systems.values())]
    rows = []
    for name, scores in systems.items():
        length, output = scores["length"], scores["output"]
        rows.append(
            (
                Cell(name, name),
                *(_score(scores.get(key, {}).get("score")) for key in shown),
                _number(length["ratio"], 3),
                Cell(output["empty"], str(output["empty"])),
            )
        )
    names = (*(METRICS[key] for key in shown), "Length ratio", "Empty")
    signatures: dict[str, list[str]] = {}
    for key in shown:
        found = next(scores[key]["signature"] for scores in systems.values() if key in scores)
        signatures.setdefault(found, []).append(METRICS[key])
    notes = tuple(f"{', '.join(keys)}: {found}" for found, keys in signatures.items())
    return Table((Column("System", numeric=False), *map(Column, names)), tuple(rows), notes)


def significance_table(significance: Mapping[str, Scores]) -> Table:
    """Show each system's difference from the baseline, its interval, and the p-value."""
    rows = []
    for key, found in significance.items():
        for name, comparison in found["systems"].items():
            interval = comparison.get("interval")
            bounds = MISSING
            if interval is not None:
                bounds = f"{interval['low']:+.2f} to {interval['high']:+.2f}"
            rows.append(
                (
                    Cell(name, name),
                    Cell(key, METRICS[key]),
                    Cell(comparison["difference"], f"{comparison['difference']:+.2f}"),
                    Cell(None, bounds),
                    _number(comparison["p_value"], 4),
                    Cell(found["units"], str(found["units"])),
                )
            )
    names = ("Difference", "95% interval", "p", "Units")
    columns = (Column("System", numeric=False), Column("Metric", numeric=False))
    notes = tuple(f"{METRICS[key]}: {found['signature']}" for key, found in significance.items())
    return Table((*columns, *map(Column, names)), tuple(rows), notes)


def position_table(scores: Scores) -> Table:
    """Show the scores of one system by the position of the sentence in its document."""
    groups: Mapping[str, Mapping[str, float]] = scores["by_position"]
    keys = [key for key in METRICS if any(key in row for row in groups.values())]
    rows = tuple(
        (
            Cell(name, name),
            Cell(row["sentences"], str(row["sentences"])),
            *(_score(row.get(key)) for key in keys),
        )
        for name, row in groups.items()
    )
    names = ("Sentences", *(METRICS[key] for key in keys))
    return Table((Column("Position", numeric=False), *map(Column, names)), rows)


def accuracy_table(results: Mapping[str, Scores]) -> Table:
    """Show tallies of a contrastive set: one column for each way of counting.

    Args:
        results: by name of the column, each in the form of `contrastive_accuracy`.
    """
    first = next(iter(results.values()))
    parts = [("all", ()), ("needs context", ("context",))]
    for group, label in (
        ("by_class", "pronoun"),
        ("by_distance", "distance"),
        ("by_intrasegmental", "antecedent in sentence"),
    ):
        parts += [(f"{label} {key}", (group, key)) for key in first[group]]
    rows = []
    for label, path in parts:
        tallies = [_part(result, path) for result in results.values()]
        total = tallies[0]["total"]
        rows.append((Cell(label, label), Cell(total, str(total)), *map(_accuracy, tallies)))
    columns = (Column("Items", numeric=False), Column("Number"), *map(Column, results))
    return Table(columns, tuple(rows))


def _part(result: Scores, path: tuple[str, ...]) -> Scores:
    for key in path:
        result = result[key]
    return result


def _accuracy(tally: Scores) -> Cell:
    share = tally["correct"] / tally["total"] if tally["total"] else None
    return Cell(share, MISSING if share is None else f"{100 * share:.1f}")


def _score(value: float | None) -> Cell:
    return _number(value, 2)


def _number(value: float | None, digits: int) -> Cell:
    return Cell(value, MISSING if value is None else f"{value:.{digits}f}")
