"""A model with Marian's decoder, which shares one key-value cache between the beams of a row.

The cache of a row holds first the keys and values of its prefix, then one entry per beam and step.
A mask says which entries each beam attends to, so reordering beams copies no keys or values. All
beams of a row are the queries of one attention over its entries, and over its source, whose keys
and values are kept once per row. Entries that no beam attends to any more are removed from time to
time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from iada.decoding.engines.prefill.attention import Attention
from iada.decoding.engines.prefill.kept_states import SentenceStates, encodes_sentences_alone
from iada.models.document import DocumentModel


@dataclass
class LayerCache:
    """Keys and values of one decoder layer, for every row."""

    keys: Tensor
    """As `Attention.to_cache` lays them out; the first `KeyValueCache.length` are in use."""
    values: Tensor
    """(rows, heads, capacity, head size), and what else `Attention.to_cache` adds."""
    source_keys: Tensor
    """Like `keys`, of the source; all are in use."""
    source_values: Tensor
    """Like `values`, of the source."""
    fixed: dict[str, Tensor] = field(default_factory=dict)
    """What else every step reads of a row, (rows, any, entries, any), padded with zeros."""

    def first(self, count: int, key_entries: int) -> "LayerCache":
        """Return the first entries alone; they are not copied."""
        keys = self.keys.narrow(key_entries, 0, count)
        return replace(self, keys=keys, values=self.values[:, :, :count])


@dataclass
class KeyValueCache:
    """Keys and values of all decoder layers, and which beam attends to which of them."""

    layers: list[LayerCache]
    attention_mask: Tensor
    """(rows, beams, capacity) bool: the entries that each beam attends to."""
    source_mask: Tensor
    """(rows, 1, 1, source length) bool"""
    positions: Tensor
    """(rows,) position of the next token."""
    length: int
    """Number of entries in use."""
    key_entries: int
    """The dimension of keys that counts entries; that of values is 2."""
    is_near: Tensor | None = None
    """(rows, capacity) bool: entries of the sentence that is being written, as all new ones are;
    None for a decoder that does not tell sentences apart."""

    def append(self, beams: int) -> int:
        """Give each beam an entry that it alone attends to; return the number of the first."""
        self.reserve(beams)
        first, self.length = self.length, self.length + beams
        own = torch.eye(beams, dtype=torch.bool, device=self.attention_mask.device)
        self.attention_mask[:, :, first : self.length] = own
        return first

    def reorder(self, parents: Tensor) -> None:
        """Give each beam the entries of its parent; parents are (rows, beams)."""
        mask = self.attention_mask
        self.attention_mask = mask.gather(1, parents[:, :, None].expand(-1, -1, mask.shape[2]))

    def select_rows(self, rows: Tensor) -> None:
        """Keep the rows with the given numbers alone."""
        for layer in self.layers:
            layer.keys = layer.keys[rows]
            layer.values = layer.values[rows]
            layer.source_keys = layer.source_keys[rows]
            layer.source_values = layer.source_values[rows]
            layer.fixed = {name: states[rows] for name, states in layer.fixed.items()}
        if self.is_near is not None:
            self.is_near = self.is_near[rows]
        self.attention_mask = self.attention_mask[rows]
        self.source_mask = self.source_mask[rows]
        self.positions = self.positions[rows]

    def find_live_entries(self) -> tuple[Tensor, int]:
        """Return (rows, length) bool, whether any beam attends to an entry, and the largest count.

        The count is that of the row with most live entries.
        """
        is_live = self.attention_mask[:, :, : self.length].any(dim=1)
        return is_live, int(is_live.sum(dim=1).max())

    def compact(self, is_live: Tensor, count: int) -> None:
        """Keep the live entries alone, in their order; see `find_live_entries`."""
        # A stable sort puts the live ones first and keeps their order.
        order = is_live.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :count]
        for layer in self.layers:
            layer.keys = _gather(layer.keys, order, self.key_entries)
            layer.values = _gather(layer.values, order, 2)
        mask = torch.zeros_like(self.attention_mask)
        beams = mask.shape[1]
        mask[:, :, :count] = self.attention_mask.gather(2, order[:, None].expand(-1, beams, -1))
        self.attention_mask = mask
        if self.is_near is not None:
            is_near = torch.ones_like(self.is_near)
            is_near[:, :count] = self.is_near.gather(1, order)
            self.is_near = is_near
        self.length = count

    def reserve(self, entries: int) -> None:
        """Make room for so many entries after those in use."""
        if self.length + entries <= self.attention_mask.shape[2]:
            return
        # Far more than requested, because everything is copied.
        more = max(entries, self.length // 2)
        self.attention_mask = nn.functional.pad(self.attention_mask[:, :, : self.length], (0, more))
        if self.is_near is not None:
            is_near = self.is_near[:, : self.length]
            self.is_near = nn.functional.pad(is_near, (0, more), value=True)
        for layer in self.layers:
            layer.keys = self._enlarge(layer.keys, more, self.key_entries)
            layer.values = self._enlarge(layer.values, more, 2)

    def _enlarge(self, states: Tensor, more: int, entries: int) -> Tensor:
        shape = list(states.shape)
        shape[entries] = self.length + more
        larger = states.new_empty(shape)
        larger.narrow(entries, 0, self.length).copy_(states.narrow(entries, 0, self.length))
        return larger


class MarianSearchModel:
    """The parts of a `MarianMTModel`, or of a document-level model like it, that a search needs.

    Linear layers are called as modules, so they may have been replaced by quantised ones.
    """

    def __init__(self, model: Any, attention: Attention) -> None:
        """Look up the parts of a model.

        Args:
            model: a stock `MarianMTModel`, or a `DocumentModel` with a stock decoder.
            attention: how to attend.
        """
        self.attention = attention
        self.encode_window = None
        if isinstance(model, DocumentModel):
            encoder = SentenceStates(model) if encodes_sentences_alone(model) else model
            self.encode_window = encoder.encode_window
        self.encoder = model.model.encoder
        self.decoder = model.model.decoder
        self.projection = model.lm_head
        bias: Tensor = model.final_logits_bias
        self.logits_bias = bias if bool(bias.any()) else None

    @property
    def cached_layers(self) -> int:
        """Number of `KeyValueCache.layers` that the model needs."""
        return len(self.decoder.layers)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return float32 logits; (rows, dim) in, (rows, vocabulary) out."""
        logits: Tensor = self.projection(hidden)
        return (logits if self.logits_bias is None else logits + self.logits_bias).float()

    def prefill(
        self,
        source: Tensor,
        source_mask: Tensor,
        prefix: Tensor,
        prefix_lengths: Tensor,
        first_sentence: Tensor,
    ) -> tuple[Tensor, KeyValueCache]:
        """Encode sources and read target prefixes, each in one pass.

        Args:
            source: (rows, source length) ids, padded on the right.
            source_mask: like `source`, bool.
            prefix: (rows, prefix length) ids, padded on the right.
            prefix_lengths: (rows,).
            first_sentence: (rows,) source sentences before the one to translate, for models that
                encode windows.

        Returns:
            The hidden state after each prefix (rows, dim), and the cache, with one beam per row.
        """
        if self.encode_window is not None:
            encoded, source_mask = self.encode_window(source, source_mask, first_sentence)
            source_mask = source_mask[:, None, None, :]
        else:
            source_mask = source_mask[:, None, None, :]
            is_full = bool(source_mask.all())
            encoded = self._encode(source, None if is_full else self.attention.to_mask(source_mask))
        length = prefix.shape[1]
        hidden = embed(self.decoder, prefix, torch.arange(length, device=prefix.device)[None])
        last = prefix_lengths - 1
        is_prefix = torch.arange(length, device=last.device) <= last[:, None]
        may_read_source = self.attention.to_mask(source_mask)
        layers = []
        for layer in self.decoder.layers:
            cached = LayerCache(
                *self._keys_and_values(layer.self_attn, hidden),
                *self._keys_and_values(layer.encoder_attn, encoded),
            )
            layers.append(cached)
            mask = None
            if layer is self.decoder.layers[-1]:
                # Nothing else attends to the other positions of the last layer.
                hidden = hidden[torch.arange(len(last), device=last.device), last][:, None]
                mask = self.attention.to_mask(is_prefix[:, None, None])
            is_causal = mask is None
            hidden = self._layer(layer, hidden, cached, mask, may_read_source, is_causal=is_causal)
        cache = KeyValueCache(
            layers=layers,
            attention_mask=is_prefix[:, None],
            source_mask=source_mask,
            positions=prefix_lengths,
            length=length,
            key_entries=self.attention.key_entries,
        )
        return hidden[:, -1], cache

    def step(self, tokens: Tensor, cache: KeyValueCache) -> Tensor:
        """Read the next token of every beam and add its keys and values to the cache.

        Args:
            tokens: (rows, beams) ids.
            cache: of the tokens before; each beam gets one more entry.

        Returns:
            Hidden states, (rows, beams, dim).
        """
        first = cache.append(tokens.shape[1])
        mask = self.attention.to_mask(cache.attention_mask[:, None, :, : cache.length])
        source_mask = self.attention.to_mask(cache.source_mask)
        hidden = self._embed_next(tokens, cache)
        for layer, layer_cache in zip(self.decoder.layers, cache.layers, strict=True):
            filled = self._extend(layer_cache, layer.self_attn, hidden, first, cache)
            hidden = self._layer(layer, hidden, filled, mask, source_mask)
        return hidden

    def _embed_next(self, tokens: Tensor, cache: KeyValueCache) -> Tensor:
        """Return what enters the layers for the next token of every beam, and count it."""
        return embed(self.decoder, tokens, self._next_positions(cache))

    def _next_positions(self, cache: KeyValueCache) -> Tensor:
        """(rows, 1): position of the next token of every row, which is counted."""
        # A finished sentence is decoded until its row is removed, maybe beyond the last position.
        last = len(self.decoder.embed_positions.weight) - 1
        positions = cache.positions[:, None].clamp(max=last)
        cache.positions = cache.positions + 1
        return positions

    def _extend(
        self, layer: LayerCache, attention: Any, hidden: Tensor, first: int, cache: KeyValueCache
    ) -> LayerCache:
        """Write keys and values of the beams' states from an entry on; return all in use."""
        keys, values = self._keys_and_values(attention, hidden)
        beams = hidden.shape[1]
        layer.keys.narrow(cache.key_entries, first, beams).copy_(keys)
        layer.values[:, :, first : first + beams] = values
        return layer.first(cache.length, cache.key_entries)

    def _encode(self, source: Tensor, mask: Tensor | None) -> Tensor:
        """Return the states of the last encoder layer, (rows, source length, dim)."""
        hidden = embed(
            self.encoder, source, torch.arange(source.shape[1], device=source.device)[None]
        )
        for layer in self.encoder.layers:
            keys, values = self._keys_and_values(layer.self_attn, hidden)
            attended = self._attend(layer.self_attn, hidden, keys, values, mask)
            hidden = feed_forward(layer, layer.self_attn_layer_norm(hidden + attended))
        return hidden

    def _layer(
        self,
        layer: Any,
        hidden: Tensor,
        cache: LayerCache,
        mask: Tensor | None,
        source_mask: Tensor,
        *,
        is_causal: bool = False,
    ) -> Tensor:
        """Run one post-norm decoder layer on (rows, queries, dim)."""
        own = cache.keys, cache.values
        attended = self._attend(layer.self_attn, hidden, *own, mask, is_causal=is_causal)
        hidden = layer.self_attn_layer_norm(hidden + attended)
        source = cache.source_keys, cache.source_values
        attended = self._attend(layer.encoder_attn, hidden, *source, source_mask)
        return feed_forward(layer, layer.encoder_attn_layer_norm(hidden + attended))

    def _attend(
        self,
        attention: Any,
        hidden: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        *,
        is_causal: bool = False,
    ) -> Tensor:
        attended = self.attention.attend(
            _heads(attention, attention.q_proj(hidden)),
            keys,
            values,
            mask,
            is_causal=is_causal,
            scale=attention.scaling,
        )
        result: Tensor = attention.out_proj(attended.transpose(1, 2).flatten(2))
        return result

    def _keys_and_values(self, attention: Any, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return what is cached of states (rows, length, dim)."""
        keys = _heads(attention, attention.k_proj(states))
        values = _heads(attention, attention.v_proj(states))
        return self.attention.to_cache(keys, values)


def embed(stack: Any, ids: Tensor, positions: Tensor) -> Tensor:
    """Return what enters the layers of encoder or decoder."""
    result: Tensor = look_up(stack, ids) + stack.embed_positions.weight[positions]
    return result


def look_up(stack: Any, ids: Tensor) -> Tensor:
    """Return scaled embeddings, (rows, length, dim)."""
    embeddings: Tensor = stack.embed_tokens(ids) * stack.embed_scale
    return embeddings


def feed_forward(layer: Any, hidden: Tensor) -> Tensor:
    """Run the last part of a post-norm layer on (rows, queries, dim)."""
    inner = layer.fc2(layer.activation_fn(layer.fc1(hidden)))
    result: Tensor = layer.final_layer_norm(hidden + inner)
    return result


def _heads(attention: Any, states: Tensor) -> Tensor:
    """Split the heads: (rows, length, dim) to (rows, heads, length, head size)."""
    rows, length, _ = states.shape
    return states.view(rows, length, attention.num_heads, attention.head_dim).transpose(1, 2)


def merge_caches(caches: Sequence[KeyValueCache], room: int) -> KeyValueCache:
    """Join the rows of several caches, padded to the longest.

    Args:
        caches: with one beam each.
        room: number of free entries to leave at the end.
    """
    length = max(cache.length for cache in caches)
    source = max(cache.source_mask.shape[3] for cache in caches)
    key_entries = caches[0].key_entries
    layers = [
        LayerCache(
            keys=_stack([layer.keys for layer in same], length + room, key_entries),
            values=_stack([layer.values for layer in same], length + room, 2),
            source_keys=_stack([layer.source_keys for layer in same], source, key_entries),
            source_values=_stack([layer.source_values for layer in same], source, 2),
            fixed={
                name: _stack_fixed([layer.fixed[name] for layer in same]) for name in same[0].fixed
            },
        )
        for same in zip(*(cache.layers for cache in caches), strict=True)
    ]
    rows = sum(len(cache.positions) for cache in caches)
    device = caches[0].attention_mask.device
    attention_mask = torch.zeros(rows, 1, length + room, dtype=torch.bool, device=device)
    source_mask = torch.zeros(rows, 1, 1, source, dtype=torch.bool, device=device)
    tells = caches[0].is_near is not None
    is_near = torch.ones_like(attention_mask[:, 0]) if tells else None
    start = 0
    for cache in caches:
        part = slice(start, start + len(cache.positions))
        attention_mask[part, :, : cache.length] = cache.attention_mask
        if is_near is not None and cache.is_near is not None:
            is_near[part, : cache.length] = cache.is_near
        source_mask[part, :, :, : cache.source_mask.shape[3]] = cache.source_mask
        start = part.stop
    positions = torch.cat([cache.positions for cache in caches])
    return KeyValueCache(
        layers, attention_mask, source_mask, positions, length, key_entries, is_near
    )


def _stack_fixed(parts: Sequence[Tensor]) -> Tensor:
    """Stack tensors like `LayerCache.fixed`, padded to the most entries."""
    return _stack(parts, max(part.shape[2] for part in parts), 2)


def _stack(parts: Sequence[Tensor], count: int, entries: int) -> Tensor:
    """Stack tensors of keys or values, with zeros where one has fewer entries.

    Args:
        parts: (rows, heads, ...), alike but for the rows and the entries.
        count: number of entries of the result.
        entries: the dimension that counts them.
    """
    shape = list(parts[0].shape)
    shape[0], shape[entries] = sum(len(part) for part in parts), count
    whole = parts[0].new_zeros(shape)
    start = 0
    for part in parts:
        rows = whole[start : start + len(part)]
        rows.narrow(entries, 0, part.shape[entries]).copy_(part)
        start += len(part)
    return whole


def _gather(states: Tensor, order: Tensor, entries: int) -> Tensor:
    """Put the entries with the given numbers, (rows, entries), first; the rest is not set."""
    gathered = torch.empty_like(states)
    index = order[:, None, :, None] if entries == 2 else order[:, None, None, :]
    shape = list(states.shape)
    shape[entries] = order.shape[1]
    found = states.gather(entries, index.expand(shape))
    gathered.narrow(entries, 0, order.shape[1]).copy_(found)
    return gathered
