"""HAN (Miculicich et al. 2018): hierarchical attention over the sentences before.

Each sentence of the window is encoded and decoded as if it were alone. For a position with topmost
state h, and the states H_1 .. H_k of the words of the k sentences before its own:

    s_j = LN(MHA_word(LN(h), H_j))          words of each sentence
    u   = MHA_sentence(LN(h), s_1 .. s_k)   sentences
    d   = u + FFN(LN(u))
    g   = sigmoid(W [h; d]),   out = (1 - g) * h + g * d

A sentence without context keeps its states exactly. The released code normalises `out` once more
(`context_norm`) and lets such a sentence attend to unrelated rows, which is not done here. It also
stops gradients at queries and context inside the module (`stop_context`).
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.marian.modeling_marian import MarianAttention

from iada.models.document import DocumentConfig, DocumentModel, WindowAttention
from iada.models.layout import OWN, Layout, Place, back


class HierarchicalContext(nn.Module):
    """The context module of one side."""

    def __init__(self, config: DocumentConfig, place: Place) -> None:
        super().__init__()
        is_encoder = place == "encoder"
        heads = config.encoder_attention_heads if is_encoder else config.decoder_attention_heads
        width = config.encoder_ffn_dim if is_encoder else config.decoder_ffn_dim
        self.place: Place = place
        self.context = config.context
        self.stop_context = config.stop_context
        self.word_query_norm = nn.LayerNorm(config.d_model)
        self.word_attention = MarianAttention(config.d_model, heads, config=config)
        self.word_norm = nn.LayerNorm(config.d_model)
        self.sentence_query_norm = nn.LayerNorm(config.d_model)
        self.sentence_attention = MarianAttention(config.d_model, heads, config=config)
        self.feed_norm = nn.LayerNorm(config.d_model)
        self.fc1 = nn.Linear(config.d_model, width)
        self.fc2 = nn.Linear(width, config.d_model)
        self.gate = nn.Linear(2 * config.d_model, config.d_model)
        self.out_norm = nn.LayerNorm(config.d_model) if config.context_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, states: Tensor, memory: Tensor, layout: Layout) -> Tensor:
        """Return the states with context.

        Args:
            states: (rows, queries, dim) topmost states.
            memory: (rows, keys, dim) topmost states of the whole side, from which context is read.
            layout: of the window.
        """
        return self.attend(states, *self.keys_and_values(memory), self.visible(layout))

    def visible(self, layout: Layout) -> Tensor:
        """(rows, context, queries, keys): the words of each sentence before, the last one first."""
        distances = range(1, self.context + 1)
        return torch.stack([layout.visible(self.place, back(j)) for j in distances], dim=1)

    def keys_and_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """(rows, heads, keys, size) each: what is read of states, (rows, keys, dim)."""
        memory = memory.detach() if self.stop_context else memory
        attention = self.word_attention
        keys, values = attention.k_proj(memory), attention.v_proj(memory)
        return split_heads(keys, attention.num_heads), split_heads(values, attention.num_heads)

    def attend(self, states: Tensor, keys: Tensor, values: Tensor, visible: Tensor) -> Tensor:
        """Return the states with context.

        Args:
            states: (rows, queries, dim) topmost states.
            keys: from `keys_and_values`.
            values: from `keys_and_values`.
            visible: from `visible`; one query stands for all of a row.
        """
        query = states.detach() if self.stop_context else states
        words = self._attend_words(self.word_query_norm(query), keys, values, visible)
        # (rows, queries, context): which of the sentences before there are.
        exists = visible.any(dim=-1).transpose(1, 2)
        sentences = self._attend_sentences(self.sentence_query_norm(query), words, exists)
        fed = self.fc2(self.dropout(torch.relu(self.fc1(self.feed_norm(sentences)))))
        found = sentences + self.dropout(fed)
        share = torch.sigmoid(self.gate(torch.cat([states, found], dim=-1)))
        mixed = self.out_norm((1 - share) * states + share * found)
        return torch.where(exists.any(dim=-1)[..., None], mixed, states)

    def _attend_words(self, query: Tensor, keys: Tensor, values: Tensor, visible: Tensor) -> Tensor:
        """(rows, context, queries, dim): what each of the sentences before holds for a query."""
        attention = self.word_attention
        context = visible.shape[1]
        queries = split_heads(attention.q_proj(query), attention.num_heads)
        q, k, v = (one[:, None].expand(-1, context, -1, -1, -1) for one in (queries, keys, values))
        # Whoever has nothing to see sees everything, and is left out afterwards.
        mask = (visible | ~visible.any(dim=-1, keepdim=True))[:, :, None]
        found = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        result: Tensor = self.word_norm(attention.out_proj(found.transpose(2, 3).flatten(3)))
        return result

    def _attend_sentences(self, query: Tensor, words: Tensor, exists: Tensor) -> Tensor:
        """(rows, queries, dim): what the sentences before hold together.

        Args:
            query: (rows, queries, dim).
            words: (rows, context, queries, dim).
            exists: (rows, queries, context).
        """
        attention = self.sentence_attention
        # (rows, queries, heads, 1, size) against (rows, queries, heads, context, size): every
        # position has keys of its own.
        q = split_heads(attention.q_proj(query), attention.num_heads).transpose(1, 2)[..., None, :]
        k, v = (
            split_heads(one.transpose(1, 2), attention.num_heads)
            for one in (attention.k_proj(words), attention.v_proj(words))
        )
        mask = (exists | ~exists.any(dim=-1, keepdim=True))[:, :, None, None]
        found = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        result: Tensor = attention.out_proj(found.flatten(2))
        return result


def split_heads(values: Tensor, heads: int) -> Tensor:
    """(..., length, dim) to (..., heads, length, size)."""
    return values.view(*values.shape[:-1], heads, -1).transpose(-2, -3)


class HanConfig(DocumentConfig):  # type: ignore[no-untyped-call]
    """Configuration of `HanModel`."""

    model_type = "iada_han"


class HanModel(DocumentModel):  # type: ignore[no-untyped-call]
    """HAN with a context module on the encoder, on the decoder, or on both."""

    config_class = HanConfig

    def attention(self, place: Place, layer: int) -> WindowAttention:
        """Make the attention of a layer."""
        return WindowAttention(self.config, place, OWN, layer)

    def add_context(self) -> None:
        """Add the context modules."""
        sides = self.config.context_sides
        self.encoder_context: HierarchicalContext | None = None
        self.decoder_context: HierarchicalContext | None = None
        if sides in ("encoder", "both"):
            self.encoder_context = HierarchicalContext(self.config, "encoder")
        if sides in ("decoder", "both"):
            self.decoder_context = HierarchicalContext(self.config, "decoder")

    @property
    def has_stock_decoder(self) -> bool:
        """Whether the decoder reads no context."""
        return self.decoder_context is None

    @property
    def cached_layers(self) -> int:
        """Layers of the cache; the decoder's topmost states lie behind those of all layers."""
        return int(self.config.decoder_layers) + (self.decoder_context is not None)

    def attend_source(self, states: Tensor, layout: Layout) -> Tensor:
        """Put the sentences before into the encoder's topmost states."""
        if self.encoder_context is None:
            return states
        found: Tensor = self.encoder_context(states, states, layout)
        return found

    def attend_target(self, states: Tensor, layout: Layout, past_key_values: Any) -> Tensor:
        """Put the sentences before into the decoder's topmost states."""
        if self.decoder_context is None:
            return states
        memory = states
        if past_key_values is not None:
            cache, layer = past_key_values.self_attention_cache, self.config.decoder_layers
            # One head as wide as the model, and no values: beams reorder it like all layers.
            memory = cache.update(states[:, None], states[:, None, :, :0], layer)[0][:, 0]
        found: Tensor = self.decoder_context(states, memory, layout)
        return found
