"""Importance from the draw before: φ of every token, kept until its window is drawn again.

Training differentiates the original view in any case, so the gradient at its embeddings is there
for nothing. A hook reads φ off it; `ScoreMemory` keeps it for each window, and the next time the
window is drawn replacement follows these scores. GNorm then needs no pass of its own. In return
its scores are one epoch old, those of a window's first draw must come from elsewhere, and they
belong to the whole loss that flows through the original view, the agreement and label smoothing
included, not to the bare NLL.

A window is drawn once in an epoch. So processes need not exchange what they wrote before the epoch
ends or a checkpoint is made, and the host need not wait for a device before that either.
"""

import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, distributed

from iada.data.prepared.store import Offsets
from iada.data.windows.batch import Batch, Role
from iada.errors import DataError, RunError
from iada.method.importance import MEASURES, Evidence, hidden_state_norm, input_share
from iada.method.selection import Scores
from iada.models.observation import Observation, Stream, tensors

Start = Literal["tnorm", "uniform"]
Halves = npt.NDArray[np.float16]
READINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "gnorm": lambda gradient, _: hidden_state_norm(gradient),
    "grad_input": input_share,
}
"""φ, (rows, length), from gradient and embedding, each (rows, length, dim), by measure."""
_LARGEST = 60_000.0
"""Largest score that is kept, in units of the mean of its row: float16 ends at 65,504."""
_PENDING = 64
"""Draws that may be on their way from a device before the host waits for the oldest."""
_SHARED_TOKENS = 2**22
"""Tokens that processes exchange at a time."""


class ScoreMemory:
    """φ of every token of every window, in two bytes each, on the disk of the run."""

    def __init__(self, lengths: Offsets, *, decay: float = 0.0, folder: Path | None = None) -> None:
        """Make room for all windows, none of which has scores.

        Args:
            lengths: (windows, streams) tokens of each window.
            decay: weight of the scores that a window already has when it gets new ones, in [0, 1);
                0 keeps the newest alone, more makes a moving average over its draws.
            folder: where the scores lie, in a file without a name that goes with the process; a
                temporary folder by default.
        """
        self.decay = decay
        self.known = np.zeros(len(lengths), dtype=np.bool_)
        """(windows,): which have scores."""
        self._lengths = lengths
        self._offsets = [np.concatenate([[0], np.cumsum(side)]) for side in lengths.T]
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._values = [_mapped(int(offsets[-1]), folder) for offsets in self._offsets]
        self._fresh = np.zeros(len(lengths), dtype=np.bool_)
        self._pending: deque[_Draw] = deque()

    def watch(
        self,
        batch: Batch,
        streams: Sequence[Stream],
        embeddings: Sequence[Tensor],
        measure: str,
    ) -> None:
        """Let the next backward pass through the embeddings of a batch leave its scores here.

        Args:
            batch: whose windows were read.
            streams: the streams of the model.
            embeddings: per stream (rows, length, dim), lookup outputs in the graph of the loss.
            measure: one of `READINGS`.
        """
        values = tensors(batch)
        draw = _Draw(self._numbers(batch), [None] * len(streams))
        for number, (stream, embedding) in enumerate(zip(streams, embeddings, strict=True)):
            self._check_width(draw.numbers, number, embedding.shape[1])
            roles = torch.stack([values[group.roles] for group in stream.groups])
            # Detached: a hook that held the graph it hangs on would never be freed.
            embedding.register_hook(  # type: ignore[no-untyped-call]
                partial(
                    self._keep,
                    draw,
                    number,
                    READINGS[measure],
                    embedding.detach(),
                    roles.ne(Role.SPECIAL).any(dim=0),
                )
            )

    def recall(self, batch: Batch, stream: int, width: int) -> tuple[Tensor, Tensor]:
        """Return the scores of a batch from the draw before.

        Args:
            batch: whose windows to look up.
            stream: number of the stream.
            width: its length in the batch, padding included.

        Returns:
            (rows, length) float32, 0 on padding and in windows without scores; and (rows, 1) bool,
            which windows have scores.
        """
        numbers = self._numbers(batch)
        self._check_width(numbers, stream, width)
        filled, places = self._places(numbers, stream)
        values = np.zeros(filled.shape, dtype=np.float32)
        values[filled] = self._values[stream][places]
        device = batch["labels"].device
        return _to_device(values, device), _to_device(self.known[numbers][:, None], device)

    def knows(self, batch: Batch) -> bool:
        """Whether all windows of a batch have scores."""
        return bool(self.known[self._numbers(batch)].all())

    def settle(self) -> None:
        """Write down every score that is still on its way from a device."""
        while self._pending:
            self._write(self._pending.popleft())

    def share(self, device: torch.device) -> None:
        """Give all processes the scores that each of them wrote; all must call this together.

        Args:
            device: where the processes exchange tensors.
        """
        self.settle()
        if not (distributed.is_available() and distributed.is_initialized()):
            return
        rank, processes = distributed.get_rank(), distributed.get_world_size()
        # Should two processes have drawn a window, the first one's scores stand.
        owner = torch.from_numpy(np.where(self._fresh, rank, processes)).to(device)
        distributed.all_reduce(owner, op=distributed.ReduceOp.MIN)
        owners = owner.cpu().numpy()
        for stream, values in enumerate(self._values):
            for first, last in pairwise(self._shared_bounds(stream)):
                lengths = self._lengths[first:last, stream]
                tokens = slice(self._offsets[stream][first], self._offsets[stream][last])
                own = np.repeat(owners[first:last] == rank, lengths)
                # As bytes, to which all others add zeros: exact, and known to every backend.
                given = np.where(own, values[tokens], np.float16(0)).view(np.uint8)
                total = torch.from_numpy(given).to(device)
                distributed.all_reduce(total)
                written = np.repeat(owners[first:last] < processes, lengths)
                found = total.cpu().numpy().view(np.float16)
                values[tokens] = np.where(written, found, values[tokens])
        self.known |= owners < processes
        self._fresh[:] = False

    def state(self) -> dict[str, object]:
        """Return what a checkpoint keeps; call `share` before."""
        return {"known": self.known, "values": list(self._values), "decay": self.decay}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned.

        Raises:
            RunError: it belongs to other windows.
        """
        sizes = [len(values) for values in state["values"]]
        own = [len(values) for values in self._values]
        if len(state["known"]) != len(self.known) or sizes != own:
            raise RunError(
                f"The checkpoint keeps importance of {len(state['known']):,} windows with "
                f"{sizes} tokens; the corpus now has {len(self.known):,} windows with {own} "
                "tokens. Resume with the corpus, windows and encoding with which the run began."
            )
        for values, stored in zip(self._values, state["values"], strict=True):
            values[:] = stored
        self.known[:] = state["known"]
        self._fresh[:] = False
        self._pending.clear()

    def _keep(
        self,
        draw: "_Draw",
        stream: int,
        reading: Callable[[Tensor, Tensor], Tensor],
        embedding: Tensor,
        ordinary: Tensor,
        gradient: Tensor,
    ) -> None:
        """Take the scores of a stream off its gradient; the last stream completes the draw."""
        with torch.no_grad():
            scores = reading(gradient, embedding)
            # Their scale is that of the batch's loss. Only ratios within a row are used later.
            count = ordinary.sum(dim=1, keepdim=True).clamp(min=1)
            mean = (scores * ordinary).sum(dim=1, keepdim=True) / count
            scaled = (scores / mean).nan_to_num(0.0, _LARGEST).clamp(max=_LARGEST).half()
            draw.scores[stream] = scaled.to("cpu", non_blocking=scaled.is_cuda)
        if any(scores is None for scores in draw.scores):
            return
        if scaled.is_cuda:
            draw.arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            draw.arrived.record()
        self._pending.append(draw)
        while self._pending and (self._pending[0].is_here() or len(self._pending) > _PENDING):
            self._write(self._pending.popleft())

    def _write(self, draw: "_Draw") -> None:
        if draw.arrived is not None:
            draw.arrived.synchronize()
        for stream, scores in enumerate(draw.scores):
            assert scores is not None
            filled, places = self._places(draw.numbers, stream)
            found: Halves = scores.numpy()[filled]
            if self.decay > 0:
                kept = self._values[stream][places].astype(np.float32)
                mixed = self.decay * kept + (1 - self.decay) * found.astype(np.float32)
                seen = np.repeat(self.known[draw.numbers], self._lengths[draw.numbers, stream])
                found = np.where(seen, mixed, found).astype(np.float16)
            self._values[stream][places] = found
        self.known[draw.numbers] = True
        self._fresh[draw.numbers] = True

    def _places(self, numbers: Offsets, stream: int) -> tuple[npt.NDArray[np.bool_], Offsets]:
        """Return where windows have tokens, (rows, longest), and where these lie, (tokens,)."""
        lengths = self._lengths[numbers, stream]
        columns = np.arange(lengths.max())
        filled = columns < lengths[:, None]
        places = self._offsets[stream][numbers][:, None] + columns
        return filled, places[filled]

    def _shared_bounds(self, stream: int) -> list[int]:
        """Cut the windows into runs of about `_SHARED_TOKENS` tokens."""
        offsets = self._offsets[stream]
        starts = np.searchsorted(offsets, np.arange(0, offsets[-1], _SHARED_TOKENS), side="left")
        return sorted({*starts.tolist(), len(offsets) - 1})

    def _numbers(self, batch: Batch) -> Offsets:
        if "numbers" not in batch:
            raise DataError(
                "`augment.importance_pass: lagged` keeps scores for each window, but the batch does"
                " not say which windows it holds. Draw batches with a `TokenBatchSampler` from "
                "`iada.DocumentWindows`, or set `importance_pass: reuse`."
            )
        return batch["numbers"]

    def _check_width(self, numbers: Offsets, stream: int, width: int) -> None:
        longest = int(self._lengths[numbers, stream].max())
        if longest != width:
            raise DataError(
                f"Stream {stream} of the batch is {width} tokens long, but the longest of its "
                f"windows has {longest}. `augment.importance_pass: lagged` needs windows that have "
                "the same tokens whenever they are drawn; set `importance_pass: reuse`."
            )


@dataclass
class _Draw:
    """Scores of a batch on their way to the memory."""

    numbers: Offsets
    scores: list[Tensor | None]
    """Per stream (rows, length) float16 on the host, once the device has arrived there."""
    arrived: Any = None

    def is_here(self) -> bool:
        return self.arrived is None or bool(self.arrived.query())


def lagged_scores(
    memory: ScoreMemory,
    batch: Batch,
    streams: Sequence[Stream],
    original: Observation,
    start: Start,
) -> tuple[Scores, ...]:
    """Return the scores that replacement follows: those of the draw before, per stream.

    Args:
        memory: what is kept.
        batch: what was drawn.
        streams: the streams of the model.
        original: its original view.
        start: what stands for importance in windows that were not drawn before: TNorm, read off
            the original view, or nothing.
    """
    first = None
    if start == "tnorm" and not memory.knows(batch):
        evidence = Evidence(batch=batch, streams=tuple(streams), observation=original)
        first = MEASURES["tnorm"].scores(evidence)
    found = []
    for number, stream in enumerate(streams):
        width = tensors(batch)[stream.ids].shape[1]
        kept, known = memory.recall(batch, number, width)
        if first is None:
            # Where all windows have scores, `known` says nothing, whatever the start.
            found.append(Scores(kept, known=known.expand_as(kept)))
        else:
            # Statistics are those of a row, so that rows may have scores of different kinds.
            norms = first[number].values
            found.append(Scores(torch.where(known, kept.to(norms.dtype), norms)))
    return tuple(found)


def _mapped(size: int, folder: Path | None) -> Halves:
    """Map an empty file without a name: the system can take its pages out of memory."""
    with tempfile.TemporaryFile(dir=folder) as file:
        return np.memmap(file, dtype=np.float16, mode="w+", shape=(max(size, 1),))[:size]


def _to_device(values: npt.NDArray[Any], device: torch.device) -> Tensor:
    found = torch.from_numpy(values)
    return found if device.type == "cpu" else found.pin_memory().to(device, non_blocking=True)
