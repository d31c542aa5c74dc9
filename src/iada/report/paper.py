"""The numbers that the paper prints, each with its table and its setting; never ours.

Transcribed from "Importance-Aware Data Augmentation for Document-Level Neural Machine Translation"
(Wu et al., arXiv 2401.15360). A row with `settings` is the published value of what a run of ours
with these settings does, or with any of them where a row of the paper leaves open how it was made;
a row without has no counterpart among our methods. Systems are equal if their methods are, with
every augmentation key that the method implies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from iada.config.base import to_mapping
from iada.config.method import METHOD_NAMES, Method, augmentation
from iada.experiments.results import Results, Row

_PRETRAINED = "model.pretrained"


def complete(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in the augmentation keys of the method, so that equal systems have equal settings."""
    method = settings.get("method")
    if _PRETRAINED in settings:
        # Wherever the checkpoint lies, and however the other rows read the text.
        settings = {**without(settings, "subwords.pretokenize"), _PRETRAINED: ""}
    if method not in METHOD_NAMES:
        return dict(settings)
    usual = to_mapping(augmentation(cast(Method, method)))
    return {f"augment.{key}": value for key, value in usual.items()} | dict(settings)


def without(settings: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Leave out keys, to find the same system at another place of an axis."""
    return {key: value for key, value in settings.items() if key not in keys}


def row_of_method(results: Results, method: str) -> Row | None:
    """Return the row of a method as it is, without changed keys; None if there is none."""
    wanted = complete({"method": method})
    return next((row for row in results.rows if complete(row.settings) == wanted), None)


Setting = str | int | float
Settings = Mapping[str, Setting]
"""Method and changed configuration keys."""

MODEL = "Transformer-base, about 64M parameters, one run"
"""How every number of the paper was made; it says nothing about seeds."""


@dataclass(frozen=True)
class PaperRow:
    """One published line."""

    label: str
    values: Mapping[str, float]
    """Column to number; what the paper leaves blank is absent."""
    settings: tuple[Settings, ...] = ()
    """Of each counterpart among our runs."""


@dataclass(frozen=True)
class PaperTable:
    """A published table, or the numbers behind a published figure."""

    name: str
    """Its number in the paper."""
    corpus: str
    columns: Mapping[str, str]
    """Key of a column to its heading."""
    rows: tuple[PaperRow, ...]

    @property
    def setting(self) -> str:
        """Where and how the numbers were measured."""
        return f"{self.name} of the paper: {self.corpus} English-German, {MODEL}"

    def row(self, settings: Mapping[str, Any]) -> PaperRow | None:
        """Return the row of a run with these settings (method and changed keys), if there is one.

        Keys that are not named have the value of the method.
        """
        wanted = complete(settings)
        for row in self.rows:
            if wanted in map(complete, row.settings):
                return row
        return None


Line = tuple[str, Settings | tuple[Settings, ...] | None, Sequence[float | None]]
_SCORES = {"s_bleu": "s-BLEU", "d_bleu": "d-BLEU", "comet": "COMET"}
_CONTEXT, _CURRENT = "augment.context_direction", "augment.current_direction"
_BACK, _FORWARD = "back_translate", "forward_translate"
_TNORM, _GNORM = "iada_replace_tnorm", "iada_replace_gnorm"
_PARTS: Settings = {
    "method": "doc2doc",
    "windows.strategy": "multires",
    "decode.unit": "part",
}


def _table(name: str, corpus: str, columns: Mapping[str, str], lines: Sequence[Line]) -> PaperTable:
    rows = []
    for label, settings, numbers in lines:
        pairs = zip(columns, numbers, strict=True)
        values = {key: number for key, number in pairs if number is not None}
        counterparts = settings if isinstance(settings, tuple) else (settings,)
        rows.append(PaperRow(label, values, tuple(filter(None, counterparts))))
    return PaperTable(name, corpus, columns, tuple(rows))


def _method(method: str, **changed: Setting) -> Settings:
    return {"method": method} | {f"augment.{key}": value for key, value in changed.items()}


def _architecture(name: str, *methods: str, **changed: Setting) -> tuple[Settings, ...]:
    """Return an architecture with plain training, and with each of `methods`."""
    keys = {f"model.{key}": value for key, value in changed.items()}
    return tuple(
        {"method": method, "model.architecture": name} | keys for method in ("doc2doc", *methods)
    )


def _staged(rows: tuple[Settings, ...], **changed: Setting) -> tuple[Settings, ...]:
    """Add the second stages of a sentence-level system, as the originals were trained."""
    keys = {f"model.{key}": value for key, value in changed.items()}
    start = {"start": "doc2doc, windows.context: 0"}
    return (*rows, *({**row, **keys, **start} for row in rows))


def _directions(method: str, context: str, current: str) -> Settings:
    return {"method": method, _CONTEXT: context, _CURRENT: current}


def _main(corpus: str, first: int) -> PaperTable:
    lines: list[Line] = [
        (label, settings, numbers[first : first + 3]) for label, settings, numbers in _MAIN_LINES
    ]
    return _table("Table 2", corpus, _SCORES, lines)


# TED, News and Europarl; s-BLEU, d-BLEU and COMET each.
_MAIN_LINES: tuple[Line, ...] = (
    (
        "HAN",
        _staged(_architecture("han", context_sides="both")),
        (24.6, None, None, 25.0, None, None, 28.6, None, None),
    ),
    (
        "SAN",
        _staged(_architecture("san"), frozen_context=True),
        (24.4, None, None, 24.8, None, None, 29.7, None, None),
    ),
    ("Hybrid", _architecture("hybrid"), (25.1, None, None, 24.9, None, None, 30.4, None, None)),
    ("FlatTrans", _architecture("flat"), (24.9, None, None, 23.6, None, None, 30.1, None, None)),
    # Published with word dropout, as DocFlat was.
    (
        "GTrans",
        _staged(_architecture("gtrans", "word_drop")),
        (25.1, 27.2, None, 25.5, 27.1, None, 32.4, 34.1, None),
    ),
    (
        "MultiRes",
        # The mini corpus learns from every sentence in any case.
        ({**_PARTS, "windows.loss_on": "all"}, _PARTS),
        (25.2, 29.3, None, 25.0, 26.7, None, 32.1, 34.5, None),
    ),
    (
        "DocFlat",
        _staged(_architecture("docflat", "word_drop", gate="hard")),
        (25.4, None, 31.0, 25.4, None, 21.2, 32.2, None, 59.9),
    ),
    ("WordDrop", _method("word_drop"), (24.5, 28.1, 26.6, 24.5, 26.7, 16.9, 31.6, 33.7, 59.0)),
    ("WordRepl", _method("word_replace"), (24.6, 28.5, 27.7, 24.9, 26.9, 18.0, 31.9, 33.8, 58.9)),
    (
        "BPEDropout",
        _method("bpe_dropout"),
        (25.1, 28.9, 28.8, 25.6, 27.4, 20.3, 32.2, 34.0, 59.9),
    ),
    ("CipherDAug", _method("cipher"), (24.2, 28.0, 19.7, 24.4, 26.7, 14.4, 31.4, 33.2, 58.5)),
    ("Doc2Doc", _method("doc2doc"), (24.3, 27.4, 23.5, 24.4, 26.4, 12.7, 31.2, 33.1, 58.4)),
    (
        "IADA Drop + TNorm",
        _method("iada_drop_tnorm"),
        (25.6, 29.3, 28.7, 26.2, 28.3, 20.1, 32.7, 34.9, 60.3),
    ),
    (
        "IADA Drop + GNorm",
        _method("iada_drop_gnorm"),
        (26.1, 29.6, 29.8, 26.3, 28.6, 20.7, 32.8, 35.0, 60.3),
    ),
    ("IADA Repl + TNorm", _method(_TNORM), (26.1, 29.7, 29.7, 26.3, 28.5, 20.8, 32.8, 34.8, 60.3)),
    ("IADA Repl + GNorm", _method(_GNORM), (26.2, 29.6, 29.8, 26.4, 28.7, 22.1, 33.0, 35.1, 60.4)),
    (
        "FlatTrans + BERT",
        _architecture("flat", pretrained=""),
        (26.6, None, None, 24.5, None, None, 32.0, None, None),
    ),
    (
        "GTrans + BERT",
        _architecture("gtrans", pretrained=""),
        (26.8, None, None, 26.1, None, None, 32.4, None, None),
    ),
    (
        "GTrans + mBART",
        {
            **_architecture("gtrans", pretrained="")[0],
            "train.learning_rate": 3e-5,
            "train.warmup_updates": 2500,
            "train.label_smoothing": 0.2,
        },
        (28.0, 30.0, None, 30.3, 31.7, None, 32.7, 34.3, None),
    ),
)
MAIN = {
    corpus.lower(): _main(corpus, first)
    for corpus, first in (("TED", 0), ("News", 3), ("Europarl", 6))
}
"""The main results by corpus: `ted`, `news`, `europarl`."""

_BASELINES: tuple[Line, ...] = (
    ("WordRepl", _method("word_replace"), (24.6, 28.5, 27.7)),
    ("Doc2Doc", _method("doc2doc"), (24.3, 27.4, 23.5)),
)
DIRECTIONS = _table(
    "Table 3",
    "TED",
    _SCORES,
    (
        *_BASELINES,
        ("TNorm, context ↓ current ↑", _directions(_TNORM, "down", "up"), (26.1, 29.7, 29.7)),
        ("TNorm, context ↑ current ↓", _directions(_TNORM, "up", "down"), (25.7, 28.9, 29.3)),
        ("TNorm, context ↓ current ↓", _directions(_TNORM, "down", "down"), (25.6, 28.4, 29.5)),
        ("TNorm, context ↑ current ↑", _directions(_TNORM, "up", "up"), (25.5, 28.3, 28.9)),
        ("GNorm, context ↓ current ↑", _directions(_GNORM, "down", "up"), (26.2, 29.6, 29.8)),
        ("GNorm, context ↑ current ↓", _directions(_GNORM, "up", "down"), (25.8, 28.5, 29.4)),
        ("GNorm, context ↓ current ↓", _directions(_GNORM, "down", "down"), (25.9, 28.8, 29.2)),
        ("GNorm, context ↑ current ↑", _directions(_GNORM, "up", "up"), (25.7, 28.6, 29.3)),
    ),
)
MEASURES = _table(
    "Table 4",
    "TED",
    _SCORES,
    (
        *_BASELINES,
        ("TNorm", _method(_TNORM, normalize="standard"), (26.1, 29.7, 29.7)),
        ("GNorm", _method(_GNORM, normalize="standard"), (26.2, 29.6, 29.8)),
        ("Random", _method("iada_replace_random", normalize="standard"), (24.6, 28.4, 25.4)),
        ("TNorm, not normalised", _method(_TNORM, normalize="none"), (24.5, 27.8, 25.0)),
        ("GNorm, not normalised", _method(_GNORM, normalize="none"), (24.7, 27.9, 25.2)),
    ),
)
LOSSES = _table(
    "Table 5",
    "TED",
    _SCORES,
    (
        *_BASELINES,
        ("TNorm", _method(_TNORM), (26.1, 29.7, 29.7)),
        ("TNorm − anchor loss", _method(_TNORM, weight_original=0.0), (25.2, 28.8, 28.5)),
        ("TNorm − perturb loss", _method(_TNORM, weight_perturbed=0.0), (25.5, 28.4, 28.3)),
        ("TNorm − agreement loss", _method(_TNORM, weight_agreement=0.0), (25.4, 28.5, 28.5)),
        ("GNorm", _method(_GNORM), (26.2, 29.6, 29.8)),
        ("GNorm − anchor loss", _method(_GNORM, weight_original=0.0), (25.3, 28.7, 29.0)),
        ("GNorm − perturb loss", _method(_GNORM, weight_perturbed=0.0), (25.4, 28.3, 28.5)),
        ("GNorm − agreement loss", _method(_GNORM, weight_agreement=0.0), (25.6, 28.5, 28.3)),
    ),
)
PRONOUNS = _table(
    "Table 6",
    "TED",
    {"pronouns": "all", "er": "er", "es": "es", "sie": "sie"},
    (
        ("WordRepl", _method("word_replace"), (68.0, 56.6, 92.0, 55.5)),
        ("Doc2Doc", _method("doc2doc"), (63.5, 51.2, 89.6, 49.9)),
        ("IADA Repl + TNorm", _method(_TNORM), (71.2, 58.3, 90.8, 64.3)),
        ("IADA Repl + GNorm", _method(_GNORM), (73.8, 63.9, 89.4, 67.8)),
    ),
)
BACK_TRANSLATION = _table(
    "Table 7",
    "TED",
    _SCORES,
    (
        ("DocBT", {"method": "doc2doc", "synthetic": _BACK}, (25.0, 28.8, 28.9)),
        ("DocFT", {"method": "doc2doc", "synthetic": _FORWARD}, (25.1, 28.9, 29.0)),
        ("Doc2Doc", {"method": "doc2doc"}, (24.3, 27.4, 23.5)),
        # Table 2 gives 29.7 d-BLEU for the same system.
        ("TNorm", {"method": _TNORM}, (26.1, 29.6, 29.7)),
        ("TNorm + DocBT", {"method": _TNORM, "synthetic": _BACK}, (26.8, 30.2, 30.5)),
        ("TNorm + DocFT", {"method": _TNORM, "synthetic": _FORWARD}, (26.9, 30.4, 31.0)),
        ("GNorm", {"method": _GNORM}, (26.2, 29.6, 29.8)),
        ("GNorm + DocBT", {"method": _GNORM, "synthetic": _BACK}, (26.6, 30.1, 30.7)),
        ("GNorm + DocFT", {"method": _GNORM, "synthetic": _FORWARD}, (26.9, 30.6, 31.1)),
    ),
)


def _noise(*lines: tuple[float, float, float]) -> PaperTable:
    labels = ("Doc2Doc", "WordRepl", "IADA Repl + TNorm", "IADA Repl + GNorm")
    methods = map(_method, ("doc2doc", "word_replace", _TNORM, _GNORM))
    columns = {"gold": "Gold", "noisy": "Noisy", "difference": "Δ"}
    return _table("Table 8", "TED", columns, tuple(zip(labels, methods, lines, strict=True)))


NOISY_CONTEXT = {
    "s_bleu": _noise((24.3, 23.5, 0.8), (24.6, 24.0, 0.6), (26.1, 25.7, 0.4), (26.2, 25.8, 0.4)),
    "d_bleu": _noise((27.4, 26.3, 1.1), (28.5, 27.8, 0.7), (29.7, 29.4, 0.3), (29.6, 29.4, 0.2)),
    "comet": _noise((23.5, 22.0, 1.5), (27.7, 26.2, 1.5), (29.7, 28.9, 0.8), (29.8, 29.3, 0.5)),
    "pronouns": _noise(
        (63.5, 46.8, 16.7), (68.0, 53.4, 14.6), (71.2, 63.1, 8.1), (73.8, 66.0, 7.8)
    ),
}
"""Training with the gold context and with two of three context sentences replaced, by metric."""

DISTANCE = _table(
    "Figure 3",
    "TED",
    {distance: distance for distance in ("0", "1", "2", "3", ">3")},
    (
        ("WordRepl", _method("word_replace"), (2.08, 5.18, 5.23, 4.88, 2.71)),
        ("IADA Repl + TNorm", _method(_TNORM), (4.45, 9.17, 6.23, 8.20, 4.07)),
        ("IADA Repl + GNorm", _method(_GNORM), (6.08, 12.60, 8.34, 6.46, 3.62)),
    ),
)
"""Pronoun accuracy above Doc2Doc's, in points, by sentences back to the antecedent."""

_SHARES = {str(share): f"{share} %" for share in range(20, 101, 10)}
_WORD_REPLACE = ("WordRepl", _method("word_replace"))
_IADA_TNORM = ("IADA Repl + TNorm", _method(_TNORM))
_IADA_GNORM = ("IADA Repl + GNorm", _method(_GNORM))
LOW_RESOURCE = {
    "s_bleu": _table(
        "Figure 4",
        "TED",
        _SHARES,
        (
            (*_WORD_REPLACE, (1.52, 1.04, 1.25, 1.06, 0.98, 0.73, 0.67, 0.69, 0.52)),
            (*_IADA_TNORM, (4.09, 3.19, 2.92, 2.34, 2.09, 1.97, 1.84, 1.72, 1.80)),
            (*_IADA_GNORM, (4.35, 3.16, 3.04, 2.89, 2.07, 2.39, 1.99, 2.06, 1.93)),
        ),
    ),
    "d_bleu": _table(
        "Figure 4",
        "TED",
        _SHARES,
        (
            (*_WORD_REPLACE, (2.44, 1.99, 2.05, 1.61, 1.27, 1.47, 1.29, 1.39, 1.05)),
            (*_IADA_TNORM, (4.36, 3.39, 2.89, 2.61, 2.84, 2.48, 2.65, 2.11, 2.21)),
            (*_IADA_GNORM, (5.53, 3.76, 3.27, 2.49, 2.02, 2.85, 2.04, 2.21, 2.20)),
        ),
    ),
}
"""Score above Doc2Doc's on the same share of the training data, by metric."""

_TAGS = {tag: tag for tag in ("NOUN", "PRON", "VERB", "ADJ", "ADV")}
PARTS_OF_SPEECH = {
    "context": _table(
        "Figure 5",
        "TED",
        _TAGS,
        (
            (*_WORD_REPLACE, (16.3, 13.3, 11.2, 6.5, 6.4)),
            (*_IADA_GNORM, (13.3, 11.5, 10.2, 5.4, 5.2)),
        ),
    ),
    "current": _table(
        "Figure 5",
        "TED",
        _TAGS,
        (
            (*_WORD_REPLACE, (16.1, 13.1, 11.4, 6.7, 6.2)),
            (*_IADA_GNORM, (20.3, 15.3, 12.8, 7.8, 6.9)),
        ),
    ),
}
"""Shares of all perturbed tokens in percent, for tokens of the context and of the current
sentence."""

_PUBLISHED: dict[str, Mapping[str, PaperTable]] = {
    "main": {"": MAIN["ted"], **MAIN},
    "stages": {"": MAIN["ted"], **MAIN},
    "directions": {"": DIRECTIONS},
    "measures": {"": MEASURES},
    "losses": {"": LOSSES},
    "pronouns": {"": PRONOUNS},
    "distance": {"": DISTANCE},
    "bt_ft": {"": BACK_TRANSLATION},
    "low_resource": LOW_RESOURCE,
    "noisy_context": NOISY_CONTEXT,
    "pos": PARTS_OF_SPEECH,
}


def published_table(experiment: str, part: str = "") -> PaperTable | None:
    """Return what the paper prints for an experiment; None if it has nothing of the kind.

    Args:
        experiment: its name.
        part: corpus, metric or place, where the paper prints several tables.
    """
    return _PUBLISHED.get(experiment, {}).get(part)
