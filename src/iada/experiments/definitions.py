"""The experiments: which systems are in which table, what they are compared with, how it is shown.

An experiment is one function here and one line in `EXPERIMENTS`, at the end. All else follows from
what the function returns. Nothing here knows of folders or processes: see `iada.experiments.grid`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from iada.config.model import ARCHITECTURES, Architecture
from iada.errors import ConfigError, did_you_mean
from iada.experiments.plan import (
    Change,
    Experiment,
    PlannedRow,
    Ranges,
    Synthetic,
    System,
    changed_row,
    gtrans_mbart,
    matched_row,
    plain_row,
)

ALL = "all"
"""Name that stands for every experiment."""
_SENTENCE_LEVEL = PlannedRow(
    "sentence_level", "Sentence-level", System("doc2doc", (("windows.context", 0),))
)
_DOC2DOC = PlannedRow("doc2doc", "Doc2Doc", System("doc2doc"))
_WORD_REPLACE = PlannedRow("word_replace", "WordRepl", System("word_replace"))
_TNORM = PlannedRow("iada_replace_tnorm", "IADA (Repl, TNorm)", System("iada_replace_tnorm"))
_GNORM = PlannedRow("iada_replace_gnorm", "IADA (Repl, GNorm)", System("iada_replace_gnorm"))
_RANDOM = PlannedRow("iada_replace_random", "IADA (Repl, Random)", System("iada_replace_random"))
_UNIFORM = PlannedRow(
    "uniform_replace_all_losses",
    "Uniform (Repl, all losses)",
    System("uniform_replace_all_losses"),
)
_FOUR = (_DOC2DOC, _WORD_REPLACE, _TNORM, _GNORM)
# With the control that tells importance apart from the two-view objective.
_FIVE = (_DOC2DOC, _WORD_REPLACE, _UNIFORM, _TNORM, _GNORM)
_MEASURES = (("tnorm", "TNorm", _TNORM), ("gnorm", "GNorm", _GNORM))
# The paper's document-level systems, as its authors ran or quoted them: HAN-joint, DocFlat_D.
_ARCHITECTURES: tuple[tuple[Architecture, str, tuple[Change, ...]], ...] = (
    ("han", "HAN", (("model.context_sides", "both"),)),
    ("san", "SAN", ()),
    ("hybrid", "Hybrid", ()),
    ("flat", "FlatTrans", ()),
    ("gtrans", "GTrans", ()),
    ("docflat", "DocFlat", (("model.gate", "hard"),)),
)


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
    mbart, left_out = gtrans_mbart(_on_architecture(_DOC2DOC, "gtrans"), ranges.mbart)
    rows = (
        _SENTENCE_LEVEL,
        _DOC2DOC,
        plain_row("word_drop", "WordDrop"),
        _WORD_REPLACE,
        plain_row("bpe_dropout", "BPE-dropout"),
        plain_row("cipher", "CipherDAug"),
        *(_on_architecture(_DOC2DOC, name) for name, *_ in _ARCHITECTURES),
        *mbart,
        plain_row("iada_drop_tnorm", "IADA (Drop, TNorm)"),
        plain_row("iada_drop_gnorm", "IADA (Drop, GNorm)"),
        _TNORM,
        _GNORM,
    )
    return Experiment("main", "Main results", rows, "doc2doc", "", "Main", left_out=left_out)


def _on_architecture(row: PlannedRow, name: Architecture) -> PlannedRow:
    """Return a row on another architecture; an augmented one lets gradients reach all context."""
    (title, changes), *_ = [(title, c) for other, title, c in _ARCHITECTURES if other == name]
    label = title if row is _DOC2DOC else f"{title} + {row.label}"
    changes = (("model.architecture", name), *changes)
    if row is not _DOC2DOC and "stop_context" in ARCHITECTURES[name].keys:
        # GNorm would find that no context token matters, and all rows differ in one thing.
        changes, label = (*changes, ("model.stop_context", False)), f"{label}, gradients flow"
    key = name if row is _DOC2DOC else f"{name}_{row.key}"
    return replace(changed_row(row, key, label, *changes), series=title)


def _architectures(__: Ranges) -> Experiment:
    rows = [replace(row, series="Doc2Doc") for row in (_DOC2DOC, _UNIFORM, _TNORM, _GNORM)]
    for name, *_ in _ARCHITECTURES:
        plain = _on_architecture(_DOC2DOC, name)
        augmented = (_on_architecture(row, name) for row in (_UNIFORM, _TNORM, _GNORM))
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
        for measure, label, row in _MEASURES
        for context, current in (("down", "up"), ("up", "down"), ("down", "down"), ("up", "up"))
    )
    return Experiment(
        "directions",
        "Which tokens to perturb: directions of importance",
        (_WORD_REPLACE, _DOC2DOC, _UNIFORM, *rows),
        "doc2doc",
        heading="Directions of importance",
        navigation="Directions",
        question="↑ perturbs important tokens more often, ↓ less often. The paper's choice is "
        "context ↓, current ↑.",
    )


def _measures(_: Ranges) -> Experiment:
    normalised = (replace(row, series="Normalised") for row in (_TNORM, _GNORM, _RANDOM))
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
        for row in (_TNORM, _GNORM)
    )
    return Experiment(
        "measures",
        "Measures of importance and normalisation",
        (_WORD_REPLACE, _DOC2DOC, *normalised, *raw),
        "doc2doc",
        heading="Measures and normalisation",
        navigation="Measures",
        question="Random replaces importance by noise of the same spread and keeps all three "
        "losses.",
    )


def _losses(_: Ranges) -> Experiment:
    rows = [_WORD_REPLACE, _DOC2DOC]
    for measure, label, row in _MEASURES:
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
        (_SENTENCE_LEVEL, *_FOUR),
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
        (_SENTENCE_LEVEL, *_FOUR),
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
    for row in (_DOC2DOC, _TNORM, _GNORM):
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
        for row in _FIVE
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
    gold = (replace(row, series="Gold context") for row in _FIVE)
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
        for row in _FIVE
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
        (_WORD_REPLACE, _TNORM, _GNORM),
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
        (_DOC2DOC, _GNORM),
        "doc2doc",
        heading="Agreement of measures",
        navigation="Agreement",
        compares_measures=True,
        tables=("agreement",),
    )


def _alpha_sweep(ranges: Ranges) -> Experiment:
    alphas = sorted(ranges.alphas)
    rows = [
        replace(
            changed_row(_GNORM, f"alpha_{alpha:g}", f"α = {alpha:g}", ("augment.alpha", alpha)),
            series=_GNORM.label,
            value=alpha,
        )
        for alpha in alphas
    ]
    # A stronger tilt also replaces more tokens, unless the mean probability is kept.
    rows += [
        replace(
            matched_row(row, row.key, row.label), series=matched_row(_GNORM, "", _GNORM.label).label
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
    # The control at other rates: is it the amount of noise?
    uniform = (
        changed_row(
            _UNIFORM,
            f"{_UNIFORM.key}_{rate:g}",
            f"{_UNIFORM.label}, p = {rate:g}",
            ("augment.p_context", rate),
            ("augment.p_current", rate),
        )
        for rate in sorted(ranges.rates)
    )
    # A tilt that can be felt, and no more noise than the control has.
    strong = (
        matched_row(
            changed_row(row, "", "", ("augment.alpha", 1.0)),
            f"{row.key}_alpha_1",
            f"{row.label}, α = 1",
        )
        for row in (_TNORM, _GNORM)
    )
    rows = (
        _SENTENCE_LEVEL,
        _DOC2DOC,
        _WORD_REPLACE,
        plain_row("coword_drop", "CoWord dropout"),
        plain_row("r_drop", "R-Drop"),
        plain_row("simcut", "SimCut"),
        _UNIFORM,
        *uniform,
        _RANDOM,
        matched_row(_RANDOM, _RANDOM.key, _RANDOM.label),
        _GNORM,
        matched_row(_GNORM, _GNORM.key, _GNORM.label),
        *strong,
    )
    return Experiment(
        "controls",
        "Importance or two views?",
        rows,
        # What uniform replacement reaches with the same losses is not due to importance.
        "uniform_replace_all_losses",
        navigation="Importance or not?",
        question="The uniform control has the same two views and the same three losses as IADA, "
        "but every token is replaced with the same probability. What IADA gains over it is due to "
        "importance; what the control gains over Doc2Doc is due to the objective.",
        answer="importance",
        tables=("differences", "systems"),
    )


EXPERIMENTS: dict[str, Callable[[Ranges], Experiment]] = {
    "main": _main,
    "architectures": _architectures,
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
