"""Several models that search as one: at every step their probabilities are averaged.

The mean is that of probabilities (in log space), not of log-probabilities: it is a distribution
itself, so scores remain log-probabilities, and a model that finds a token impossible does not veto
it. Every member reads the same window and the same tokens, so one cache holds the layers of all of
them, and one mask says which entries a beam attends to.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from iada.decoding.engines.prefill.decoder import KeyValueCache, MarianSearchModel


class SearchEnsemble:
    """What a search needs of several models; hidden states stand one after the other."""

    def __init__(self, members: Sequence[MarianSearchModel]) -> None:
        """Join models.

        Args:
            members: of one vocabulary and one architecture; their sizes may differ.
        """
        self.members = tuple(members)
        self.dims = [member.decoder.embed_tokens.embedding_dim for member in members]
        self.layers = [member.cached_layers for member in members]

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the log of the mean probabilities; (rows, dims) in, (rows, vocabulary) out."""
        parts = zip(self.members, torch.split(hidden, self.dims, dim=-1), strict=True)
        logs = torch.stack([member.logits(part).log_softmax(dim=-1) for member, part in parts])
        return logs.logsumexp(dim=0) - math.log(len(self.members))

    def prefill(
        self,
        source: Tensor,
        source_mask: Tensor,
        prefix: Tensor,
        prefix_lengths: Tensor,
        first_sentence: Tensor,
    ) -> tuple[Tensor, KeyValueCache]:
        """Encode sources and read target prefixes; see `MarianSearchModel.prefill`."""
        found = [
            member.prefill(source, source_mask, prefix, prefix_lengths, first_sentence)
            for member in self.members
        ]
        layers = [layer for _, cache in found for layer in cache.layers]
        hidden = torch.cat([states for states, _ in found], dim=-1)
        return hidden, replace(found[0][1], layers=layers)

    def step(self, tokens: Tensor, cache: KeyValueCache) -> Tensor:
        """Read the next token of every beam; see `MarianSearchModel.step`."""
        hidden = []
        start = 0
        for member, count in zip(self.members, self.layers, strict=True):
            own = replace(cache, layers=cache.layers[start : start + count])
            hidden.append(member.step(tokens, own))
            start += count
        # Each member has made the same entries of mask and positions.
        cache.attention_mask, cache.is_near = own.attention_mask, own.is_near
        cache.positions, cache.length = own.positions, own.length
        return torch.cat(hidden, dim=-1)
