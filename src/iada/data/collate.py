"""Windows to padded tensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from iada.data.roles import Role
from iada.data.windows import IGNORED, Window


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
    noise_key: tuple[int, int]
    """Identity of the batch: epoch and first current sentence. The perturbation noise is a
    function of it, whatever the number of processes and however often a run was resumed."""


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Move the tensors of a batch."""
    moved = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in batch.items()}
    return cast(Batch, moved)


@dataclass(frozen=True)
class Collator:
    """Pad windows into a batch."""

    pad_id: int

    def __call__(self, windows: Sequence[Window]) -> Batch:
        """Pad to the longest window of each side."""
        source = _padded([w.source_ids for w in windows], self.pad_id, torch.int64)
        lengths = torch.tensor([len(w.source_ids) for w in windows])
        mask = torch.arange(source.shape[1]) < lengths[:, None]
        return {
            "input_ids": source,
            "attention_mask": mask.long(),
            "decoder_input_ids": _padded([w.target_ids for w in windows], self.pad_id, torch.int64),
            "labels": _padded([w.labels for w in windows], IGNORED, torch.int64),
            "source_roles": _padded([w.source_roles for w in windows], Role.SPECIAL, torch.int8),
            "target_roles": _padded([w.target_roles for w in windows], Role.SPECIAL, torch.int8),
            "noise_key": (windows[0].epoch, windows[0].sentence),
        }


def _padded(rows: Sequence[npt.NDArray[Any]], fill: int, dtype: torch.dtype) -> Tensor:
    width = max(len(row) for row in rows)
    padded = np.full((len(rows), width), fill, dtype=np.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return torch.from_numpy(padded).to(dtype)
