"""How probable a model finds each token of a given translation."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from iada.data.windows.batch import Collator, to_device
from iada.data.windows.windows import Windows
from iada.decoding.shards import SINGLE, Processes
from iada.method.selection import at_least_float32
from iada.models.observation import Observer


@torch.inference_mode()
def token_log_probabilities(
    observer: Observer,
    windows: Windows,
    numbers: Sequence[int],
    *,
    pad_id: int,
    max_tokens: int,
    processes: Processes = SINGLE,
) -> list[NDArray[np.float64]]:
    """Return the log-probability of every label of each window, without dropout.

    Args:
        observer: of the model that scores.
        windows: where the windows are.
        numbers: which of them to score.
        pad_id: id of the padding token.
        max_tokens: budget of a batch, padding included.
        processes: share the batches; each gets all values, the same as a single process.

    Returns:
        For each window (labels in its loss,), in the order of the text. Their sum is the
        log-probability of the translation.
    """
    model = observer.model.eval()
    device = next(model.parameters()).device
    collate = Collator(pad_id)
    longest = windows.lengths().max(axis=1)
    # Windows of similar length share a batch, the longest first.
    order = sorted(range(len(numbers)), key=lambda i: int(longest[numbers[i]]), reverse=True)
    batches = []
    position = 0
    while position < len(order):
        rows = max(1, max_tokens // int(longest[numbers[order[position]]]))
        batches.append(order[position : position + rows])
        position += rows
    found: dict[int, NDArray[np.float64]] = {}
    for chosen in batches[processes.rank :: processes.count]:
        batch = to_device(collate([windows[0, numbers[i]] for i in chosen]), device)
        in_loss = batch["labels"] >= 0
        logits = at_least_float32(observer.forward(batch).logits)
        picked = logits.log_softmax(dim=-1).gather(1, batch["labels"][in_loss][:, None])
        scores = picked.squeeze(1).double().cpu().numpy()
        ends = np.cumsum(in_loss.sum(dim=1).cpu().numpy())
        found |= zip(chosen, np.split(scores, ends[:-1]), strict=True)
    for others in processes.gather(found):
        found |= others
    return [found[i] for i in range(len(numbers))]
