"""Figures of experiments: curves over data and α, bars by pronoun, distance and part of speech."""

from collections.abc import Mapping, Sequence

from iada.analysis.results import Results
from iada.report.bars import Panel, draw_bars
from iada.report.contrasts import Contrast
from iada.report.drawing import Drawing
from iada.report.experiment_tables import distance_gains, gains_by_share
from iada.report.figures import WINDOW, first_outside
from iada.report.lines import Chart, draw_lines
from iada.report.metrics import METRICS
from iada.report.paper import PARTS_OF_SPEECH
from iada.report.runs import CHANCE, Spread, spread


def class_figure(results: Results, keys: tuple[str, ...], *, name: str) -> Drawing:
    """Draw accuracy by pronoun."""
    panel = Panel(
        title="",
        keys=keys,
        bars={row.label: _percents(row.breakdown.get("class", {}), keys) for row in results.rows},
        label="Correct pronoun",
        unit="Accuracy (%)",
        limit=100.0,
        level=(100 * CHANCE, "chance"),
    )
    words = f"Mean accuracy over seeds in percent; chance is {100 * CHANCE:.1f}."
    return draw_bars(name, "Accuracy by pronoun", [panel], words=words)


def distance_figure(results: Results, keys: tuple[str, ...], *, name: str) -> Drawing:
    """Draw accuracy above the baseline's by distance of the antecedent."""
    gains = distance_gains(results)
    panel = Panel(
        title="",
        keys=keys,
        bars={
            row.label: {key: _spread(found) for key, found in gains[row.key].items()}
            for row in results.rows
            if row.key in gains
        },
        label="Sentences back to the antecedent",
        unit="Accuracy above the baseline (points)",
        outside=first_outside(keys, WINDOW),
        digits=1,
    )
    words = "Accuracy above the baseline's in points, mean over seeds."
    return draw_bars(name, "Gain in accuracy by distance", [panel], words=words)


def tag_figure(results: Results, *, name: str) -> Drawing:
    """Draw shares of perturbed tokens by tag, context and current sentence apart."""
    panels = []
    for part, title in (("context", "In the context"), ("current", "In the current sentence")):
        keys = tuple(PARTS_OF_SPEECH[part].columns)
        bars = {row.label: _percents(row.pos.get(part, {}), keys) for row in results.rows}
        label, unit = "Part of speech", "Share of perturbed tokens (%)"
        panels.append(Panel(title, keys, bars, label, unit, digits=1))
    words = "Percent of all perturbed tokens, mean over seeds."
    return draw_bars(name, "Perturbed tokens by part of speech", panels, words=words)


def share_figure(results: Results, keys: Sequence[str], *, name: str) -> Drawing:
    """Draw gains over the baseline by share of the training data."""
    charts = []
    for key in keys:
        gains = gains_by_share(results, METRICS[key])
        curves = {
            system: {share: _spread(found) for share, found in by_share.items()}
            for system, by_share in gains.items()
        }
        unit = f"{METRICS[key].label} above the baseline"
        charts.append(Chart("", curves, "Training data (%)", unit, level=(0.0, "baseline")))
    words = "Score above the baseline's on the same data, mean over seeds."
    return draw_lines(name, "Gain by share of the training data", charts, words=words)


def sweep_figure(results: Results, *, name: str) -> Drawing | None:
    """Draw scores by α; None without any."""
    charts = []
    for key in ("s_bleu", "pronouns_needing_context"):
        metric = METRICS[key]
        rows = {row.value: row for row in results.rows if row.value is not None}
        curve = {}
        for alpha, row in sorted(rows.items()):
            found = metric.spread(row.metrics.get(key, ()))
            if found is not None:
                curve[alpha] = found
        if curve:
            level = (curve[0.0].mean, "uniform") if 0.0 in curve else None
            system = next(row.series or "IADA" for row in rows.values())
            chart = Chart(
                "", {system: curve}, "α", metric.label, metric.digits, level=level, even=True
            )
            charts.append(chart)
    if not charts:
        return None
    return draw_lines(name, "Scores by α", charts, words="Mean over seeds.")


def _percents(
    shares: Mapping[str, Sequence[float]], keys: Sequence[str]
) -> dict[str, Spread | None]:
    return {key: spread([100 * value for value in shares.get(key, ())]) for key in keys}


def _spread(found: Contrast) -> Spread:
    return Spread(found.mean, found.deviation, found.seeds)
