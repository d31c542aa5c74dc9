"""Token importance and replacement probability of a document pair, window by window.

What `iada inspect` shows: for every token of every window its importance, its z-score within the
window and the probability that augmentation would replace it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from iada.config.data import WindowConfig
from iada.config.method import AugmentConfig, Measure
from iada.data.documents import ParallelDocument
from iada.data.formats.readers import read_split
from iada.data.prepared.store import TokenStore
from iada.data.tokens.subwords import SEP, SubwordEncoding
from iada.data.windows.batch import Collator, Role, to_device
from iada.data.windows.frame import Frame
from iada.data.windows.windows import Windows
from iada.decoding.translator import DocumentTranslator
from iada.errors import ConfigError
from iada.method.importance import MEASURES
from iada.method.measuring import MeasuredGroup, measure_batch
from iada.method.perturbation import Vocabulary, word_start_table
from iada.models.observation import Observer
from iada.runs.folder import RunFolder


@dataclass(frozen=True)
class TokenView:
    """One token of a window."""

    piece: str
    """As it stands in the vocabulary; `▁` is the space before a word."""
    role: Role
    importance: float
    """φ, in the measure's own unit; comparable within one side of one window."""
    z: float
    """Standard deviations above the mean of the side; 0 on special tokens."""
    probability: float
    """Probability that augmentation replaces the token; 0 on special tokens."""


@dataclass(frozen=True)
class WindowView:
    """One window of a document pair; `target` is the decoder input."""

    document: str
    sentence: int
    """Number of the first current sentence in its document, from 1."""
    source: tuple[TokenView, ...]
    target: tuple[TokenView, ...]
    current: int = 1
    """Number of current sentences."""

    @property
    def place(self) -> str:
        """The current sentences in words."""
        if self.current == 1:
            return f"sentence {self.sentence}"
        return f"sentences {self.sentence} to {self.sentence + self.current - 1}"


def inspect(
    run: Path | str,
    documents: Sequence[ParallelDocument] | None = None,
    *,
    measure: Measure | None = None,
    alpha: float | None = None,
) -> list[WindowView]:
    """Measure what importance-aware augmentation would see with the model of a run.

    Args:
        run: the run folder.
        documents: document pairs; by default the first of the test split.
        measure: importance measure; by default the run's, or gnorm if it has none.
        alpha: spread of the importance; by default the run's.

    Returns:
        One view per window: every token with its importance, its z-score and the probability that
        it would be replaced.
    """
    config = RunFolder(Path(run)).config()
    if documents is None:
        documents = read_split(config.data, "test")[:1]
    translator = DocumentTranslator.load(run)
    return importance_map(
        translator.model,
        translator.subwords,
        documents,
        augment=inspected_augmentation(config.augment, measure, alpha),
        windows=translator.windows,
        frame=translator.frame,
    )


def inspected_augmentation(
    augment: AugmentConfig, measure: Measure | None, alpha: float | None
) -> AugmentConfig:
    """Return a run's augmentation with what was asked for; something is measured in any case."""
    if measure is None:
        measure = augment.measure if MEASURES[augment.measure].is_measured else "gnorm"
    return replace(augment, measure=measure, alpha=augment.alpha if alpha is None else alpha)


def importance_map(
    model: nn.Module,
    subwords: SubwordEncoding,
    documents: Sequence[ParallelDocument],
    *,
    augment: AugmentConfig,
    windows: WindowConfig,
    frame: Frame | None = None,
) -> list[WindowView]:
    """Measure every window of the documents, one by one, with dropout off.

    Windows are in the frame of the model, Doc2Doc's by default.
    """
    if not MEASURES[augment.measure].is_measured:
        measured = [name for name, measure in MEASURES.items() if measure.is_measured]
        raise ConfigError(
            f"`augment.measure` is {augment.measure}, which measures nothing. "
            f"Choose one of {', '.join(measured)}."
        )
    cut = Windows(TokenStore.build(documents, subwords), windows, frame=frame)
    collate = Collator(subwords.special.pad)
    device = next(model.parameters()).device
    word_starts = word_start_table(augment, Vocabulary.of_tokenizer(subwords))
    observer = Observer(model, state_point=augment.tnorm_at)
    try:
        views = []
        for number, sentence in enumerate(cut.sentences.tolist()):
            batch = to_device(collate([cut[0, number]]), device)
            groups = measure_batch(observer, batch, augment, seed=0, word_starts=word_starts)
            document = int(cut.store.document_of[sentence])
            first = int(cut.store.document_starts[document])
            name = documents[document].name
            is_one = len(observer.streams) == 1
            sides = {
                name: _own_tokens(_tokens(subwords, group)) if is_one else _tokens(subwords, group)
                for name, group in groups.items()
            }
            place, current = sentence - first + 1, int(cut.spans.stop[number]) - sentence
            views.append(WindowView(name, place, sides["source"], sides["target"], current))
        return views
    finally:
        observer.remove()


def _tokens(subwords: SubwordEncoding, measured: MeasuredGroup) -> tuple[TokenView, ...]:
    """Return the tokens of the only row of a side."""
    columns = (measured.roles, measured.importance, measured.z, measured.probability)
    rows = zip(*(column[0].tolist() for column in columns), strict=True)
    pieces = subwords.pieces(measured.ids[0].tolist())
    return tuple(
        TokenView(piece, Role(role), score, z, p)
        for piece, (role, score, z, p) in zip(pieces, rows, strict=True)
    )


def _own_tokens(tokens: Sequence[TokenView]) -> tuple[TokenView, ...]:
    """Return the tokens of one side of a sequence that holds both.

    Whatever stands between its sentences, template and other side, becomes one `<sep>`.
    """
    own: list[TokenView] = []
    for token in tokens:
        if token.role != Role.SPECIAL:
            own.append(token)
        elif own and own[-1].role != Role.SPECIAL:
            own.append(replace(token, piece=SEP))
    return tuple(own[:-1] if own and own[-1].role == Role.SPECIAL else own)
