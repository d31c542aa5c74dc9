"""Token importance and replacement probability of a document pair, window by window.

What `iada inspect` shows: for every token of every window its importance, its z-score within the
window and the probability that augmentation would replace it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from iada.augment.importance import present_tokens, separate_importance
from iada.augment.selection import configured_probability, spread, standardize
from iada.config.augment import AugmentConfig
from iada.config.data import WindowConfig
from iada.data.collate import Batch, Collator, to_device
from iada.data.documents import ParallelDocument
from iada.data.roles import Role
from iada.data.store import TokenStore
from iada.data.subwords import Subwords
from iada.data.windows import Windows
from iada.errors import ConfigError
from iada.models.observation import Observer


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
    """Number of the current sentence in its document, from 1."""
    source: tuple[TokenView, ...]
    target: tuple[TokenView, ...]


def importance_map(
    model: nn.Module,
    subwords: Subwords,
    documents: Sequence[ParallelDocument],
    *,
    augment: AugmentConfig,
    windows: WindowConfig,
) -> list[WindowView]:
    """Measure every window of the documents, one by one, with dropout off."""
    if augment.measure not in ("tnorm", "gnorm"):
        raise ConfigError(
            f"`augment.measure` is {augment.measure}, which measures nothing. "
            "Choose tnorm or gnorm."
        )
    cut = Windows(TokenStore.build(documents, subwords), windows)
    collate = Collator(subwords.special.pad)
    device = next(model.parameters()).device
    observer = Observer(model, state_point=augment.tnorm_at)
    try:
        views = []
        for number, sentence in enumerate(cut.sentences.tolist()):
            batch = to_device(collate([cut[0, number]]), device)
            sides = _views(observer, subwords, batch, augment)
            document = int(cut.store.document_of[sentence])
            first = int(cut.store.document_starts[document])
            name = documents[document].name
            views.append(WindowView(name, sentence - first + 1, sides[0], sides[1]))
        return views
    finally:
        observer.remove()


def _views(
    observer: Observer, subwords: Subwords, batch: Batch, augment: AugmentConfig
) -> tuple[tuple[TokenView, ...], tuple[TokenView, ...]]:
    scores = separate_importance(observer, batch, replace(augment, importance_pass="separate"))
    counted = present_tokens(batch) if augment.statistics_specials else (None, None)
    ids = (batch["input_ids"], batch["decoder_input_ids"])
    roles = (batch["source_roles"], batch["target_roles"])
    streams = zip(ids, roles, scores, counted, strict=True)
    source, target = (_side(subwords, *stream, augment) for stream in streams)
    return source, target


@torch.no_grad()
def _side(
    subwords: Subwords,
    ids: Tensor,
    roles: Tensor,
    scores: Tensor,
    counted: Tensor | None,
    augment: AugmentConfig,
) -> tuple[TokenView, ...]:
    psi = spread(scores, roles, alpha=augment.alpha, normalize=augment.normalize, counted=counted)
    probability = configured_probability(psi, roles, augment)
    z = standardize(scores, roles, alpha=1.0, counted=counted)
    columns = (roles[0], scores[0], z[0], probability[0])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    pieces = subwords.pieces(ids[0].tolist())
    return tuple(
        TokenView(piece, Role(role), score, z_score, p)
        for piece, (role, score, z_score, p) in zip(pieces, rows, strict=True)
    )
