"""Windows and batches: the role of each token, the windows of a batch end to end, padded tensors.

Roles travel beside the ids as an int8 tensor of the same shape. Everything that must never be
perturbed and never enters the importance statistics is SPECIAL: padding, `<s>`, `</s>`, `<sep>`,
`<mask>` and tags.

A batch is padded from windows one by one, or from `Rows`, the same windows end to end, which costs
no Python per row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, NotRequired, TypedDict, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from iada.data.prepared.store import Ids, Offsets


class Role(IntEnum):
    """Part of the window that a token belongs to."""

    SPECIAL = 0
    CONTEXT = 1
    CURRENT = 2


Roles = npt.NDArray[np.int8]


IGNORED = -100
"""Label of positions outside the loss, as PyTorch and Transformers expect it."""


@dataclass(frozen=True)
class Window:
    """One training instance."""

    source_ids: Ids
    source_roles: Roles
    target_ids: Ids
    """Decoder input; of a decoder-only model the same sequence as `source_ids`."""
    target_roles: Roles
    labels: Offsets
    """What the decoder must predict at each position; IGNORED outside the loss."""
    sentence: int
    """Number of the first current sentence in the store."""
    epoch: int = 0
    """Epoch in which the window was drawn."""
    sentences: int = 1
    """Number of current sentences."""
    first_sentence: int | None = None
    """Source sentences before the first target sentence, where the two sides differ."""
    number: int | None = None
    """Which window of its data set it is."""

    @property
    def noise_key(self) -> tuple[int, ...]:
        """Identity of the draw: epoch, first current sentence, and how many unless it is one."""
        return noise_key(self.epoch, self.sentence, self.sentences)


def noise_key(epoch: int, sentence: int, sentences: int) -> tuple[int, ...]:
    """Return what identifies the draw of a window in an epoch."""
    return (epoch, sentence) if sentences == 1 else (epoch, sentence, sentences)


class Gathered(NamedTuple):
    """One side of the windows of a batch end to end, each sentence followed by `<sep>`."""

    ids: Ids
    """(tokens,)"""
    lengths: Offsets
    """(windows,)"""
    is_context: npt.NDArray[np.bool_]
    """(tokens,)"""


@dataclass(frozen=True)
class CipheredRows:
    """The enciphered sources of the windows of a batch end to end."""

    ids: Ids
    """(tokens,)"""
    lengths: Offsets
    """(windows,)"""


@dataclass(frozen=True)
class Rows:
    """The windows of a batch end to end: each array is that of all windows, joined."""

    source_ids: Ids
    """(source tokens,)"""
    source_roles: Roles
    """(source tokens,)"""
    source_lengths: Offsets
    """(windows,)"""
    target_ids: Ids
    """(target tokens,)"""
    target_roles: Roles
    """(target tokens,)"""
    labels: Offsets
    """(target tokens,)"""
    target_lengths: Offsets
    """(windows,)"""
    noise_key: tuple[int, ...]
    """That of the first window."""
    ciphered: CipheredRows | None = None
    """The source once more, enciphered, where the corpus has ciphers."""
    first_sentence: Offsets | None = None
    """(windows,): source sentences before the first target sentence, where the sides differ."""
    numbers: Offsets | None = None
    """(windows,): which windows of their data set they are."""
    is_rich: npt.NDArray[np.bool_] | None = None
    """(windows,): which windows are context-rich, where that is known."""


class Batch(TypedDict):
    """A batch as models and objective read it; (rows, source length) or (rows, target length)."""

    input_ids: Tensor
    """Source tokens, right-padded."""
    attention_mask: Tensor
    """1 where `input_ids` is not padding."""
    decoder_input_ids: Tensor
    """Decoder input tokens, right-padded."""
    labels: Tensor
    """Token to predict at each decoder position; -100 outside the loss."""
    source_roles: Tensor
    """int8 `Role` of each source token."""
    target_roles: Tensor
    """int8 `Role` of each decoder-input token."""
    noise_key: tuple[int, ...]
    """Identity of the batch: epoch and first current sentence, and the number of current sentences
    of its first window unless it is one. The perturbation noise is a function of it, whatever the
    number of processes and however often a run was resumed."""
    positions: NotRequired[Tensor]
    """(loss positions,): flat indices of the labels that are in the loss, in row-major order."""
    loss_width: NotRequired[int]
    """Most labels in the loss of a row."""
    cipher_input_ids: NotRequired[Tensor]
    """(rows, enciphered length): the source once more, enciphered, right-padded."""
    cipher_attention_mask: NotRequired[Tensor]
    """1 where `cipher_input_ids` is not padding."""
    first_sentence: NotRequired[Tensor]
    """(rows,): source sentences before the first target sentence, for models that read other
    context on the source side than on the target side. Without it both begin together."""
    numbers: NotRequired[Offsets]
    """(rows,): which windows of their data set they are; an array, which stays on the host."""
    is_rich: NotRequired[Tensor]
    """(rows,) bool: which windows are context-rich, so that their loss may count more."""


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Move the tensors of a batch."""
    moved = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in batch.items()}
    return cast(Batch, moved)


def without_context(batch: Batch) -> tuple[Batch, Tensor]:
    """Cut all windows down to their current parts, as if they had no context.

    What opens and closes a row stays. Labels are those of the current part, its end included.

    Returns:
        The batch, and (rows, target length): where each decoder input token went; only those of the
        current part have a place.
    """
    filled = batch["attention_mask"].bool()
    source, _ = _current_places(batch["source_roles"], filled.sum(dim=1, keepdim=True))
    labelled = (batch["labels"] >= 0).long()
    last = labelled.shape[1] - labelled.flip(1).argmax(dim=1, keepdim=True)
    target, moved = _current_places(batch["target_roles"], last)
    # A label stands one place before its token: the last opening token predicts the first word.
    lead = _leading(batch["target_roles"])
    at = torch.arange(target.shape[1], device=target.device)
    label_places = torch.where(at == lead - 1, target.roll(-1, dims=1) - 1, target)
    alone: Batch = {
        **batch,
        "input_ids": _taken(batch["input_ids"], source, 0),
        "attention_mask": _taken(batch["attention_mask"], source, 0),
        "source_roles": _taken(batch["source_roles"], source, Role.SPECIAL),
        "decoder_input_ids": _taken(batch["decoder_input_ids"], target, 0),
        "target_roles": _taken(batch["target_roles"], target, Role.SPECIAL),
        "labels": _taken(batch["labels"], label_places, IGNORED),
    }
    if "first_sentence" in batch:
        alone["first_sentence"] = torch.zeros_like(batch["first_sentence"])
    # Those of the whole windows.
    alone.pop("positions", None)
    alone.pop("loss_width", None)
    return alone, moved


def _leading(roles: Tensor) -> Tensor:
    """(rows, 1): special tokens that open each row."""
    return (roles != Role.SPECIAL).long().argmax(dim=1, keepdim=True)


def _current_places(roles: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return where the tokens of cut rows come from, -1 beyond their end, and the way back.

    Args:
        roles: (rows, length).
        lengths: (rows, 1), tokens of each row.
    """
    width = roles.shape[1]
    at = torch.arange(width, device=roles.device).expand(roles.shape)
    lead = _leading(roles)
    current = (roles == Role.CURRENT).long()
    first = current.argmax(dim=1, keepdim=True)
    size = width - current.flip(1).argmax(dim=1, keepdim=True) - first
    ordinary = (roles != Role.SPECIAL).long()
    closing = lengths - (width - ordinary.flip(1).argmax(dim=1, keepdim=True))
    total = lead + size + closing
    places = torch.where(at < lead, at, at - lead + first)
    places = torch.where(at < lead + size, places, at - total + lengths)
    return places.masked_fill(at >= total, -1), at - first + lead


def _taken(values: Tensor, places: Tensor, fill: int) -> Tensor:
    """(rows, length): values from their places; `fill` where there is none."""
    return values.gather(1, places.clamp(min=0)).masked_fill(places < 0, fill)


@dataclass(frozen=True)
class Collator:
    """Pad windows into a batch."""

    pad_id: int
    length_multiple: int = 1
    """Pad both sides to a multiple of this, so that batches come in few shapes."""

    def __call__(self, windows: Sequence[Window] | Rows) -> Batch:
        """Pad to the longest window of each side."""
        rows = windows if isinstance(windows, Rows) else _end_to_end(windows)
        source = _filled(rows.source_lengths, self.length_multiple)
        target = _filled(rows.target_lengths, self.length_multiple)
        ids, roles = np.int64, np.int8
        source_ids = _padded(rows.source_ids, source, self.pad_id, ids)
        is_one = rows.target_ids is rows.source_ids
        batch: Batch = {
            "input_ids": source_ids,
            "attention_mask": torch.from_numpy(source.astype(np.int64)),
            "decoder_input_ids": source_ids
            if is_one
            else _padded(rows.target_ids, target, self.pad_id, ids),
            "labels": _padded(rows.labels, target, IGNORED, ids),
            "source_roles": _padded(rows.source_roles, source, Role.SPECIAL, roles),
            "target_roles": _padded(rows.target_roles, target, Role.SPECIAL, roles),
            "noise_key": rows.noise_key,
        }
        # Counted here, where nobody must wait for a device to do it.
        in_loss = batch["labels"] >= 0
        batch["positions"] = in_loss.view(-1).nonzero().squeeze(1)
        batch["loss_width"] = int(in_loss.sum(dim=1).max())
        if rows.ciphered is not None:
            filled = _filled(rows.ciphered.lengths, self.length_multiple)
            batch["cipher_input_ids"] = _padded(rows.ciphered.ids, filled, self.pad_id, ids)
            batch["cipher_attention_mask"] = torch.from_numpy(filled.astype(np.int64))
        if rows.first_sentence is not None:
            batch["first_sentence"] = torch.from_numpy(rows.first_sentence.astype(np.int64))
        if rows.numbers is not None:
            batch["numbers"] = rows.numbers
        if rows.is_rich is not None:
            batch["is_rich"] = torch.from_numpy(rows.is_rich)
        return batch


def _end_to_end(windows: Sequence[Window]) -> Rows:
    first = [w.first_sentence for w in windows if w.first_sentence is not None]
    numbers = [w.number for w in windows if w.number is not None]
    return Rows(
        source_ids=np.concatenate([w.source_ids for w in windows]),
        source_roles=np.concatenate([w.source_roles for w in windows]),
        source_lengths=np.array([len(w.source_ids) for w in windows]),
        target_ids=np.concatenate([w.target_ids for w in windows]),
        target_roles=np.concatenate([w.target_roles for w in windows]),
        labels=np.concatenate([w.labels for w in windows]),
        target_lengths=np.array([len(w.target_ids) for w in windows]),
        noise_key=windows[0].noise_key,
        first_sentence=np.array(first, dtype=np.int64) if first else None,
        numbers=np.array(numbers, dtype=np.int64) if len(numbers) == len(windows) else None,
    )


def _filled(lengths: Offsets, multiple: int) -> npt.NDArray[np.bool_]:
    """(rows, longest, or a multiple that is no shorter): true where a row has a token."""
    return np.asarray(np.arange(round_up(lengths, multiple).max()) < lengths[:, None])


def round_up(lengths: Offsets, multiple: int) -> Offsets:
    """Return the smallest multiples that are no smaller."""
    return -(-lengths // multiple) * multiple


def _padded(
    values: npt.NDArray[Any], filled: npt.NDArray[np.bool_], fill: int, dtype: npt.DTypeLike
) -> Tensor:
    padded = np.full(filled.shape, fill, dtype=dtype)
    # Row after row, which is the order of the values.
    padded[filled] = values
    return torch.from_numpy(padded)
