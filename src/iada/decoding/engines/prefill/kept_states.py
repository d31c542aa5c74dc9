"""Encoder states of whole sentences, kept from one search to the next.

Where every sentence is encoded as if it were alone (HAN, SAN), the context of a sentence was
encoded when it was translated itself, or was its context before: only the sentence that is new in a
window is left to encode. Elsewhere nothing can be kept: the encoder of Doc2Doc, FlatTrans and
DocFlat reads across the sentences of a window, which is another one each time, and that of Hybrid
knows the number of a sentence in its window.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from iada.models.document import DocumentModel, WindowEncoder, read_layout
from iada.models.layout import OWN

_Sentence = tuple[int, ...]

KEPT_TOKENS = 2**15
"""Tokens whose states are kept: 64 MB with 512 dimensions, and far more than a round of windows."""


def encodes_sentences_alone(model: DocumentModel) -> bool:
    """Whether the states of a sentence depend on no other sentence, nor on its place."""
    encoder = model.model.encoder
    if type(encoder) is not WindowEncoder:
        return False
    layers: Any = encoder.layers
    # The frozen encoder of SAN's first stage would need states of its own.
    return (
        bool(model.config.restarts_positions)
        and all(layer.self_attn.rule == OWN for layer in layers)
        and getattr(model, "stage_one", None) is None
    )


class SentenceStates:
    """The states of the sentences that were used last, by their tokens."""

    def __init__(self, model: DocumentModel) -> None:
        self.model = model
        self._kept: OrderedDict[_Sentence, Tensor] = OrderedDict()
        self._tokens = 0

    def encode_window(
        self, input_ids: Tensor, attention_mask: Tensor, first_sentence: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Do what `DocumentModel.encode_window` does, without encoding a sentence again."""
        layout = read_layout(self.model.config, input_ids, attention_mask, first_sentence)
        windows = [
            _split(ids[:count], numbers)
            for ids, numbers, count in zip(
                input_ids.tolist(),
                layout.source.numbers.tolist(),
                attention_mask.sum(dim=1).tolist(),
                strict=True,
            )
        ]
        self._encode(windows)
        dim = self.model.config.d_model
        states = self._kept[windows[0][0]].new_zeros(*input_ids.shape, dim)
        for row, window in zip(states, windows, strict=True):
            found = torch.cat([self._use(sentence) for sentence in window])
            row[: len(found)] = found
        self._forget()
        is_own = layout.source.present & (layout.source.numbers == first_sentence[:, None])
        return self.model.attend_source(states, layout), is_own

    def _encode(self, windows: Sequence[Sequence[_Sentence]]) -> None:
        """Encode the sentences that are new: each window without those that are not."""
        seen: set[_Sentence] = set()
        rows: list[list[_Sentence]] = []
        for window in windows:
            fresh = [one for one in dict.fromkeys(window) if one not in self._kept]
            rows.append([one for one in fresh if one not in seen])
            seen.update(fresh)
        rows = [row for row in rows if row]
        if not rows:
            return
        device = self.model.device
        counts = torch.tensor([sum(map(len, row)) for row in rows])
        mask = torch.arange(int(counts.max())) < counts[:, None]
        # What is masked may be any token.
        ids = torch.zeros(mask.shape, dtype=torch.long)
        ids[mask] = torch.tensor([token for row in rows for one in row for token in one])
        encoded = self.model.model.encoder(ids.to(device), mask.to(device)).last_hidden_state
        for row, states in zip(rows, encoded, strict=True):
            start = 0
            for sentence in row:
                # A copy, so that the padded batch can be freed.
                self._kept[sentence] = states[start : start + len(sentence)].clone()
                start += len(sentence)
                self._tokens += len(sentence)

    def _use(self, sentence: _Sentence) -> Tensor:
        self._kept.move_to_end(sentence)
        return self._kept[sentence]

    def _forget(self) -> None:
        """Let go of the sentences that were not used for longest."""
        while self._tokens > KEPT_TOKENS:
            sentence, _ = self._kept.popitem(last=False)
            self._tokens -= len(sentence)


def _split(ids: Sequence[int], numbers: Sequence[int]) -> list[_Sentence]:
    """Cut the tokens of a window where the number of their sentence changes."""
    sentences: list[list[int]] = []
    last = None
    for token, number in zip(ids, numbers, strict=False):
        if number != last:
            sentences.append([])
            last = number
        sentences[-1].append(token)
    return [tuple(sentence) for sentence in sentences]
