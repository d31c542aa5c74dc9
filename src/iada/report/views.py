"""How experiments are shown: the answers, the figure and the tables that each of them asks for.

An experiment names its views (`iada.experiments.plan`); `TABLES`, `FIGURES` and `ANSWERS` say what
each view is. A new experiment needs nothing here as long as one of these views fits.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iada.evaluation.metrics import METRICS, mean_over_seeds
from iada.experiments.definitions import build_experiment, experiment_names
from iada.experiments.plan import AnswerView, FigureView, TableView
from iada.experiments.results import Results
from iada.report import paper
from iada.report.charts import Drawing
from iada.report.figures import (
    DISTANCES,
    PRONOUNS,
    class_figure,
    distance_figure,
    forest_figure,
    share_figure,
    sweep_figure,
    tag_figure,
)
from iada.report.page import (
    Block,
    FigureBlock,
    Heading,
    Paragraph,
    Section,
    TableBlock,
    markdown_section,
)
from iada.report.result_tables import (
    base_notes,
    cost_table,
    distance_gain_table,
    distance_gains,
    group_table,
    name_cells,
    name_columns,
    noise_table,
    result_table,
    share_table,
    shown_scores,
    tag_table,
    unmatched_table,
)
from iada.report.tables import Cell, Column, Table, mean_cell
from iada.report.verdict import (
    Answer,
    ImportanceGain,
    comparison_table,
    gain_table,
    importance_answers,
    importance_gains,
    importance_sentence,
    sweep_answers,
)

HELP_SHOWN = ("s_bleu", "pronouns_needing_context", "dev_nll")
"""Metrics of the forest plot."""


@dataclass(frozen=True)
class LocatedResults:
    """The results of an experiment and their folder."""

    results: Results
    folder: Path
    label: str
    """Name of the corpus; with the folder, if two results would share it."""

    def name(self, part: str = "") -> str:
        """Return an id that no other experiment and corpus has."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.label.lower()).strip("-") or "data"
        ending = f"-{part}" if part else ""
        return f"{self.results.experiment}-{slug}{ending}"

    def table(self, part: str, caption: str) -> tuple[str, str]:
        """Return name and caption of a table."""
        return self.name(part), f"{caption} ({self.label})"


def experiment_sections(found: Sequence[LocatedResults]) -> list[Section]:
    """Return the sections of the experiments that were run, in the order of the page."""
    sections = []
    experiments = [build_experiment(name) for name in experiment_names()]
    for owner in (one for one in experiments if one.shown_with is None):
        names = [one.name for one in experiments if owner.name in (one.name, one.shown_with)]
        group = [item for name in names for item in found if item.results.experiment == name]
        if not group:
            continue
        blocks: list[Block] = [Paragraph(owner.question)] if owner.question else []
        labels = list(dict.fromkeys(item.label for item in group))
        for label in labels:
            if len(labels) > 1:
                blocks.append(Heading(label))
            for item in group:
                if item.label == label:
                    blocks += experiment_blocks(item)
        heading = owner.heading or owner.title
        sections.append(Section(owner.name, heading, tuple(blocks), owner.navigation))
    return sections


def experiment_blocks(found: LocatedResults) -> list[Block]:
    """Return everything that is shown of an experiment: answers, figure and tables."""
    experiment = build_experiment(found.results.experiment)
    kind = experiment.breakdown
    if kind is not None and not _has(found, kind):
        why = "its runs were not scored on a contrastive set"
        return [Paragraph(f"Not measured on {found.label}: {why}.")]
    blocks: list[Block] = []
    if experiment.answer is not None:
        blocks += ANSWERS[experiment.answer](found.results)
    if experiment.figure is not None:
        drawing = FIGURES[experiment.figure](found.results, found.name("figure"))
        if drawing is not None:
            caption = experiment.caption
            if len(found.results.seeds) > 1:
                caption += " Whiskers show one standard deviation over seeds."
            blocks.append(FigureBlock(drawing, caption))
    for view in experiment.tables:
        blocks += TABLES[view](found)
    return blocks


def results_markdown(results: Results) -> str:
    """Write the tables of an experiment as Markdown, all metrics of its systems first."""
    found = LocatedResults(results, Path(), results.data)
    views: dict[TableView, None] = dict.fromkeys(("systems",))
    views |= dict.fromkeys(build_experiment(results.experiment).tables)
    blocks = [block for view in views for block in TABLES[view](found) if not block.folded]
    return markdown_section(Section("", f"{results.title} ({results.data})", tuple(blocks)))


def importance_verdicts(found: Sequence[LocatedResults]) -> list[Answer]:
    """Say whether importance beats the uniform control, once per corpus and system."""
    return [
        answer
        for item in found
        if build_experiment(item.results.experiment).answer == "importance"
        for answer in importance_answers(item.results)
    ]


def help_gains(found: Sequence[LocatedResults]) -> list[ImportanceGain]:
    """Compare all importance-aware systems with their uniform controls, corpus by corpus."""
    return importance_gains([(item.label, item.results) for item in found])


def help_section(found: Sequence[LocatedResults]) -> Section | None:
    """Answer by rule whether importance helps, with a forest plot; None without a comparison."""
    gains = help_gains(found)
    if not gains:
        return None
    keys = [key for key in HELP_SHOWN if any(key in gain.differences for gain in gains)]
    drawing = forest_figure(gains, keys, name="importance-gains-figure")
    caption = (
        "Difference from the uniform control, which has the same two views, losses and replacement "
        "probabilities but no tilt: mean over seeds and its 95% interval (Student's t), cut at the "
        "edge of the figure. Runs of the same seed are compared."
    )
    blocks = (
        Paragraph(importance_sentence(gains), strong=True),
        FigureBlock(drawing, caption),
        TableBlock(
            "importance-gains", "Gain over the uniform control", gain_table(gains), folded=True
        ),
    )
    return Section("help", "Does importance help?", blocks, "Does it help?")


def missing_experiments(found: Sequence[LocatedResults]) -> list[str]:
    """Say in one line per corpus which experiments there are no results of."""
    lines = []
    for label in dict.fromkeys(item.label for item in found):
        present = {item.results.experiment for item in found if item.label == label}
        absent = [name for name in experiment_names() if name not in present]
        if absent:
            lines.append(f"Not run on {label}: {', '.join(absent)}.")
    return lines


def _systems(found: LocatedResults) -> list[TableBlock]:
    results = found.results
    # The paper's corpus of the same name, or the one of its ablations.
    corpus = next((corpus for corpus in paper.MAIN if corpus in results.data.lower()), "")
    published = paper.published_table(results.experiment, corpus)
    published = published or paper.published_table(results.experiment)
    ours = TableBlock(*found.table("", results.title), result_table(results, published))
    rest = None if published is None else unmatched_table(results, published)
    if published is None or rest is None:
        return [ours]
    caption = f"{published.name} of the paper: rows without a run of ours"
    return [ours, TableBlock(found.name("paper"), caption, rest, folded=True)]


def _classes(found: LocatedResults) -> list[TableBlock]:
    if not _has(found, "class"):
        return []
    table = group_table(
        found.results,
        "class",
        ("er", "es", "sie"),
        paper.published_table(found.results.experiment),
        group="Accuracy in %, by pronoun",
        first=[METRICS["pronouns"]],
    )
    return [TableBlock(*found.table("classes", "Pronoun accuracy by class"), table)]


def _distances(found: LocatedResults) -> list[TableBlock]:
    if not _has(found, "distance"):
        return []
    group = "Accuracy in %, by sentences back"
    table = group_table(found.results, "distance", DISTANCES, group=group)
    caption = "Pronoun accuracy by distance of the antecedent"
    return [TableBlock(*found.table("distances", caption), table)]


def _has(found: LocatedResults, kind: str) -> bool:
    """Whether a breakdown was measured, which takes a contrastive set."""
    return any(row.breakdown.get(kind) for row in found.results.rows)


def _distance_gains(found: LocatedResults) -> list[TableBlock]:
    if not distance_gains(found.results):
        return []
    table = distance_gain_table(found.results, DISTANCES)
    return [TableBlock(*found.table("gains", "Gain by distance"), table)]


def _shares(found: LocatedResults) -> list[TableBlock]:
    return [
        TableBlock(
            *found.table(key, f"{METRICS[key].label} by share of the training data"),
            share_table(found.results, key),
        )
        for key in shown_scores(found.results)
    ]


def _noise(found: LocatedResults) -> list[TableBlock]:
    caption = "Gold and noisy context in training"
    return [TableBlock(*found.table("noise", caption), noise_table(found.results))]


def _tags(found: LocatedResults) -> list[TableBlock]:
    parts = (("context", "in the context"), ("current", "in the current sentence"))
    return [
        TableBlock(*found.table(part, f"Perturbed tokens {words}"), tag_table(found.results, part))
        for part, words in parts
    ]


def _costs(found: LocatedResults) -> list[TableBlock]:
    table = cost_table(found.results)
    if table is None:
        return []
    return [TableBlock(*found.table("costs", "Size and training time"), table, folded=True)]


def _differences(found: LocatedResults) -> list[TableBlock]:
    table = comparison_table(found.results)
    if table is None:
        return []
    return [TableBlock(*found.table("differences", "What each part adds"), table)]


def _agreement(found: LocatedResults) -> list[TableBlock]:
    shown = [
        (kind, caption, note) for kind, (caption, note) in _AGREEMENTS.items() if _has(found, kind)
    ]
    blocks = []
    for number, (kind, caption, note) in enumerate(shown, start=1):
        # What all tables share is said below the last one.
        notes = (note, *base_notes(found.results)) if number == len(shown) else (note,)
        table = _agreement_table(found.results, kind, notes)
        blocks.append(TableBlock(*found.table(kind.replace("_", "-"), caption), table))
    return blocks


_RANKS = "Spearman's correlation over the tokens of a window that both score, mean over windows."
# By kind of breakdown: caption and note.
_AGREEMENTS = {
    "rank_source": ("Rank correlation of measures on the source side", _RANKS),
    "rank_target": ("Rank correlation of measures on the target side", _RANKS),
    "tags": (
        "Parts of speech of important source tokens",
        "Standard deviations above the mean of the window's source, mean over tokens.",
    ),
    "hinges": (
        "Importance of the words that decide contrastive items",
        "Share of the other tokens of the target sentence that are less important than the words "
        "in which reference and variants differ, mean over items that need context: 0.5 is chance.",
    ),
}


def _agreement_table(results: Results, kind: str, notes: tuple[str, ...]) -> Table:
    """Show a breakdown by measure and what it is compared with: a measure, a tag, or nothing."""
    pairs = [
        {(name.split()[0], (*name.split(), "Rank")[1]): values for name, values in groups.items()}
        for groups in (row.breakdown.get(kind, {}) for row in results.rows)
    ]
    columns = dict.fromkeys(other for by_pair in pairs for _, other in by_pair)
    rows = tuple(
        (
            *name_cells(results, row),
            Cell(measure, measure),
            *(_agreement_cell(by_pair.get((measure, other), ())) for other in columns),
        )
        for row, by_pair in zip(results.rows, pairs, strict=True)
        for measure in dict.fromkeys(measure for measure, _ in by_pair)
    )
    heads = (*name_columns(), Column("Measure", numeric=False), *map(Column, columns))
    return Table(heads, rows, notes)


def _agreement_cell(values: Sequence[float]) -> Cell:
    return mean_cell(mean_over_seeds(values), len(values), digits=2)


def _importance_paragraphs(results: Results) -> list[Paragraph]:
    blocks = []
    for answer in importance_answers(results):
        blocks += [Paragraph(answer.headline, strong=True), Paragraph(answer.numbers)]
    if not blocks:
        missing = "an importance-aware system and its uniform control are not both there"
        blocks.append(Paragraph(f"The rows cannot answer: {missing}.", strong=True))
    return blocks


def _sweep_paragraphs(results: Results) -> list[Paragraph]:
    return [Paragraph(answer) for answer in sweep_answers(results, "s_bleu")]


TABLES: Mapping[TableView, Callable[[LocatedResults], list[TableBlock]]] = {
    "systems": _systems,
    "classes": _classes,
    "distances": _distances,
    "distance_gains": _distance_gains,
    "shares": _shares,
    "noise": _noise,
    "tags": _tags,
    "differences": _differences,
    "costs": _costs,
    "agreement": _agreement,
}
"""What each table view shows."""
FIGURES: Mapping[FigureView, Callable[[Results, str], Drawing | None]] = {
    "classes": lambda results, name: class_figure(results, PRONOUNS, name=name),
    "distance_gains": lambda results, name: distance_figure(results, DISTANCES, name=name),
    "share_gains": lambda results, name: share_figure(results, shown_scores(results), name=name),
    "tags": lambda results, name: tag_figure(results, name=name),
    "sweep": lambda results, name: sweep_figure(results, name=name),
}
"""What each figure view draws; None where there is nothing to draw."""
ANSWERS: Mapping[AnswerView, Callable[[Results], list[Paragraph]]] = {
    "importance": _importance_paragraphs,
    "sweep": _sweep_paragraphs,
}
"""What each answer view says."""
