"""DocFlat (Wu et al. 2023): attention over the word embeddings of many sentences, behind a gate.

Before the first layer of each stack, the current sentence attends to the word embeddings of all
sentences of a flattened batch (flat-batch attention, FBA), on the target side to earlier ones only:

    g = sigmoid(psi(FBA(H))),   out = LN((1 - g) * H + g * FBA(H))

with a soft gate (DocFlat_C) or a hard one at 0.5 (DocFlat_D). Then the stacks read the near context
as Doc2Doc does. Embeddings hold no context, so the flattened batch of consecutive sentences is, for
the last of them, one wide window: `far_context` sentences on top of `windows.context`. So rows do
not interact, and in decoding earlier translations are complete, as in training. What differs from
the paper: no sentences after the current one; a learned embedding of the distance in sentences
where the paper puts the sentence's index in place of `<s>`; a straight-through gradient for the
hard gate; context passes as LN(H).
"""

from typing import Any

import torch
from torch import Tensor, nn

from iada.models.document import (
    DocumentConfig,
    DocumentModel,
    MakeAttention,
    WindowAttention,
    WindowDecoder,
    WindowEncoder,
)
from iada.models.layout import ALL, Layout, Place, Sentences, last_number, recent


class FlatBatchAttention(nn.Module):
    """Attention of the last sentence over the embeddings of the window, gate and norm."""

    def __init__(self, config: DocumentConfig, place: Place) -> None:
        super().__init__()
        self.place: Place = place
        self.is_hard = config.gate == "hard"
        # The keys and values of the decoder's lie behind those of all layers in the cache.
        self.attention = WindowAttention(config, place, ALL, config.decoder_layers)
        self.distances = nn.Embedding(config.context + config.far_context + 1, config.d_model)
        self.gate = nn.Linear(config.d_model, config.d_model)
        self.norm = nn.LayerNorm(config.d_model)

    def forward(
        self, embeddings: Tensor, sentences: Sentences, layout: Layout, past_key_values: Any = None
    ) -> Tensor:
        """Return what the stack reads in place of its word embeddings.

        Args:
            embeddings: (rows, queries, dim): of the last positions of the side.
            sentences: the whole side.
            layout: of the window.
            past_key_values: cache of the positions before.
        """
        queries = embeddings.shape[1]
        distance = self.count_back(sentences)[:, -queries:]
        marked = self.mark(embeddings, distance)
        flat, _ = self.attention(marked, past_key_values=past_key_values, layout=layout)
        return self.mix(embeddings, flat, distance)

    def count_back(self, sentences: Sentences) -> Tensor:
        """(rows, length): sentences from each token to the last sentence of its side."""
        farthest = self.distances.num_embeddings - 1
        return (last_number(sentences) - sentences.numbers).clamp(min=0, max=farthest)

    def mark(self, embeddings: Tensor, distance: Tensor) -> Tensor:
        """Return what attends and is attended to: embeddings that know how far back they are."""
        marked: Tensor = embeddings + self.distances(distance)
        return marked

    def mix(self, embeddings: Tensor, flat: Tensor, distance: Tensor) -> Tensor:
        """Let what attention found, (rows, queries, dim), through the gate in the last sentence."""
        share = torch.sigmoid(self.gate(flat))
        if self.is_hard:
            # Rounded forwards; backwards as if it were not.
            share = (share > 0.5).to(share.dtype) + share - share.detach()
        mixed = (1 - share) * embeddings + share * flat
        normed: Tensor = self.norm(torch.where((distance == 0)[..., None], mixed, embeddings))
        return normed


def near_positions(sentences: Sentences, context: int) -> Tensor:
    """(rows, length): positions counted from the first of the near sentences; 0 before it."""
    is_far = sentences.present & (sentences.numbers < last_number(sentences) - context)
    return (sentences.positions - is_far.sum(dim=1, keepdim=True)).clamp(min=0)


class DocFlatEncoder(WindowEncoder):  # type: ignore[no-untyped-call]
    """An encoder whose embeddings have seen the wide window."""

    def __init__(self, config: DocumentConfig, attention: MakeAttention) -> None:
        super().__init__(config, attention)
        self.flat = FlatBatchAttention(config, "encoder")

    def embed(self, embeddings: Tensor, layout: Layout) -> Tensor:
        """Read the wide window, then add the positions of the near one."""
        mixed: Tensor = self.flat(embeddings, layout.source, layout)
        positions = near_positions(layout.source, self.config.context)
        added: Tensor = self.embed_positions(embeddings.shape[:-1], position_ids=positions)
        return mixed + added


class DocFlatDecoder(WindowDecoder):  # type: ignore[no-untyped-call]
    """A decoder whose embeddings have seen the wide window."""

    def __init__(self, config: DocumentConfig, attention: MakeAttention) -> None:
        super().__init__(config, attention)
        self.flat = FlatBatchAttention(config, "decoder")

    def embed(self, embeddings: Tensor, layout: Layout, past_key_values: Any) -> Tensor:
        """Read the wide window, then add the positions of the near one."""
        assert layout.target is not None
        mixed: Tensor = self.flat(embeddings, layout.target, layout, past_key_values)
        positions = near_positions(layout.target, self.config.context)[:, -layout.queries :]
        added: Tensor = self.embed_positions(embeddings.shape[:-1], position_ids=positions)
        return mixed + added


class DocFlatConfig(DocumentConfig):  # type: ignore[no-untyped-call]
    """Configuration of `DocFlatModel`."""

    model_type = "iada_docflat"


class DocFlatModel(DocumentModel):  # type: ignore[no-untyped-call]
    """DocFlat with a soft or a hard gate."""

    config_class = DocFlatConfig

    def make_encoder(self) -> WindowEncoder:
        """Make the encoder."""
        return DocFlatEncoder(self.config, self.attention)

    def make_decoder(self) -> WindowDecoder:
        """Make the decoder."""
        return DocFlatDecoder(self.config, self.attention)

    @property
    def cached_layers(self) -> int:
        """Layers of the cache of keys and values that decoding needs."""
        return int(self.config.decoder_layers) + 1

    def attention(self, place: Place, layer: int) -> WindowAttention:
        """Make the attention of a layer, which reads the near sentences."""
        return WindowAttention(self.config, place, recent(self.config.context), layer)
