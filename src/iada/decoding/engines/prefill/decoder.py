"""A stock Marian model, its decoder written for beams that share what they have in common.

The keys and values of a row lie in slots: first those of its prefix, then one per beam and step.
A table says which slots each beam sees, so beams that part and die copy nothing. All beams of a
row are the queries of one attention over its slots, and over its source, which are kept once per
row. Slots that no beam sees any more are removed from time to time.

Memories of groups of sentences to one memory, padded to the longest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from iada.decoding.engines.prefill.int8 import Attention


@dataclass
class LayerMemory:
    """What one decoder layer remembers of every row."""

    keys: Tensor
    """(rows, heads, slots, head size); only the first `Memory.used` slots are filled."""
    values: Tensor
    """Like `keys`."""
    source_keys: Tensor
    """(rows, heads, source length, head size)"""
    source_values: Tensor
    """Like `source_keys`."""


@dataclass
class Memory:
    """What the decoder remembers of every row."""

    layers: list[LayerMemory]
    sees: Tensor
    """(rows, beams, slots) bool: which slots each beam attends to."""
    sees_source: Tensor
    """(rows, 1, 1, source length) bool"""
    positions: Tensor
    """(rows,) position of the next token."""
    used: int
    """Number of slots in use."""

    def follow(self, parents: Tensor) -> None:
        """Let each beam see what its parent sees; parents are (rows, beams)."""
        self.sees = self.sees.gather(1, parents[:, :, None].expand(-1, -1, self.sees.shape[2]))

    def keep_rows(self, rows: Tensor) -> None:
        """Forget all rows but those with the given numbers."""
        for layer in self.layers:
            layer.keys = layer.keys[rows]
            layer.values = layer.values[rows]
            layer.source_keys = layer.source_keys[rows]
            layer.source_values = layer.source_values[rows]
        self.sees = self.sees[rows]
        self.sees_source = self.sees_source[rows]
        self.positions = self.positions[rows]

    def live_slots(self) -> tuple[Tensor, int]:
        """Return (rows, used) bool, whether any beam sees a slot, and the most of any row."""
        alive = self.sees[:, :, : self.used].any(dim=1)
        return alive, int(alive.sum(dim=1).max())

    def forget_dead_slots(self, alive: Tensor, count: int) -> None:
        """Keep the slots that are alive, in their order; see `live_slots`."""
        # A stable sort puts the living first and keeps their order.
        order = alive.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :count]
        for layer in self.layers:
            layer.keys = self._moved(layer.keys, order)
            layer.values = self._moved(layer.values, order)
        seen = torch.zeros_like(self.sees)
        beams = self.sees.shape[1]
        seen[:, :, :count] = self.sees.gather(2, order[:, None].expand(-1, beams, -1))
        self.sees = seen
        self.used = count

    def reserve(self, slots: int) -> None:
        """Make room for so many slots after those in use."""
        if self.used + slots <= self.sees.shape[2]:
            return
        # Far more than asked for: everything is copied to a new place.
        more = max(slots, self.used // 2)
        self.sees = nn.functional.pad(self.sees[:, :, : self.used], (0, more))
        for layer in self.layers:
            layer.keys = self._grown(layer.keys, more)
            layer.values = self._grown(layer.values, more)

    def _grown(self, states: Tensor, more: int) -> Tensor:
        rows, heads, _, size = states.shape
        grown = states.new_empty(rows, heads, self.used + more, size)
        grown[:, :, : self.used] = states[:, :, : self.used]
        return grown

    def _moved(self, states: Tensor, order: Tensor) -> Tensor:
        rows, heads, _, size = states.shape
        moved = torch.empty_like(states)
        index = order[:, None, :, None].expand(rows, heads, -1, size)
        moved[:, :, : order.shape[1]] = states.gather(2, index)
        return moved


class MarianSearchModel:
    """The parts of a `MarianMTModel` that a search needs.

    Linear layers are called as modules, so they may have been replaced by quantised ones.
    """

    def __init__(self, model: Any, attention: Attention) -> None:
        """Take a model apart.

        Args:
            model: a stock `MarianMTModel`.
            attention: how to attend.
        """
        self.attention = attention
        self.encoder = model.model.encoder
        self.decoder = model.model.decoder
        self.projection = model.lm_head
        bias: Tensor = model.final_logits_bias
        self.logits_bias = bias if bool(bias.any()) else None

    def logits(self, hidden: Tensor) -> Tensor:
        """Return float32 logits; (rows, dim) in, (rows, vocabulary) out."""
        logits: Tensor = self.projection(hidden)
        return (logits if self.logits_bias is None else logits + self.logits_bias).float()

    def begin(
        self, source: Tensor, source_mask: Tensor, prefix: Tensor, prefix_lengths: Tensor
    ) -> tuple[Tensor, Memory]:
        """Read sources and target prefixes, each in one pass.

        Args:
            source: (rows, source length) ids, padded on the right.
            source_mask: like `source`, bool.
            prefix: (rows, prefix length) ids, padded on the right.
            prefix_lengths: (rows,).

        Returns:
            The hidden state after each prefix (rows, dim), and the memory with one beam per row.
        """
        sees_source = source_mask[:, None, None, :]
        encoded = self._encode(source, None if bool(source_mask.all()) else sees_source)
        length = prefix.shape[1]
        hidden = _embed(self.decoder, prefix, torch.arange(length, device=prefix.device)[None])
        last = prefix_lengths - 1
        memories = []
        for layer in self.decoder.layers:
            memory = LayerMemory(
                *self._keys_and_values(layer.self_attn, hidden),
                *self._keys_and_values(layer.encoder_attn, encoded),
            )
            memories.append(memory)
            mask = None
            if layer is self.decoder.layers[-1]:
                # Nothing reads the other positions of the last layer.
                hidden = hidden[torch.arange(len(last), device=last.device), last][:, None]
                mask = (torch.arange(length, device=last.device) <= last[:, None])[:, None, None]
            hidden = self._layer(layer, hidden, memory, mask, sees_source, is_causal=mask is None)
        sees = torch.arange(length, device=last.device) <= last[:, None]
        return hidden[:, -1], Memory(memories, sees[:, None], sees_source, prefix_lengths, length)

    def step(self, tokens: Tensor, memory: Memory) -> Tensor:
        """Read the next token of every beam and remember it.

        Args:
            tokens: (rows, beams) ids.
            memory: of the tokens before; each beam gets one slot more.

        Returns:
            Hidden states, (rows, beams, dim).
        """
        beams = tokens.shape[1]
        memory.reserve(beams)
        first, stop = memory.used, memory.used + beams
        memory.used = stop
        memory.sees[:, :, first:stop] = torch.eye(beams, dtype=torch.bool, device=tokens.device)
        sees = memory.sees[:, None, :, :stop]
        # A sentence that is done is read on until its row goes, maybe beyond the last position.
        last = len(self.decoder.embed_positions.weight) - 1
        hidden = _embed(self.decoder, tokens, memory.positions[:, None].clamp(max=last))
        for layer, layer_memory in zip(self.decoder.layers, memory.layers, strict=True):
            keys, values = self._keys_and_values(layer.self_attn, hidden)
            layer_memory.keys[:, :, first:stop] = keys
            layer_memory.values[:, :, first:stop] = values
            filled = LayerMemory(
                layer_memory.keys[:, :, :stop],
                layer_memory.values[:, :, :stop],
                layer_memory.source_keys,
                layer_memory.source_values,
            )
            hidden = self._layer(layer, hidden, filled, sees, memory.sees_source)
        memory.positions = memory.positions + 1
        return hidden

    def _encode(self, source: Tensor, sees: Tensor | None) -> Tensor:
        """Return the states of the last encoder layer, (rows, source length, dim)."""
        hidden = _embed(
            self.encoder, source, torch.arange(source.shape[1], device=source.device)[None]
        )
        for layer in self.encoder.layers:
            keys, values = self._keys_and_values(layer.self_attn, hidden)
            attended = self._attend(layer.self_attn, hidden, keys, values, sees)
            hidden = _feed_forward(layer, layer.self_attn_layer_norm(hidden + attended))
        return hidden

    def _layer(
        self,
        layer: Any,
        hidden: Tensor,
        memory: LayerMemory,
        sees: Tensor | None,
        sees_source: Tensor,
        *,
        is_causal: bool = False,
    ) -> Tensor:
        """Run one post-norm decoder layer on (rows, queries, dim)."""
        own = memory.keys, memory.values
        attended = self._attend(layer.self_attn, hidden, *own, sees, is_causal=is_causal)
        hidden = layer.self_attn_layer_norm(hidden + attended)
        source = memory.source_keys, memory.source_values
        attended = self._attend(layer.encoder_attn, hidden, *source, sees_source)
        return _feed_forward(layer, layer.encoder_attn_layer_norm(hidden + attended))

    def _attend(
        self,
        attention: Any,
        hidden: Tensor,
        keys: Tensor,
        values: Tensor,
        sees: Tensor | None,
        *,
        is_causal: bool = False,
    ) -> Tensor:
        attended = self.attention.attend(
            _heads(attention, attention.q_proj(hidden)),
            keys,
            values,
            sees,
            is_causal=is_causal,
            scale=attention.scaling,
        )
        result: Tensor = attention.out_proj(attended.transpose(1, 2).flatten(2))
        return result

    def _keys_and_values(self, attention: Any, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return two tensors (rows, heads, length, head size) of states (rows, length, dim)."""
        keys = _heads(attention, attention.k_proj(states))
        values = _heads(attention, attention.v_proj(states))
        return self.attention.remembered(keys, values)


def _embed(stack: Any, ids: Tensor, positions: Tensor) -> Tensor:
    """Return what enters the layers of encoder or decoder."""
    embedded = stack.embed_tokens(ids) * stack.embed_scale
    result: Tensor = embedded + stack.embed_positions.weight[positions]
    return result


def _feed_forward(layer: Any, hidden: Tensor) -> Tensor:
    inner = layer.fc2(layer.activation_fn(layer.fc1(hidden)))
    result: Tensor = layer.final_layer_norm(hidden + inner)
    return result


def _heads(attention: Any, states: Tensor) -> Tensor:
    """Part the heads: (rows, length, dim) to (rows, heads, length, head size)."""
    rows, length, _ = states.shape
    return states.view(rows, length, attention.num_heads, attention.head_dim).transpose(1, 2)


def merge_memories(memories: Sequence[Memory], room: int) -> Memory:
    """Join the rows of several memories.

    Args:
        memories: with one beam each.
        room: number of free slots to leave at the end.
    """
    used = max(memory.used for memory in memories)
    source = max(memory.sees_source.shape[3] for memory in memories)
    layers = [
        LayerMemory(
            keys=_joined([layer.keys for layer in same], used + room),
            values=_joined([layer.values for layer in same], used + room),
            source_keys=_joined([layer.source_keys for layer in same], source),
            source_values=_joined([layer.source_values for layer in same], source),
        )
        for same in zip(*(memory.layers for memory in memories), strict=True)
    ]
    rows = sum(len(memory.positions) for memory in memories)
    sees = torch.zeros(rows, 1, used + room, dtype=torch.bool, device=memories[0].sees.device)
    sees_source = torch.zeros(rows, 1, 1, source, dtype=torch.bool, device=sees.device)
    start = 0
    for memory in memories:
        part = slice(start, start + len(memory.positions))
        sees[part, :, : memory.used] = memory.sees
        sees_source[part, :, :, : memory.sees_source.shape[3]] = memory.sees_source
        start = part.stop
    positions = torch.cat([memory.positions for memory in memories])
    return Memory(layers, sees, sees_source, positions, used)


def _joined(parts: Sequence[Tensor], slots: int) -> Tensor:
    """Stack (rows, heads, slots, head size) tensors, with zeros where one has fewer slots."""
    first = parts[0]
    rows = sum(len(part) for part in parts)
    whole = first.new_zeros(rows, first.shape[1], slots, first.shape[3])
    start = 0
    for part in parts:
        whole[start : start + len(part), :, : part.shape[2]] = part
        start += len(part)
    return whole
