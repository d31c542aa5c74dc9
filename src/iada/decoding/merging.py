"""Memories of groups of sentences to one memory, padded to the longest."""

from collections.abc import Sequence

import torch
from torch import Tensor

from iada.decoding.marian import LayerMemory, Memory


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
