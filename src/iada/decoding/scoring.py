"""How probable a model finds a given translation."""

import torch

from iada.data.windows.batch import Collator, to_device
from iada.data.windows.windows import Windows
from iada.method.selection import at_least_float32
from iada.models.observation import Observer


@torch.inference_mode()
def log_probabilities(
    observer: Observer, windows: Windows, numbers: list[int], *, pad_id: int, max_tokens: int
) -> list[float]:
    """Return the summed log-probability of the labels of each window, dropout off.

    Args:
        observer: of the model to ask.
        windows: where the windows are.
        numbers: which of them to score.
        pad_id: id of the padding token.
        max_tokens: budget of a batch, padding included.
    """
    model = observer.model.eval()
    device = next(model.parameters()).device
    collate = Collator(pad_id)
    longest = windows.lengths().max(axis=1)
    order = sorted(range(len(numbers)), key=lambda i: int(longest[numbers[i]]), reverse=True)
    scores = [0.0] * len(numbers)
    position = 0
    while position < len(order):
        rows = max(1, max_tokens // int(longest[numbers[order[position]]]))
        chosen = order[position : position + rows]
        batch = to_device(collate([windows[0, numbers[i]] for i in chosen]), device)
        labels = batch["labels"]
        rows_of_labels, columns = (labels >= 0).nonzero(as_tuple=True)
        chosen_labels = labels[rows_of_labels, columns]
        logits = at_least_float32(observer.forward(batch).logits)
        token_scores = logits.log_softmax(dim=-1).gather(1, chosen_labels[:, None]).squeeze(1)
        sums = torch.zeros(len(chosen), dtype=torch.float64, device=device)
        sums.index_add_(0, rows_of_labels, token_scores.double())
        for i, score in zip(chosen, sums.tolist(), strict=True):
            scores[i] = score
        position += rows
    return scores
