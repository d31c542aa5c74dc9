"""Hybrid (Zheng et al. 2020): local layers, one global layer, and a decoder with memory.

The encoder reads each sentence alone, with a learned embedding of its number in the window. One
more layer attends to the whole window, with keys and values that know how many sentences away they
are, and a gate mixes what the two found:

    score = q . (k + R^K_d) / sqrt(size),   value = v + R^V_d      d: sentences from query to key
    g = sigmoid(W [local; global]),   out = LN(g * local + (1 - g) * global)

The decoder has no absolute positions. Its self-attention is that of Transformer-XL: a token sees
its own sentence and, as memory, the sentence before:

    score = (q + u) . k + (q + w) . r_n                            n: tokens from key to query

No gradient flows into the memory (`stop_context`). The cross-attention reads the sentence that is
translated. The published system has pre-norm layers, u and w shared by all layers, and a
cross-attention that adds its result to its normalised input; here layers are post-norm like all of
ours and have their own u and w. `pre_norm` and `residual_from_norm` give the published form.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.marian.modeling_marian import MarianDecoderLayer, MarianEncoderLayer

from iada.models.document import (
    DocumentConfig,
    DocumentModel,
    MakeAttention,
    WindowAttention,
    WindowDecoder,
    WindowEncoder,
)
from iada.models.han import split_heads
from iada.models.layout import ALL, OWN, PREVIOUS, Layout, Place, Sentences

FARTHEST = 20
"""Sentences away from which all count as equally far; also the numbers of sentences known."""


class SegmentAttention(nn.Module):
    """Attention over the window that knows how many sentences away a key is."""

    def __init__(self, config: DocumentConfig) -> None:
        super().__init__()
        dim, self.heads = config.d_model, config.encoder_attention_heads
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.out_proj = nn.Linear(dim, dim)
        self.relative_keys = nn.Embedding(2 * FARTHEST + 1, dim // self.heads)
        self.relative_values = nn.Embedding(2 * FARTHEST + 1, dim // self.heads)

    def forward(self, states: Tensor, sentences: Sentences, mask: Tensor) -> Tensor:
        """Attend; `states` is (rows, length, dim), `mask` (rows, 1, length, length)."""
        query, key, value = (
            split_heads(project(states), self.heads)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        numbers = sentences.numbers
        distance = (numbers[:, None, :] - numbers[:, :, None]).clamp(-FARTHEST, FARTHEST)
        index = (distance + FARTHEST)[:, None].expand(-1, self.heads, -1, -1)
        # Scores of the few distances are gathered, shares are added up by distance: no tensor of
        # every pair with a width.
        scores = query @ key.transpose(-1, -2)
        scores = scores + (query @ self.relative_keys.weight.T).gather(-1, index)
        scores = scores * query.shape[-1] ** -0.5
        shares = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
        by_distance = shares.new_zeros(*shares.shape[:-1], 2 * FARTHEST + 1)
        by_distance = by_distance.scatter_add(-1, index, shares)
        found = shares @ value + by_distance @ self.relative_values.weight
        attended: Tensor = self.out_proj(found.transpose(1, 2).flatten(2))
        return attended


class GlobalContext(nn.Module):
    """The global layer of the encoder, and the gate between it and the local ones."""

    def __init__(self, config: DocumentConfig) -> None:
        super().__init__()
        dim = config.d_model
        self.pre_norm = config.pre_norm
        self.attention = SegmentAttention(config)
        self.attention_norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, config.encoder_ffn_dim)
        self.fc2 = nn.Linear(config.encoder_ffn_dim, dim)
        self.final_norm = nn.LayerNorm(dim)
        self.gate = nn.Linear(2 * dim, dim)
        self.out_norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, states: Tensor, layout: Layout) -> Tensor:
        """Return the encoder's topmost states, (rows, length, dim), with the window around them."""
        mask = layout.mask("encoder", ALL)
        read = self.attention_norm(states) if self.pre_norm else states
        found = states + self.dropout(self.attention(read, layout.source, mask))
        found = found if self.pre_norm else self.attention_norm(found)
        read = self.final_norm(found) if self.pre_norm else found
        found = found + self.dropout(self.fc2(torch.relu(self.fc1(read))))
        found = found if self.pre_norm else self.final_norm(found)
        share = torch.sigmoid(self.gate(torch.cat([states, found], dim=-1)))
        mixed: Tensor = self.out_norm(share * states + (1 - share) * found)
        return mixed


def sinusoids(count: int, dim: int, like: Tensor) -> Tensor:
    """(count, dim): sines, then cosines, of positions 0 to count - 1."""
    steps = torch.arange(0, dim, 2, dtype=torch.float64, device=like.device)
    angles = torch.arange(count, device=like.device)[:, None] * torch.exp(
        steps * (-math.log(10000.0) / dim)
    )
    return torch.cat([angles.sin(), angles.cos()], dim=-1).to(like.dtype)


class MemoryAttention(WindowAttention):
    """Self-attention of Transformer-XL over the own sentence and the one before."""

    def __init__(self, config: DocumentConfig, layer: int) -> None:
        super().__init__(config, "decoder", OWN, layer)
        self.stop_context = config.stop_context
        self.relative_key = nn.Linear(config.d_model, config.d_model, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(self.num_heads, self.head_dim))
        self.position_bias = nn.Parameter(torch.zeros(self.num_heads, self.head_dim))

    def forward(
        self,
        hidden_states: Tensor,
        key_value_states: Tensor | None = None,
        past_key_values: Any = None,
        attention_mask: Tensor | None = None,
        layout: Layout | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend; arguments as in the stock class."""
        assert layout is not None, "the model hands its layout to every attention"
        own = layout.mask("decoder", OWN)
        memory = layout.visible("decoder", PREVIOUS)[:, None]
        query, key, value = (
            split_heads(project(hidden_states), self.num_heads)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        if past_key_values is not None:
            cache = past_key_values.self_attention_cache
            key, value = cache.update(key, value, self.layer_idx)
        old_key, old_value = key, value
        if self.stop_context and past_key_values is None and torch.is_grad_enabled():
            # The memory is made of states without gradient, by projections with one.
            stopped = hidden_states.detach()
            old_key = split_heads(self.k_proj(stopped), self.num_heads)
            old_value = split_heads(self.v_proj(stopped), self.num_heads)
        content = query + self.content_bias[:, None]
        scores = content @ key.transpose(-1, -2)
        if old_key is not key:
            scores = torch.where(memory, content @ old_key.transpose(-1, -2), scores)
        scores = (scores + self._position_scores(query, key.shape[2])) * self.scaling
        shares = scores.masked_fill(~(own | memory), torch.finfo(scores.dtype).min).softmax(dim=-1)
        shares = nn.functional.dropout(shares, p=self.dropout, training=self.training)
        if old_value is value:
            found = shares @ value
        else:
            found = (shares * ~memory) @ value + (shares * memory) @ old_value
        return self.out_proj(found.transpose(1, 2).flatten(2)), None

    def _position_scores(self, query: Tensor, keys: int) -> Tensor:
        """(rows, heads, queries, keys): what the number of tokens between query and key adds."""
        places = torch.arange(keys, device=query.device)
        distance = (places[-query.shape[2] :, None] - places).clamp(min=0)
        return self.score_distances(query, self.relative_keys(keys, query), distance)

    def relative_keys(self, count: int, like: Tensor) -> Tensor:
        """(heads, count, size): keys of the distances 0 to count - 1."""
        return split_heads(
            self.relative_key(sinusoids(count, self.embed_dim, like)), self.num_heads
        )

    def score_distances(self, query: Tensor, relative: Tensor, distance: Tensor) -> Tensor:
        """(rows, heads, queries, keys): what distances add to the scores, before scaling.

        Args:
            query: (rows, heads, queries, size).
            relative: from `relative_keys`.
            distance: tokens from key to query, broadcastable to (rows, 1, queries, keys).
        """
        scores = (query + self.position_bias[:, None]) @ relative.transpose(-1, -2)
        rows, heads, queries, _ = scores.shape
        return scores.gather(-1, distance.expand(rows, heads, queries, -1))


class PreNormEncoderLayer(MarianEncoderLayer):
    """A stock layer that normalises what it reads."""

    def forward(self, hidden_states: Tensor, attention_mask: Any, **kwargs: Any) -> Tensor:
        """Return new states, (rows, length, dim)."""
        found, _ = self.self_attn(self.self_attn_layer_norm(hidden_states), **kwargs)
        states = hidden_states + _drop(found, self)
        read = self.final_layer_norm(states)
        return states + _drop(self.fc2(self.activation_fn(self.fc1(read))), self)


class PreNormDecoderLayer(MarianDecoderLayer):
    """A stock layer that normalises what it reads."""

    residual_from_norm = False

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Any = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Any = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Return new states, (rows, queries, dim)."""
        read = self.self_attn_layer_norm(hidden_states)
        found, _ = self.self_attn(read, past_key_values=past_key_values, **kwargs)
        states = hidden_states + _drop(found, self)
        read = self.encoder_attn_layer_norm(states)
        found, _ = self.encoder_attn(
            read,
            key_value_states=encoder_hidden_states,
            past_key_values=past_key_values,
            **kwargs,
        )
        states = (read if self.residual_from_norm else states) + _drop(found, self)
        read = self.final_layer_norm(states)
        return states + _drop(self.fc2(self.activation_fn(self.fc1(read))), self)


def _drop(values: Tensor, layer: Any) -> Tensor:
    return nn.functional.dropout(values, p=layer.dropout, training=layer.training)


class HybridEncoder(WindowEncoder):  # type: ignore[no-untyped-call]
    """The local layers, which know the number of a sentence."""

    def __init__(self, config: DocumentConfig, attention: MakeAttention) -> None:
        super().__init__(config, attention)
        self.embed_segments = nn.Embedding(FARTHEST, config.d_model)
        if config.pre_norm:
            for number, stock in enumerate(self.layers):
                self.layers[number] = PreNormEncoderLayer(config)
                self.layers[number].self_attn = stock.self_attn

    def embed(self, embeddings: Tensor, layout: Layout) -> Tensor:
        """Add positions and the number of the sentence."""
        numbers = layout.source.numbers.clamp(max=FARTHEST - 1)
        segments: Tensor = self.embed_segments(numbers) * self.embed_scale
        return super().embed(embeddings + segments, layout)


class HybridDecoder(WindowDecoder):  # type: ignore[no-untyped-call]
    """Layers with memory, without absolute positions."""

    def __init__(self, config: DocumentConfig, attention: MakeAttention) -> None:
        super().__init__(config, attention)
        if config.pre_norm:
            stocks: Any = self.layers
            for number, stock in enumerate(stocks):
                layer = PreNormDecoderLayer(config, layer_idx=number)
                layer.residual_from_norm = config.residual_from_norm
                layer.self_attn, layer.encoder_attn = stock.self_attn, stock.encoder_attn
                self.layers[number] = layer

    def embed(self, embeddings: Tensor, layout: Layout, past_key_values: Any) -> Tensor:
        """Return the embeddings as they are: positions are relative."""
        return embeddings


class HybridConfig(DocumentConfig):  # type: ignore[no-untyped-call]
    """Configuration of `HybridModel`."""

    model_type = "iada_hybrid"


class HybridModel(DocumentModel):  # type: ignore[no-untyped-call]
    """Hybrid."""

    config_class = HybridConfig

    def make_encoder(self) -> WindowEncoder:
        """Make the encoder."""
        return HybridEncoder(self.config, self.attention)

    def make_decoder(self) -> WindowDecoder:
        """Make the decoder."""
        return HybridDecoder(self.config, self.attention)

    def add_context(self) -> None:
        """Add the global layer."""
        self.global_context = GlobalContext(self.config)

    def attention(self, place: Place, layer: int) -> WindowAttention:
        """Make the attention of a layer."""
        if place == "decoder":
            return MemoryAttention(self.config, layer)
        return WindowAttention(self.config, place, OWN, layer)

    def attend_source(self, states: Tensor, layout: Layout) -> Tensor:
        """Put the window into the encoder's topmost states."""
        found: Tensor = self.global_context(states, layout)
        return found
