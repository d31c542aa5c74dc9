"""What an experiment is before it is run: systems, rows and what is compared with what.

A system is a method and the keys in which it departs from the method.

The experiments: which systems stand in which table, and what they are compared with.

Nothing here knows of folders or processes: see `iada.experiments.grid`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from iada.config.experiment import ExperimentName
from iada.errors import ConfigError, did_you_mean

Synthetic = Literal["back_translate", "forward_translate"]
Change = tuple[str, str | int | float]
"""Configuration key and value."""


@dataclass(frozen=True)
class System:
    """What is trained, whatever the seed."""

    method: str
    changes: tuple[Change, ...] = ()
    """Keys that differ from the method's usual values."""
    synthetic: Synthetic | None = None
    """How the other half of the training data is made; None for real data alone."""
    reverse: bool = False
    """Translate from the target language into the source language."""


@dataclass(frozen=True)
class PlannedRow:
    """A row of a table before it has numbers."""

    key: str
    label: str
    system: System
    series: str | None = None
    value: float | None = None
    against: str | None = None
    """Key of the row to compare with; None for one that others are compared with."""


@dataclass(frozen=True)
class Experiment:
    """A table or figure."""

    name: ExperimentName
    title: str
    rows: tuple[PlannedRow, ...]
    baseline: str
    """Key of the row that the others are compared with, unless they say otherwise."""
    axis: str | None = None
    """Key whose values order the rows of a curve."""
    breakdown: Literal["class", "distance"] | None = None
    """Part of the contrastive accuracy to show."""
    has_pos: bool = False
    """Whether to count the parts of speech of perturbed tokens."""


_SENTENCE_LEVEL = PlannedRow(
    "sentence_level", "Sentence-level", System("doc2doc", (("windows.context", 0),))
)
_DOC2DOC = PlannedRow("doc2doc", "Doc2Doc", System("doc2doc"))
_WORD_REPLACE = PlannedRow("word_replace", "WordRepl", System("word_replace"))
_TNORM = PlannedRow("iada_replace_tnorm", "IADA (Repl, TNorm)", System("iada_replace_tnorm"))
_GNORM = PlannedRow("iada_replace_gnorm", "IADA (Repl, GNorm)", System("iada_replace_gnorm"))
_RANDOM = PlannedRow("iada_replace_random", "IADA (Repl, Random)", System("iada_replace_random"))
_FOUR = (_DOC2DOC, _WORD_REPLACE, _TNORM, _GNORM)
_MEASURES = (("tnorm", "TNorm", _TNORM), ("gnorm", "GNorm", _GNORM))


def build_experiment(
    name: ExperimentName, *, shares: Sequence[float], alphas: Sequence[float]
) -> Experiment:
    """Return an experiment with its rows.

    Args:
        name: which one.
        shares: of the training documents, for `low_resource`.
        alphas: for `alpha_sweep`.
    """
    if name == "low_resource":
        experiment = _low_resource(sorted(shares))
    elif name == "alpha_sweep":
        experiment = _alpha_sweep(sorted(alphas))
    else:
        experiment = _EXPERIMENTS[name]()
    baseline = experiment.baseline
    rows = (
        row if row.against or row.key == baseline else replace(row, against=baseline)
        for row in experiment.rows
    )
    # A row that is compared with itself is one that others are compared with.
    rows = (replace(row, against=None) if row.against == row.key else row for row in rows)
    return replace(experiment, rows=tuple(rows))


def with_rows(experiment: Experiment, keys: Sequence[str]) -> Experiment:
    """Return an experiment with some of its rows and those that they are compared with.

    Raises:
        ConfigError: a key is no row of the experiment.
    """
    known = [row.key for row in experiment.rows]
    for key in keys:
        if key not in known:
            raise ConfigError(
                f"`rows` has `{key}`, but `{experiment.name}` has no such row. "
                f"{did_you_mean(key, known)}"
            )
    kept = {experiment.baseline, *keys}
    kept |= {row.against for row in experiment.rows if row.key in kept and row.against}
    return replace(experiment, rows=tuple(row for row in experiment.rows if row.key in kept))


def _plain(method: str, label: str) -> PlannedRow:
    return PlannedRow(method, label, System(method))


def _changed(row: PlannedRow, key: str, label: str, *changes: Change) -> PlannedRow:
    system = replace(row.system, changes=row.system.changes + changes)
    return replace(row, key=key, label=label, system=system)


def _main() -> Experiment:
    rows = (
        _SENTENCE_LEVEL,
        _DOC2DOC,
        _plain("word_drop", "WordDrop"),
        _WORD_REPLACE,
        _plain("bpe_dropout", "BPE-dropout"),
        _plain("cipher", "CipherDAug"),
        _plain("iada_drop_tnorm", "IADA (Drop, TNorm)"),
        _plain("iada_drop_gnorm", "IADA (Drop, GNorm)"),
        _TNORM,
        _GNORM,
    )
    return Experiment("main", "Main results", rows, "doc2doc")


def _directions() -> Experiment:
    arrows = {"up": "↑", "down": "↓"}
    rows = tuple(
        replace(
            _changed(
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
    title = "Which tokens to perturb: directions of importance"
    return Experiment("directions", title, (_WORD_REPLACE, _DOC2DOC, *rows), "doc2doc")


def _measures() -> Experiment:
    normalised = (replace(row, series="Normalised") for row in (_TNORM, _GNORM, _RANDOM))
    raw = (
        replace(
            _changed(
                row,
                f"{row.key}_not_normalised",
                f"{row.label}, not normalised",
                ("augment.normalize", "none"),
            ),
            series="Not normalised",
        )
        for row in (_TNORM, _GNORM)
    )
    rows = (_WORD_REPLACE, _DOC2DOC, *normalised, *raw)
    return Experiment("measures", "Measures of importance and normalisation", rows, "doc2doc")


def _losses() -> Experiment:
    rows = [_WORD_REPLACE, _DOC2DOC]
    for measure, label, row in _MEASURES:
        rows.append(replace(row, series=label))
        rows += [
            replace(
                _changed(
                    row,
                    f"{measure}_without_{loss}",
                    f"{row.label} − {loss} loss",
                    (f"augment.weight_{loss}", 0.0),
                ),
                series=label,
            )
            for loss in ("original", "perturbed", "agreement")
        ]
    return Experiment("losses", "Terms of the loss", tuple(rows), "doc2doc")


def _pronouns() -> Experiment:
    rows = (_SENTENCE_LEVEL, *_FOUR)
    return Experiment("pronouns", "Pronouns by class", rows, "doc2doc", breakdown="class")


def _distance() -> Experiment:
    title = "Pronouns by distance of the antecedent"
    rows = (_SENTENCE_LEVEL, *_FOUR)
    return Experiment("distance", title, rows, "doc2doc", breakdown="distance")


def _bt_ft() -> Experiment:
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
    title = "With back-translation and forward-translation"
    return Experiment("bt_ft", title, tuple(rows), "doc2doc")


def _low_resource(shares: Sequence[float]) -> Experiment:
    rows = tuple(
        replace(
            _changed(
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
        for row in _FOUR
    )
    title = "Few training documents"
    return Experiment("low_resource", title, rows, _at("doc2doc", shares[-1]), axis="data.subset")


def _at(key: str, share: float) -> str:
    return f"{key}_{share * 100:g}"


def _noisy_context() -> Experiment:
    gold = (replace(row, series="Gold context") for row in _FOUR)
    noisy = (
        replace(
            _changed(
                row,
                f"{row.key}_noisy",
                f"{row.label}, noisy context",
                ("windows.noisy_context", 2),
            ),
            series="Noisy context",
            against="doc2doc_noisy",
        )
        for row in _FOUR
    )
    return Experiment("noisy_context", "Noisy context", (*gold, *noisy), "doc2doc")


def _pos() -> Experiment:
    title = "Parts of speech of the perturbed tokens"
    return Experiment("pos", title, (_WORD_REPLACE, _TNORM, _GNORM), "word_replace", has_pos=True)


def _alpha_sweep(alphas: Sequence[float]) -> Experiment:
    rows = tuple(
        replace(
            _changed(_GNORM, f"alpha_{alpha:g}", f"α = {alpha:g}", ("augment.alpha", alpha)),
            series=_GNORM.label,
            value=alpha,
        )
        for alpha in alphas
    )
    title = "How far importance tilts the probabilities"
    return Experiment("alpha_sweep", title, rows, f"alpha_{alphas[0]:g}", axis="augment.alpha")


def _controls() -> Experiment:
    rows = (
        _SENTENCE_LEVEL,
        _DOC2DOC,
        _WORD_REPLACE,
        _plain("coword_drop", "CoWord dropout"),
        _plain("r_drop", "R-Drop"),
        _plain("uniform_replace_all_losses", "Uniform (Repl, all losses)"),
        _RANDOM,
        _GNORM,
    )
    # What uniform replacement with the same losses reaches is not importance's doing.
    return Experiment("controls", "Importance or two views?", rows, "uniform_replace_all_losses")


_EXPERIMENTS: dict[ExperimentName, Callable[[], Experiment]] = {
    "main": _main,
    "directions": _directions,
    "measures": _measures,
    "losses": _losses,
    "pronouns": _pronouns,
    "distance": _distance,
    "bt_ft": _bt_ft,
    "noisy_context": _noisy_context,
    "pos": _pos,
    "controls": _controls,
}
