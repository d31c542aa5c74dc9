"""The systems of the tables: named rows that experiments share, and how others are made of them."""

from collections.abc import Sequence
from dataclasses import replace

from iada.config.model import ARCHITECTURES, Architecture
from iada.experiments.plan import Change, PlannedRow, System


def plain_row(method: str, label: str) -> PlannedRow:
    """Return the row of a method as it is."""
    return PlannedRow(method, label, System(method))


def changed_row(row: PlannedRow, key: str, label: str, *changes: Change) -> PlannedRow:
    """Return a row with keys that differ from those of another one."""
    system = replace(row.system, changes=row.system.changes + changes)
    return replace(row, key=key, label=label, system=system)


def lagged_row(row: PlannedRow, key: str, label: str) -> PlannedRow:
    """Let a row follow the training gradient of the draw before, which costs nothing."""
    change = ("augment.importance_pass", "lagged")
    return changed_row(row, f"{key}_lagged", f"{label}, lagged", change)


def matched_row(row: PlannedRow, key: str, label: str) -> PlannedRow:
    """Keep the mean replacement probability of a row at its initial value, whatever the tilt."""
    change = ("augment.budget", "matched")
    return changed_row(row, f"{key}_matched", f"{label}, matched budget", change)


SENTENCE_LEVEL = PlannedRow(
    "sentence_level", "Sentence-level", System("doc2doc", (("windows.context", 0),))
)
DOC2DOC = PlannedRow("doc2doc", "Doc2Doc", System("doc2doc"))
WORD_DROP = PlannedRow("word_drop", "WordDrop", System("word_drop"))
WORD_REPLACE = PlannedRow("word_replace", "WordRepl", System("word_replace"))
TNORM = PlannedRow("iada_replace_tnorm", "IADA (Repl, TNorm)", System("iada_replace_tnorm"))
GNORM = PlannedRow("iada_replace_gnorm", "IADA (Repl, GNorm)", System("iada_replace_gnorm"))
RANDOM = PlannedRow("iada_replace_random", "IADA (Repl, Random)", System("iada_replace_random"))
UNIFORM = PlannedRow(
    "uniform_replace_all_losses",
    "Uniform (Repl, all losses)",
    System("uniform_replace_all_losses"),
)
FOUR = (DOC2DOC, WORD_REPLACE, TNORM, GNORM)
# With the control that tells importance apart from the two-view objective.
FIVE = (DOC2DOC, WORD_REPLACE, UNIFORM, TNORM, GNORM)
MEASURES = (("tnorm", "TNorm", TNORM), ("gnorm", "GNorm", GNORM))
# The document-level systems of the paper's main table, as its authors ran or quoted them: HAN-joint
# and DocFlat_D.
SYSTEMS: tuple[tuple[Architecture, str, tuple[Change, ...]], ...] = (
    ("han", "HAN", (("model.context_sides", "both"),)),
    ("san", "SAN", ()),
    ("hybrid", "Hybrid", ()),
    ("flat", "FlatTrans", ()),
    ("gtrans", "GTrans", ()),
    ("docflat", "DocFlat", (("model.gate", "hard"),)),
)
WITH_WORD_DROPOUT: tuple[Architecture, ...] = ("gtrans", "docflat")
# Whole parts of documents at several resolutions, translated as they were learned.
MULTIRES = changed_row(
    DOC2DOC,
    "multires",
    "MultiRes",
    ("windows.strategy", "multires"),
    ("windows.loss_on", "all"),
    ("decode.unit", "part"),
)


def staged_row(row: PlannedRow, label: str = "two stages", *changes: Change) -> PlannedRow:
    """Return a row that begins with the weights of the sentence-level system of the same seed."""
    found = changed_row(row, f"{row.key}_staged", f"{row.label}, {label}", *changes)
    system = replace(found.system, start=SENTENCE_LEVEL.system)
    return replace(found, system=system, against=row.key)


def on_architecture(row: PlannedRow, name: Architecture) -> PlannedRow:
    """Return a row on another architecture; an augmented one lets gradients reach all context."""
    (title, changes), *_ = [(title, c) for other, title, c in SYSTEMS if other == name]
    label = title if row is DOC2DOC else f"{title} + {row.label}"
    changes = (("model.architecture", name), *changes)
    if row is not DOC2DOC and "stop_context" in ARCHITECTURES[name].keys:
        # GNorm would find that no context token matters, and all rows are to differ in one thing.
        changes, label = (*changes, ("model.stop_context", False)), f"{label}, gradients flow"
    key = name if row is DOC2DOC else f"{name}_{row.key}"
    return replace(changed_row(row, key, label, *changes), series=title)


def stage_rows() -> tuple[PlannedRow, ...]:
    """Return systems from scratch, each followed by the same as a second stage."""
    rows = [SENTENCE_LEVEL, DOC2DOC, staged_row(DOC2DOC), WORD_DROP, staged_row(WORD_DROP)]
    han, san = (on_architecture(DOC2DOC, name) for name in ("han", "san"))
    frozen = ("model.frozen_context", True)
    rows += [han, staged_row(han), san, staged_row(san, "two stages, frozen context", frozen)]
    for name in WITH_WORD_DROPOUT:
        for row in (on_architecture(DOC2DOC, name), on_architecture(WORD_DROP, name)):
            rows += [row, staged_row(row)]
    return tuple(rows)


def control_rows(rates: Sequence[float]) -> tuple[PlannedRow, ...]:
    """Return what tells importance apart from the objective and from the amount of noise."""
    # The control at other rates: is it the amount of noise?
    uniform = (
        changed_row(
            UNIFORM,
            f"{UNIFORM.key}_{rate:g}",
            f"{UNIFORM.label}, p = {rate:g}",
            ("augment.p_context", rate),
            ("augment.p_current", rate),
        )
        for rate in sorted(rates)
    )
    # A tilt that can be felt, and no more noise than the control has.
    strong = (
        matched_row(
            changed_row(row, "", "", ("augment.alpha", 1.0)),
            f"{row.key}_alpha_1",
            f"{row.label}, α = 1",
        )
        for row in (TNORM, GNORM)
    )
    return (
        SENTENCE_LEVEL,
        DOC2DOC,
        WORD_REPLACE,
        plain_row("coword_drop", "CoWord dropout"),
        plain_row("r_drop", "R-Drop"),
        plain_row("simcut", "SimCut"),
        UNIFORM,
        *uniform,
        RANDOM,
        matched_row(RANDOM, RANDOM.key, RANDOM.label),
        GNORM,
        matched_row(GNORM, GNORM.key, GNORM.label),
        *strong,
        lagged_row(GNORM, GNORM.key, GNORM.label),
    )


def pretrained_changes(checkpoint: str) -> tuple[Change, ...]:
    """Return what starts a row from a checkpoint, whose tokenizer reads the text as it is."""
    return (("model.pretrained", checkpoint), ("subwords.pretokenize", "none"))


def gtrans_mbart(
    gtrans: PlannedRow, checkpoint: str | None
) -> tuple[tuple[PlannedRow, ...], tuple[str, ...]]:
    """Return the row of G-Transformer inside mBART; without a checkpoint, what it needs.

    A reconstruction: the released learning rate, warm-up and smoothing, but our schedule and the
    dropout of the checkpoint.
    """
    label = "GTrans + mBART (reconstruction)"
    if checkpoint is None:
        return (), (f"{label}: give a checkpoint with `--mbart`",)
    recipe: tuple[Change, ...] = (
        *pretrained_changes(checkpoint),
        ("train.learning_rate", 3e-5),
        ("train.warmup_updates", 2500),
        ("train.label_smoothing", 0.2),
    )
    return (changed_row(gtrans, "gtrans_mbart", label, *recipe),), ()


def bert_rows(checkpoint: str | None) -> tuple[tuple[PlannedRow, ...], tuple[str, ...]]:
    """Return the rows of systems whose encoder is a BERT; without a checkpoint, what they need.

    Reconstructions: no recipe is published. The decoder is that of the row from scratch, the
    encoder learns at `train.start_rate`, and everything else is the usual.
    """
    rows = []
    names: tuple[Architecture, ...] = ("flat", "gtrans")
    for name in names:
        row = on_architecture(DOC2DOC, name)
        label = f"{row.label} + BERT (reconstruction)"
        changes = pretrained_changes(str(checkpoint))
        rows.append(changed_row(row, f"{name}_bert", label, *changes))
    if checkpoint is None:
        return (), tuple(f"{row.label}: give a checkpoint with `--bert`" for row in rows)
    return tuple(rows), ()
