"""One section per experiment: what was asked, a table, and a figure where it helps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from iada.experiments.results import Results
from iada.report import paper
from iada.report.charts import Drawing
from iada.report.experiment_tables import (
    distance_gain_table,
    distance_gains,
    gains_by_share,
    noise_table,
    share_table,
    tag_table,
)
from iada.report.figures import (
    DISTANCES,
    PRONOUNS,
    class_figure,
    distance_figure,
    share_figure,
    sweep_figure,
    tag_figure,
)
from iada.report.page import Block, FigureBlock, Heading, Paragraph, Section, TableBlock
from iada.report.result_tables import group_table, result_table, unmatched_table
from iada.report.tables import METRICS
from iada.report.verdict import Answer, answers, comparison_table, sweep_answer


@dataclass(frozen=True)
class Found:
    """The results of an experiment and where they lie."""

    results: Results
    folder: Path
    label: str
    """Name of the corpus; with the folder, if two results would share it."""
    slug: str
    """Name of the corpus in ids and file names."""

    def name(self, part: str = "") -> str:
        """Return an id that no other experiment and corpus has."""
        ending = f"-{part}" if part else ""
        return f"{self.results.experiment}-{self.slug}{ending}"


Build = Callable[[Found], list[Block]]


def experiment_sections(found: Sequence[Found]) -> list[Section]:
    """Return the sections of the experiments that were run, in the order of the page."""
    sections = []
    for names, (title, short, lead) in _SECTIONS.items():
        group = [item for name in names for item in found if item.results.experiment == name]
        if not group:
            continue
        blocks: list[Block] = [Paragraph(lead)] if lead else []
        labels = list(dict.fromkeys(item.label for item in group))
        for label in labels:
            if len(labels) > 1:
                blocks.append(Heading(label))
            for item in group:
                if item.label == label:
                    blocks += _BUILDERS[item.results.experiment](item)
        sections.append(Section(names[0], title, tuple(blocks), short))
    return sections


def verdicts(found: Sequence[Found]) -> list[Answer]:
    """Say whether importance beats the uniform control, once per corpus and system."""
    return [
        answer
        for item in found
        if item.results.experiment == "controls"
        for answer in answers(item.results)
    ]


def missing_experiments(found: Sequence[Found]) -> list[str]:
    """Say in one line per corpus which experiments there are no results of."""
    lines = []
    for label in dict.fromkeys(item.label for item in found):
        present = {item.results.experiment for item in found if item.label == label}
        absent = [name for names in _SECTIONS for name in names if name not in present]
        if absent:
            lines.append(f"Not run on {label}: {', '.join(absent)}.")
    return lines


def _main(found: Found) -> list[Block]:
    # The paper's corpus of the same name, or the one of its ablations.
    names = (corpus for corpus in paper.MAIN if corpus in found.results.data.lower())
    return _with_paper(paper.MAIN[next(names, "ted")])(found)


def _with_paper(table: paper.PaperTable | None) -> Build:
    def build(found: Found) -> list[Block]:
        caption = f"{found.results.title} ({found.label})"
        ours = TableBlock(found.name(), caption, result_table(found.results, table))
        rest = None if table is None else unmatched_table(found.results, table)
        if table is None or rest is None:
            return [ours]
        caption = f"{table.name} of the paper: rows without a run of ours"
        return [ours, TableBlock(found.name("paper"), caption, rest, folded=True)]

    return build


def _pronouns(found: Found) -> list[Block]:
    if not any("class" in row.breakdown for row in found.results.rows):
        return _not_measured(found)
    keys = ("er", "es", "sie")
    table = group_table(
        found.results,
        "class",
        keys,
        paper.PRONOUNS,
        group="Accuracy in %, by pronoun",
        first=[METRICS["pronouns"]],
    )
    caption = (
        "Pronoun accuracy by the correct pronoun. A system that always writes the most frequent "
        "one is right there and wrong elsewhere."
    )
    figure = class_figure(found.results, PRONOUNS, name=found.name("figure"))
    title = f"Pronoun accuracy by class ({found.label})"
    return [TableBlock(found.name(), title, table), _seeded(figure, caption, found)]


def _distance(found: Found) -> list[Block]:
    if not any("distance" in row.breakdown for row in found.results.rows):
        return _not_measured(found)
    heading = "Accuracy in %, by sentences back"
    accuracies = group_table(found.results, "distance", DISTANCES, group=heading)
    caption = (
        "Pronoun accuracy above the baseline's, by the number of sentences between the pronoun and "
        "its antecedent. Where it lies outside the window, no system can see it: gains there are "
        "not made by context."
    )
    title = f"Pronoun accuracy by distance of the antecedent ({found.label})"
    blocks: list[Block] = [TableBlock(found.name(), title, accuracies)]
    if distance_gains(found.results):
        gains = distance_gain_table(found.results, DISTANCES)
        figure = distance_figure(found.results, DISTANCES, name=found.name("figure"))
        title = f"Gain by distance ({found.label})"
        table = TableBlock(found.name("gains"), title, gains)
        blocks = [table, _seeded(figure, caption, found), *blocks]
    return blocks


def _seeded(drawing: Drawing, caption: str, found: Found) -> FigureBlock:
    """Caption a figure of means over seeds; one seed has no whiskers to explain."""
    if len(found.results.seeds) > 1:
        caption += " Whiskers show one standard deviation over seeds."
    return FigureBlock(drawing, caption)


def _not_measured(found: Found) -> list[Block]:
    return [Paragraph(f"Not measured on {found.label}: its runs met no contrastive set.")]


def _low_resource(found: Found) -> list[Block]:
    blocks: list[Block] = []
    keys = [k for k in ("s_bleu", "d_bleu") if any(k in r.metrics for r in found.results.rows)]
    for key in keys:
        caption = f"{METRICS[key].label} by share of the training data ({found.label})"
        blocks.append(TableBlock(found.name(key), caption, share_table(found.results, key)))
    if any(gains_by_share(found.results, METRICS[key]) for key in keys):
        figure = share_figure(found.results, keys, name=found.name("figure"))
        caption = "Score above the baseline's on the same share of the documents."
        blocks.insert(0, _seeded(figure, caption, found))
    return blocks


def _noisy_context(found: Found) -> list[Block]:
    caption = f"Gold and noisy context in training ({found.label})"
    return [TableBlock(found.name(), caption, noise_table(found.results))]


def _pos(found: Found) -> list[Block]:
    figure = tag_figure(found.results, name=found.name("figure"))
    caption = "Parts of speech among the perturbed tokens."
    blocks: list[Block] = [_seeded(figure, caption, found)]
    for part, words in (("context", "in the context"), ("current", "in the current sentence")):
        title = f"Perturbed tokens {words} ({found.label})"
        blocks.append(TableBlock(found.name(part), title, tag_table(found.results, part)))
    return blocks


def _controls(found: Found) -> list[Block]:
    blocks: list[Block] = []
    for answer in answers(found.results):
        blocks += [Paragraph(answer.headline, strong=True), Paragraph(answer.numbers)]
    if not blocks:
        missing = "an importance-aware system and its uniform control are not both there"
        blocks.append(Paragraph(f"The rows cannot answer: {missing}.", strong=True))
    differences = comparison_table(found.results)
    if differences is not None:
        caption = f"What each part adds ({found.label})"
        blocks.append(TableBlock(found.name("differences"), caption, differences))
    return [*blocks, *_with_paper(None)(found)]


def _alpha_sweep(found: Found) -> list[Block]:
    answer = sweep_answer(found.results, "s_bleu")
    figure = sweep_figure(found.results, name=found.name("figure"))
    caption = (
        "Scores by α, which sets how far importance tilts the probabilities of replacement; the "
        "steps are not to scale. At α = 0 all tokens are alike; the paper uses 0.1."
    )
    blocks: list[Block] = [] if answer is None else [Paragraph(answer)]
    if figure is not None:
        blocks.append(_seeded(figure, caption, found))
    return [*blocks, *_with_paper(None)(found)]


_BUILDERS: dict[str, Build] = {
    "main": _main,
    "controls": _controls,
    "alpha_sweep": _alpha_sweep,
    "directions": _with_paper(paper.DIRECTIONS),
    "measures": _with_paper(paper.MEASURES),
    "losses": _with_paper(paper.LOSSES),
    "pronouns": _pronouns,
    "distance": _distance,
    "bt_ft": _with_paper(paper.BACK_TRANSLATION),
    "low_resource": _low_resource,
    "noisy_context": _noisy_context,
    "pos": _pos,
}
# Experiments -> title, name in the navigation, and what is asked.
_SECTIONS: dict[tuple[str, ...], tuple[str, str, str]] = {
    ("main",): ("Main results", "Main", ""),
    ("controls", "alpha_sweep"): (
        "Does importance beat the uniform control?",
        "Importance or not?",
        "The uniform control has the same two views and the same three losses as IADA, but every "
        "token is replaced with the same probability. What IADA gains over it is the work of "
        "importance; what the control gains over Doc2Doc is the work of the objective.",
    ),
    ("directions",): (
        "Directions of importance",
        "Directions",
        "↑ perturbs important tokens more often, ↓ less often. The paper's choice is context ↓, "
        "current ↑.",
    ),
    ("measures",): (
        "Measures and normalisation",
        "Measures",
        "Random replaces importance by noise of the same spread and keeps all three losses.",
    ),
    ("losses",): ("Terms of the loss", "Losses", "“−” leaves a term of the loss out."),
    ("pronouns",): ("Pronouns by class", "Pronouns", ""),
    ("distance",): ("Distance of the antecedent", "Distance", ""),
    ("bt_ft",): (
        "Back-translation and forward-translation",
        "BT and FT",
        "DocBT and DocFT double the training data by translated documents.",
    ),
    ("low_resource",): ("Few training documents", "Low resource", ""),
    ("noisy_context",): (
        "Noisy context",
        "Noise",
        "Two of three context sentences of each training window come from other documents; the "
        "test is the usual one.",
    ),
    ("pos",): ("Parts of speech of perturbed tokens", "Parts of speech", ""),
}
EXPERIMENTS = tuple(name for names in _SECTIONS for name in names)
"""Names of the experiments, in the order of the page."""
