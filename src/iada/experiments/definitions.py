"""The experiments: which systems are in which table, what they are compared with, how it is shown.

An experiment is one function here and one line in `EXPERIMENTS`, at the end. All else follows from
what the function returns. Nothing here knows of folders or processes: see `iada.experiments.grid`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from iada.errors import ConfigError, did_you_mean
from iada.experiments.plan import Experiment, PlannedRow, Ranges, Synthetic
from iada.experiments.systems import (
    DOC2DOC,
    FIVE,
    FOUR,
    GNORM,
    MEASURES,
    MULTIRES,
    RANDOM,
    SENTENCE_LEVEL,
    SYSTEMS,
    TNORM,
    UNIFORM,
    WITH_WORD_DROPOUT,
    WORD_DROP,
    WORD_REPLACE,
    bert_rows,
    changed_row,
    control_rows,
    gtrans_mbart,
    matched_row,
    on_architecture,
    plain_row,
    stage_rows,
)

ALL = "all"
"""Name that stands for every experiment."""


def choose_experiments(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the experiments to run, each once, in their usual order.

    Raises:
        ConfigError: a name is not that of an experiment.
    """
    for name in names:
        if name not in (*EXPERIMENTS, ALL):
            raise ConfigError(
                f"`names` has `{name}`, but there is no such experiment. "
                f"{did_you_mean(name, [*EXPERIMENTS, ALL])}"
            )
    return tuple(name for name in EXPERIMENTS if ALL in names or name in names)


def build_experiment(name: str, ranges: Ranges | None = None) -> Experiment:
    """Return an experiment with its rows.

    Args:
        name: which one, of `experiment_names`.
        ranges: of what it varies.
    """
    experiment = EXPERIMENTS[name](ranges or Ranges())
    baseline = experiment.baseline
    rows = (
        row if row.against or row.key == baseline else replace(row, against=baseline)
        for row in experiment.rows
    )
    # A row that is compared with itself is one that others are compared with.
    rows = (replace(row, against=None) if row.against == row.key else row for row in rows)
    return replace(experiment, rows=tuple(rows))


def experiment_names() -> tuple[str, ...]:
    """Return the names of all experiments, in the order of the report."""
    return tuple(EXPERIMENTS)


def _main(ranges: Ranges) -> Experiment:
    mbart, without_mbart = gtrans_mbart(on_architecture(DOC2DOC, "gtrans"), ranges.mbart)
    bert, without_bert = bert_rows(ranges.bert)
    rows = (
        SENTENCE_LEVEL,
        DOC2DOC,
        WORD_DROP,
        WORD_REPLACE,
        plain_row("bpe_dropout", "BPE-dropout"),
        plain_row("cipher", "CipherDAug"),
        *(on_architecture(DOC2DOC, name) for name, *_ in SYSTEMS),
        *bert,
        *mbart,
        # Published with word dropout, which is worth something by itself.
        *(on_architecture(WORD_DROP, name) for name in WITH_WORD_DROPOUT),
        MULTIRES,
        plain_row("iada_drop_tnorm", "IADA (Drop, TNorm)"),
        plain_row("iada_drop_gnorm", "IADA (Drop, GNorm)"),
        TNORM,
        GNORM,
    )
    return Experiment(
        "main",
        "Main results",
        rows,
        "doc2doc",
        navigation="Main",
        tables=("systems", "costs"),
        left_out=(*without_bert, *without_mbart),
    )


def _architectures(__: Ranges) -> Experiment:
    rows = [replace(row, series="Doc2Doc") for row in (DOC2DOC, UNIFORM, TNORM, GNORM)]
    for name, *_ in SYSTEMS:
        plain = on_architecture(DOC2DOC, name)
        augmented = (on_architecture(row, name) for row in (UNIFORM, TNORM, GNORM))
        rows += [plain, *(replace(row, against=plain.key) for row in augmented)]
    return Experiment(
        "architectures",
        "Importance-aware augmentation on every architecture",
        tuple(rows),
        "doc2doc",
        heading="Architectures",
        navigation="Architectures",
        question="Does augmentation add to what an architecture gains by itself? Each architecture "
        "is compared with Doc2Doc, its augmented forms with itself. The uniform control tells what "
        "the two views alone are worth. Where an original stops gradients at context, augmented "
        "rows let them flow, because GNorm could not see context otherwise.",
        tables=("systems", "costs"),
    )


def _stages(_: Ranges) -> Experiment:
    return Experiment(
        "stages",
        "From scratch or in two stages",
        stage_rows(),
        "doc2doc",
        heading="Stages",
        navigation="Stages",
        question="HAN, SAN, G-Transformer and DocFlat were published as second stages of a "
        "sentence-level system, the last two with word dropout. Each second stage is compared with "
        "the same system from scratch, which has had fewer updates in all.",
        tables=("systems", "costs"),
    )


def _directions(_: Ranges) -> Experiment:
    arrows = {"up": "↑", "down": "↓"}
    rows = tuple(
        replace(
            changed_row(
                row,
                f"{measure}_{context}_{current}",
                f"{label}, context {arrows[context]}, current {arrows[current]}",
                ("augment.context_direction", context),
                ("augment.current_direction", current),
            ),
            series=label,
        )
        for measure, label, row in MEASURES
        for context, current in (("down", "up"), ("up", "down"), ("down", "down"), ("up", "up"))
    )
    return Experiment(
        "directions",
        "Which tokens to perturb: directions of importance",
        (WORD_REPLACE, DOC2DOC, UNIFORM, *rows),
        "doc2doc",
        heading="Directions of importance",
        navigation="Directions",
        question="↑ perturbs important tokens more often, ↓ less often. The paper's choice is "
        "context ↓, current ↑.",
    )


def _measures(_: Ranges) -> Experiment:
    normalised = (replace(row, series="Normalised") for row in (TNORM, GNORM, RANDOM))
    raw = (
        replace(
            changed_row(
                row,
                f"{row.key}_not_normalised",
                f"{row.label}, not normalised",
                ("augment.normalize", "none"),
            ),
            series="Not normalised",
        )
        for row in (TNORM, GNORM)
    )
    return Experiment(
        "measures",
        "Measures of importance and normalisation",
        (WORD_REPLACE, DOC2DOC, *normalised, *raw),
        "doc2doc",
        heading="Measures and normalisation",
        navigation="Measures",
        question="Random replaces importance by noise of the same spread and keeps all three "
        "losses.",
    )


def _losses(_: Ranges) -> Experiment:
    rows = [WORD_REPLACE, DOC2DOC]
    for measure, label, row in MEASURES:
        rows.append(replace(row, series=label))
        rows += [
            replace(
                changed_row(
                    row,
                    f"{measure}_without_{loss}",
                    f"{row.label} − {loss} loss",
                    (f"augment.weight_{loss}", 0.0),
                ),
                series=label,
            )
            for loss in ("original", "perturbed", "agreement")
        ]
    return Experiment(
        "losses",
        "Terms of the loss",
        tuple(rows),
        "doc2doc",
        navigation="Losses",
        question="“−” leaves a term of the loss out.",
    )


def _pronouns(_: Ranges) -> Experiment:
    return Experiment(
        "pronouns",
        "Pronouns by class",
        (SENTENCE_LEVEL, *FOUR),
        "doc2doc",
        navigation="Pronouns",
        breakdown="class",
        figure="classes",
        caption="Pronoun accuracy by the correct pronoun. A system that always writes the most "
        "frequent one is right there and wrong elsewhere.",
        tables=("classes",),
    )


def _distance(_: Ranges) -> Experiment:
    return Experiment(
        "distance",
        "Pronouns by distance of the antecedent",
        (SENTENCE_LEVEL, *FOUR),
        "doc2doc",
        heading="Distance of the antecedent",
        navigation="Distance",
        breakdown="distance",
        figure="distance_gains",
        caption="Pronoun accuracy above the baseline's, by the number of sentences between the "
        "pronoun and its antecedent. Where the antecedent lies outside the window, no system can "
        "see it: gains there do not come from context.",
        tables=("distance_gains", "distances"),
    )


def _bt_ft(_: Ranges) -> Experiment:
    kinds: tuple[tuple[Synthetic, str, str], ...] = (
        ("back_translate", "bt", "DocBT"),
        ("forward_translate", "ft", "DocFT"),
    )
    rows = []
    for row in (DOC2DOC, TNORM, GNORM):
        rows.append(replace(row, series="real"))
        rows += [
            PlannedRow(
                f"{row.key}_{short}",
                f"{row.label} + {label}",
                replace(row.system, synthetic=kind),
                series=label,
            )
            for kind, short, label in kinds
        ]
    return Experiment(
        "bt_ft",
        "With back-translation and forward-translation",
        tuple(rows),
        "doc2doc",
        heading="Back-translation and forward-translation",
        navigation="BT and FT",
        question="DocBT and DocFT double the training data with translated documents.",
    )


def _low_resource(ranges: Ranges) -> Experiment:
    shares = sorted(ranges.shares)
    rows = tuple(
        replace(
            changed_row(
                row,
                _at(row.key, share),
                f"{row.label}, {share:.0%} of the documents",
                ("data.subset", share),
            ),
            series=row.label,
            value=share,
            against=_at("doc2doc", share),
        )
        for share in shares
        for row in FIVE
    )
    return Experiment(
        "low_resource",
        "Few training documents",
        rows,
        _at("doc2doc", shares[-1]),
        navigation="Low resource",
        axis="data.subset",
        figure="share_gains",
        caption="Score above the baseline's on the same share of the documents.",
        tables=("shares",),
    )


def _at(key: str, share: float) -> str:
    return f"{key}_{share * 100:g}"


def _noisy_context(_: Ranges) -> Experiment:
    gold = (replace(row, series="Gold context") for row in FIVE)
    noisy = (
        replace(
            changed_row(
                row,
                f"{row.key}_noisy",
                f"{row.label}, noisy context",
                ("windows.noisy_context", 2),
            ),
            series="Noisy context",
            against="doc2doc_noisy",
        )
        for row in FIVE
    )
    return Experiment(
        "noisy_context",
        "Noisy context",
        (*gold, *noisy),
        "doc2doc",
        navigation="Noise",
        question="Two of three context sentences of each training window come from other "
        "documents; the test set is unchanged.",
        tables=("noise",),
    )


def _pos(_: Ranges) -> Experiment:
    return Experiment(
        "pos",
        "Parts of speech of the perturbed tokens",
        (WORD_REPLACE, TNORM, GNORM),
        "word_replace",
        heading="Parts of speech of perturbed tokens",
        navigation="Parts of speech",
        has_pos=True,
        figure="tags",
        caption="Parts of speech among the perturbed tokens.",
        tables=("tags",),
    )


def _agreement(_: Ranges) -> Experiment:
    return Experiment(
        "agreement",
        "What measures of importance agree on",
        (DOC2DOC, GNORM),
        "doc2doc",
        heading="Agreement of measures",
        navigation="Agreement",
        question="A tilt follows the order of scores within a window. Do measures order the same "
        "tokens first, which parts of speech are these, and do they find the words that context "
        "must decide?",
        compares_measures=True,
        tables=("agreement",),
    )


def _alpha_sweep(ranges: Ranges) -> Experiment:
    alphas = sorted(ranges.alphas)
    rows = [
        replace(
            changed_row(GNORM, f"alpha_{alpha:g}", f"α = {alpha:g}", ("augment.alpha", alpha)),
            series=GNORM.label,
            value=alpha,
        )
        for alpha in alphas
    ]
    # A stronger tilt also replaces more tokens, unless the mean probability is kept.
    rows += [
        replace(
            matched_row(row, row.key, row.label), series=matched_row(GNORM, "", GNORM.label).label
        )
        for row in rows
        if row.value
    ]
    return Experiment(
        "alpha_sweep",
        "How far importance tilts the probabilities",
        tuple(rows),
        f"alpha_{alphas[0]:g}",
        shown_with="controls",
        axis="augment.alpha",
        answer="sweep",
        figure="sweep",
        caption="Scores by α, which sets how far importance tilts the probabilities of "
        "replacement; the steps are not to scale. At α = 0 all tokens are alike; the paper uses "
        "0.1. With a free budget, as in the paper, more tokens are replaced the larger α is; with "
        "a matched budget, always the same share.",
    )


def _controls(ranges: Ranges) -> Experiment:
    return Experiment(
        "controls",
        "Importance or two views?",
        control_rows(ranges.rates),
        # What uniform replacement reaches with the same losses is not due to importance.
        "uniform_replace_all_losses",
        navigation="Importance or not?",
        question="The uniform control has the same two views and the same three losses as IADA, "
        "but every token is replaced with the same probability. What IADA gains over it is due to "
        "importance; what the control gains over Doc2Doc is due to the objective.",
        answer="importance",
        tables=("differences", "systems", "classes", "distances"),
    )


EXPERIMENTS: dict[str, Callable[[Ranges], Experiment]] = {
    "main": _main,
    "architectures": _architectures,
    "stages": _stages,
    "controls": _controls,
    "alpha_sweep": _alpha_sweep,
    "directions": _directions,
    "measures": _measures,
    "losses": _losses,
    "pronouns": _pronouns,
    "distance": _distance,
    "bt_ft": _bt_ft,
    "low_resource": _low_resource,
    "noisy_context": _noisy_context,
    "pos": _pos,
    "agreement": _agreement,
}
"""Every experiment by name, in the order of the report. A new experiment is one more line."""
