"""SAN (Maruf et al. 2019): sparse attention over sentences of a document, soft over their words.

Each sentence is encoded alone. One module on top of the encoder, for a position with state h and
the states x of the words of other sentences, per head:

    a = sparsemax_j((Q_s h) . (K_s m_j) / sqrt(size))      m_j: mean of the words of sentence j
    b_j = softmax_w((Q_w h) . (K_w x_jw) / sqrt(size))     within sentence j
    v = O sum_jw a_j b_jw V x_jw
    c = LN2(FFN(LN1(v)))
    g = sigmoid(C_h h + C_c c),   out = g * h + (1 - g) * c

Online, a sentence reads those before it; offline (`after`), those after it too. A sentence with
nothing to read keeps its states. The context states are those of the same encoder, without gradient
(`stop_context`), or, as published, those of a frozen first-stage encoder (`frozen_context`).
"""

from typing import Any

import torch
from torch import Tensor, nn

from iada.models.document import (
    DocumentConfig,
    DocumentModel,
    WindowAttention,
    WindowEncoder,
)
from iada.models.han import split_heads
from iada.models.layout import OWN, Layout, Place, Sentences


def sparsemax(scores: Tensor, visible: Tensor) -> Tensor:
    """Project scores onto the simplex (Martins and Astudillo 2016): a softmax with exact zeros.

    Args:
        scores: (..., choices).
        visible: (..., choices) bool, broadcastable: which choices there are; at least one.

    Returns:
        (..., choices): sums to 1, and is 0 where a choice is not visible.
    """
    # What is 1 below the largest gets nothing, so a choice 2 below is as good as absent.
    lowest = torch.finfo(scores.dtype).min
    largest = scores.masked_fill(~visible, lowest).amax(dim=-1, keepdim=True)
    shifted = torch.where(visible, scores - largest.detach(), -2.0)
    projected: Tensor = _Sparsemax.apply(shifted)  # type: ignore[no-untyped-call]
    return projected


class _Sparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        ordered = scores.sort(dim=-1, descending=True).values
        total = ordered.cumsum(dim=-1)
        count = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype, device=scores.device)
        support = (1 + count * ordered > total).sum(dim=-1, keepdim=True)
        threshold = (total.gather(-1, support - 1) - 1) / support
        projected = (scores - threshold).clamp(min=0)
        ctx.save_for_backward(projected)
        return projected

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (projected,) = ctx.saved_tensors
        supported = (projected > 0).to(projected.dtype)
        kept = gradients[0] * supported
        mean = kept.sum(dim=-1, keepdim=True) / supported.sum(dim=-1, keepdim=True)
        gradient: Tensor = kept - mean * supported
        return gradient


def segment_softmax(scores: Tensor, numbers: Tensor, words: Tensor, count: int) -> Tensor:
    """Softmax within each segment.

    Args:
        scores: (rows, heads, queries, keys).
        numbers: (rows, keys) segment of each key, below `count`.
        words: (rows, keys) bool: keys that take part; the others get 0.
        count: number of segments.
    """
    index = numbers[:, None, None].expand_as(scores)
    taking = words[:, None, None].expand_as(scores)
    lowest = torch.finfo(scores.dtype).min
    masked = scores.masked_fill(~taking, lowest)
    shape = (*scores.shape[:-1], count)
    largest = (
        masked.detach().new_full(shape, lowest).scatter_reduce(-1, index, masked.detach(), "amax")
    )
    weights = torch.where(taking, (masked - largest.gather(-1, index)).exp(), 0.0)
    total = weights.new_zeros(shape).scatter_add(-1, index, weights)
    # A segment without words has no weights to divide.
    total = torch.where(total > 0, total, 1.0)
    return weights / total.gather(-1, index)


class SelectiveContext(nn.Module):
    """The context module: which sentences, then which words in them."""

    def __init__(self, config: DocumentConfig) -> None:
        super().__init__()
        dim = config.d_model
        self.heads = config.encoder_attention_heads
        self.is_offline = config.after > 0
        self.stop_context = config.stop_context
        self.sentence_query = nn.Linear(dim, dim, bias=False)
        self.sentence_key = nn.Linear(dim, dim, bias=False)
        self.word_query = nn.Linear(dim, dim, bias=False)
        self.word_key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.attention_norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, config.encoder_ffn_dim)
        self.fc2 = nn.Linear(config.encoder_ffn_dim, dim)
        self.feed_norm = nn.LayerNorm(dim)
        self.gate_state = nn.Linear(dim, dim)
        self.gate_context = nn.Linear(dim, dim, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, states: Tensor, sentences: Sentences, memory: Tensor | None = None) -> Tensor:
        """Return the states with context.

        Args:
            states: (rows, length, dim) topmost states.
            sentences: of the source.
            memory: (rows, length, dim) states to read context from, if not the same.
        """
        if memory is None:
            memory = states.detach() if self.stop_context else states
        attention, exists = self._choose(states, memory, sentences)
        values = split_heads(self.value(memory), self.heads)
        found = self.out((attention @ values).transpose(1, 2).flatten(2))
        normed = self.attention_norm(self.dropout(found))
        fed = self.fc2(self.dropout(torch.relu(self.fc1(normed))))
        context = self.feed_norm(fed)
        share = torch.sigmoid(self.gate_state(states) + self.gate_context(context))
        mixed = share * states + (1 - share) * context
        return torch.where(exists[..., None], mixed, states)

    def _choose(
        self, states: Tensor, memory: Tensor, sentences: Sentences
    ) -> tuple[Tensor, Tensor]:
        """Return the weights of all words for all queries, and whether a query has any.

        Returns:
            (rows, heads, queries, keys) and (rows, queries).
        """
        count = int(sentences.numbers.amax()) + 1
        numbers, words = sentences.numbers, sentences.words
        member = nn.functional.one_hot(numbers, count).to(memory.dtype) * words[..., None]
        sizes = member.sum(dim=1)
        means = member.transpose(1, 2) @ memory / sizes.clamp(min=1)[..., None]
        other = torch.arange(count, device=numbers.device) - numbers[..., None]
        visible = (other != 0) if self.is_offline else (other < 0)
        # (rows, queries, sentences): those that have words.
        visible = visible & (sizes > 0)[:, None]
        scale = (states.shape[-1] // self.heads) ** -0.5
        query = split_heads(self.sentence_query(states), self.heads)
        key = split_heads(self.sentence_key(means), self.heads)
        exists = visible.any(dim=-1)
        seen = (visible | ~exists[..., None])[:, None]
        chosen = sparsemax(query @ key.transpose(-1, -2) * scale, seen)
        query = split_heads(self.word_query(states), self.heads)
        key = split_heads(self.word_key(memory), self.heads)
        within = segment_softmax(query @ key.transpose(-1, -2) * scale, numbers, words, count)
        index = numbers[:, None, None].expand_as(within)
        return chosen.gather(-1, index) * within, exists


class SanConfig(DocumentConfig):  # type: ignore[no-untyped-call]
    """Configuration of `SanModel`."""

    model_type = "iada_san"


class SanModel(DocumentModel):  # type: ignore[no-untyped-call]
    """SAN on the encoder, online or offline."""

    config_class = SanConfig
    has_stock_decoder = True

    def attention(self, place: Place, layer: int) -> WindowAttention:
        """Make the attention of a layer."""
        return WindowAttention(self.config, place, OWN, layer)

    def add_context(self) -> None:
        """Add the context module, and the encoder of the first stage where context is its."""
        self.encoder_context = SelectiveContext(self.config)
        self.stage_one: WindowEncoder | None = None
        if self.config.frozen_context:
            self.stage_one = self.make_encoder().requires_grad_(False)

    def train(self, mode: bool = True) -> "SanModel":
        """Switch dropout on or off; what is frozen never drops anything."""
        super().train(mode)
        if self.stage_one is not None:
            self.stage_one.train(False)
        return self

    @torch.no_grad()
    def keep_stage_one(self) -> None:
        """Let the frozen encoder be the one that was just loaded."""
        if self.stage_one is not None:
            self.stage_one.load_state_dict(self.model.encoder.state_dict())

    def attend_source(self, states: Tensor, layout: Layout) -> Tensor:
        """Put other sentences into the encoder's topmost states."""
        memory: Any = None
        if self.stage_one is not None:
            with torch.no_grad():
                memory = self.stage_one(layout.source_ids, layout=layout).last_hidden_state
        found: Tensor = self.encoder_context(states, layout.source, memory)
        return found
