"""Logits that are computed once and needed twice.

GNorm takes the gradient of the original NLL before the perturbed view exists; the losses then need
the same logits beside those of the perturbed view. All of them would be what the fused losses avoid
to keep. Some fit into a memory of fixed size: with the loss on the current sentence usually all.
The others are computed again.
"""

import torch
from torch import Tensor

CPU_KEPT_BYTES = 128 * 2**20
"""Size of the memory; 1,000 tokens of 32,000 pieces in float32."""
DEVICE_KEPT_BYTES = 2**30
"""The same on other devices."""


class KeptLogits:
    """A memory for the logits of one batch's states, from the first token on.

    It serves one update after the other: fresh pages would cost as much as the products they save.
    """

    def __init__(self) -> None:
        self._memory: Tensor | None = None
        self._states: Tensor | None = None
        self._rows = 0

    def begin(self, states: Tensor, weight: Tensor) -> None:
        """Get ready for the logits of states.

        Args:
            states: (tokens, dim), in any precision.
            weight: (vocabulary, dim), in the precision of the logits.
        """
        size = CPU_KEPT_BYTES if weight.is_cpu else DEVICE_KEPT_BYTES
        rows = min(len(states), size // (weight.element_size() * len(weight)))
        memory = self._memory
        fits = (
            memory is not None
            and memory.shape[0] >= rows
            and memory.shape[1] == len(weight)
            and (memory.dtype, memory.device) == (weight.dtype, weight.device)
        )
        if not fits:
            # The old one goes before the new one comes.
            self._memory = memory = None
            self._memory = weight.new_empty(rows, len(weight))
        self._states, self._rows = states, 0

    def put(self, logits: Tensor) -> None:
        """Keep the logits of the next tokens, (rows, vocabulary), as far as there is room."""
        assert self._memory is not None
        place = self._memory[self._rows : self._rows + len(logits)]
        place.copy_(logits[: len(place)])
        self._rows += len(place)

    def take(self, states: Tensor) -> Tensor | None:
        """Return what was kept, (rows, vocabulary), if it is that of these states.

        It is given once: the next ones are written over it.
        """
        mine, self._states = self._states, None
        is_theirs = (
            mine is not None
            and mine.shape == states.shape
            and mine.dtype == states.dtype
            and mine.data_ptr() == states.data_ptr()
        )
        return self._memory[: self._rows] if is_theirs and self._memory is not None else None


def project(states: Tensor, weight: Tensor, known: Tensor | None, *, out: Tensor) -> Tensor:
    """Write the logits of states to `out`, and return it.

    Args:
        states: (rows, dim).
        weight: (vocabulary, dim).
        known: (at most rows, vocabulary), the logits of the first ones, which are copied.
        out: (rows, vocabulary).
    """
    copied = 0 if known is None else len(known)
    if known is not None:
        out[:copied] = known
    torch.mm(states[copied:], weight.T, out=out[copied:])
    return out
