"""One self-contained HTML page: results, figures, examples, heat map and how the runs were made.

It opens without a network, follows the reader's light or dark setting and fits a phone. Text from
documents and run folders is escaped; the same runs give the same bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from iada.atomic import write_text
from iada.errors import RunError
from iada.report import figures, heatmap, tables
from iada.report.markup import render
from iada.report.runs import RunSummary, group_runs, settings

if TYPE_CHECKING:
    from iada.analysis.importance_map import WindowView


@dataclass(frozen=True)
class Example:
    """A sentence, what came before it, and how the systems translate it."""

    source_context: Sequence[str]
    """Sentences before `source`, oldest first."""
    source: str
    reference: str
    outputs: Mapping[str, str]
    """System name to translation."""


@dataclass(frozen=True)
class Illustration:
    """A figure with its caption and, where it shows bars, their numbers."""

    svg: Markup
    caption: str
    numbers: tables.Table | None = None


def write_report(
    path: Path,
    runs: Sequence[RunSummary],
    *,
    title: str,
    heat_map: Sequence["WindowView"] = (),
    notes: Sequence[str] = (),
    examples: Sequence[Example] = (),
) -> Path:
    """Write the report of some runs as one HTML file.

    Args:
        path: the file; its folder is created.
        runs: in the order in which the systems appear.
        title: heading of the page.
        heat_map: windows whose token importance to show.
        notes: sentences to print below the results.
        examples: translated sentences to show side by side.

    Returns:
        The path written.
    """
    if not runs:
        raise RunError("There is no run to report on. Give at least one run folder.")
    text = render(
        "report.html.j2",
        title=title,
        summary=_summary(runs),
        results=tables.results_table(runs),
        notes=notes,
        pronouns=_pronoun_figures(runs),
        training=_training_figure(runs),
        examples=examples,
        heat_map=heatmap.to_html(heat_map) if heat_map else None,
        differences=tables.differences_table(runs),
        systems=[(system, _settings(system.runs[0])) for system in group_runs(runs)],
    )
    return _write(path, text)


def write_heat_map(path: Path, views: Sequence["WindowView"], title: str) -> Path:
    """Write a page with the heat map alone."""
    return _write(path, heatmap.page(title, views))


def _summary(runs: Sequence[RunSummary]) -> str:
    systems = group_runs(runs)
    counts = f"{_count(len(systems), 'system')}, {_count(len(runs), 'run')}"
    languages = {
        (data["source_language"], data["target_language"])
        for data in (run.config.get("data", {}) for run in runs)
        if "source_language" in data and "target_language" in data
    }
    pairs = ", ".join(f"{source} → {target}" for source, target in sorted(languages))
    return f"{counts}, {pairs}" if pairs else counts


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _pronoun_figures(runs: Sequence[RunSummary]) -> list[Illustration]:
    spread = "Whiskers show one standard deviation over seeds."
    found = []
    if _measured(runs, "by_distance", figures.DISTANCES):
        caption = (
            "Pronoun accuracy by the number of sentences between the pronoun and its antecedent. "
            "At 0 the antecedent is in the same sentence; where it lies outside the window, no "
            f"system can see it. {spread}"
        )
        numbers = tables.accuracy_table(runs, "by_distance", figures.DISTANCES)
        found.append(Illustration(Markup(figures.accuracy_by_distance(runs)), caption, numbers))
    if _measured(runs, "by_class", figures.PRONOUNS):
        caption = (
            "Pronoun accuracy by the correct pronoun. A system that always writes the most "
            f"frequent one is right there and wrong elsewhere. {spread}"
        )
        numbers = tables.accuracy_table(runs, "by_class", figures.PRONOUNS)
        found.append(Illustration(Markup(figures.accuracy_by_class(runs)), caption, numbers))
    return found


def _measured(runs: Sequence[RunSummary], part: str, keys: Sequence[str]) -> bool:
    return any(run.accuracy(part, key) is not None for run in runs for key in keys)


def _training_figure(runs: Sequence[RunSummary]) -> Illustration | None:
    if not any(run.metrics for run in runs):
        return None
    caption = (
        "One line per run, cut at the top where training begins. Left: validation, with a dot at "
        "the best. Right: label-smoothed NLL of the original view; systems that never learn from "
        "it show the perturbed view."
    )
    return Illustration(Markup(figures.training_curves(runs)), caption)


def _settings(run: RunSummary) -> dict[str, dict[str, Any]]:
    """Return the settings by section."""
    sections: dict[str, dict[str, Any]] = {}
    for key, value in settings(run.config).items():
        section, _, name = key.rpartition(".")
        sections.setdefault(section or "run", {})[name] = value
    return sections


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return path
